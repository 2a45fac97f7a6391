"""Data: model cards, prompts and schemas. Holds no code and never weights."""
