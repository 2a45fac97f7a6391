"""Stands for weights of rerankers that are too large for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Logits:
    """A cross-encoder that gives these logits, in order."""

    def __init__(self, *logits: float) -> None:
        self._logits = logits

    def rerank(self, query: str, documents: Iterable[str], batch_size: int) -> Iterator[float]:
        assert query
        assert batch_size > 0
        return iter(self._logits[: len(list(documents))])
