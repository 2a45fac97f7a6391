"""The HTTP server: OpenAI-compatible and own routes, who may call them, and what is written down about it."""
