"""An embedder that is loaded when it is first used, for features that embed seldom."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from appliance.core.ports import Embedder, Vector


class LateEmbedder:
    """An `Embedder`; every use may raise what opening it raises."""

    def __init__(self, load: Callable[[], Embedder]) -> None:
        self._load = load
        self._loaded: Embedder | None = None
        self._loading = threading.Lock()

    @property
    def digest(self) -> str:
        """The sha256 that identifies weights and settings."""
        return self._embedder().digest

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return self._embedder().dimension

    @property
    def max_input_tokens(self) -> int:
        """Longest text in tokens that is embedded whole."""
        return self._embedder().max_input_tokens

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        return self._embedder().count_tokens(text)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts in order."""
        return self._embedder().embed(texts)

    def _embedder(self) -> Embedder:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded
