"""Models on disk: cards, sources, the store, headers of weights files and the memory they need."""
