"""The engine: one worker process a loaded model, one scheduler, many sequences."""
