"""Models of other servers, over the API that llama-server, vLLM, Ollama, LM Studio and others share."""
