"""Few-shot examples chosen for each question: those whose question is most like it."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.core.ports import Embedder, Vector
from appliance.prompts.template import Example


class ExampleBank:
    """Examples and the vectors of their questions, made when the first one is looked for."""

    def __init__(self, examples: Sequence[Example], embedder: Embedder) -> None:
        self._examples = tuple(examples)
        self._embedder = embedder
        self._vectors: list[Vector] = []

    def nearest(self, question: str, *, count: int, least_similarity: float = 0.0) -> list[Example]:
        """Return the most similar examples, the most similar last: what stands nearest counts most.

        Raises:
            InvalidRequestError: a text is longer than the embedder takes.
        """
        if not self._examples or count <= 0:
            return []
        if not self._vectors:
            self._vectors = self._embedder.embed([example.user for example in self._examples])
        (asked,) = self._embedder.embed([question])
        similarities = [_similarity(asked, vector) for vector in self._vectors]
        ranked = sorted(range(len(self._examples)), key=lambda position: (-similarities[position], position))
        chosen = [position for position in ranked[:count] if similarities[position] >= least_similarity]
        return [self._examples[position] for position in reversed(chosen)]


def _similarity(one: Vector, other: Vector) -> float:
    """Cosine similarity: the vectors of an embedder have length 1."""
    return sum(a * b for a, b in zip(one, other, strict=True))
