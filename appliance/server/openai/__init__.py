"""Routes with OpenAI's names, fields, errors and status codes."""
