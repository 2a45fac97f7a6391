"""Embedders and rerankers in GGUF behind the same ports as those in ONNX: llama.cpp runs them, in a child process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from appliance.core.errors import ModelNotFoundError
from appliance.core.ports import Vector
from appliance.engine.embedding import MOST_INPUT_TOKENS, EmbeddingProcess

_RERANKED_TOKENS = 2048
_TEXTS_AT_ONCE = 64


class GgufEmbedder:
    """Embeds texts with the pooling that the weights state."""

    def __init__(
        self, process: EmbeddingProcess, *, weights_digest: str, text_prefix: str = "", query_prefix: str = ""
    ) -> None:
        self._process = process
        self._text_prefix = text_prefix
        self._query_prefix = query_prefix
        model = process.open()
        self._dimension = model.dimension
        self._max_input_tokens = model.max_input_tokens
        self._digest = _digest_of(weights_digest, text_prefix, query_prefix)

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        name: str = "",
        weights_digest: str = "",
        max_input_tokens: int = 0,
        text_prefix: str = "",
        query_prefix: str = "",
        threads: int = 2,
    ) -> GgufEmbedder:
        """Load weights; a file that was never hashed is hashed now.

        Raises:
            ModelNotFoundError: the file cannot be read.
            ApplianceError: the weights cannot be used.
        """
        longest = min(max_input_tokens or MOST_INPUT_TOKENS, MOST_INPUT_TOKENS)
        process = EmbeddingProcess(path, name=name, max_input_tokens=longest, threads=threads)
        try:
            return cls(
                process,
                weights_digest=weights_digest or _sha256(path),
                text_prefix=text_prefix,
                query_prefix=query_prefix,
            )
        except BaseException:
            process.close()
            raise

    @property
    def digest(self) -> str:
        """The sha256 over weights and settings."""
        return self._digest

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return self._dimension

    @property
    def max_input_tokens(self) -> int:
        """Longest text in tokens, special tokens included, that is embedded whole."""
        return self._max_input_tokens

    @property
    def adds_up(self) -> bool:
        """Tokens of parts are not known to add up."""
        return False

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text as it is embedded, special tokens included."""
        return self._process.count_tokens([self._text_prefix + text])[0]

    def fits_query(self, text: str) -> bool:
        """Whether a search query is embedded whole, its prefix included."""
        return self._process.count_tokens([self._query_prefix + text])[0] <= self._max_input_tokens

    def token_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return as many character spans as each text has tokens; where they lie is an even spread.

        llama.cpp does not say which characters a token stands for. Sizes, which these spans are counted for, are
        exact; a cut inside a sentence may be some characters off.
        """
        counts = self._process.count_tokens(texts) if texts else []
        return [
            _spread(text, max(0, count - self._special_tokens))
            for text, count in zip(texts, counts, strict=True)
        ]

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts in order.

        Raises:
            InvalidRequestError: a text is too long; nothing is cut in silence.
        """
        prefixed = [self._text_prefix + text for text in texts]
        vectors: list[Vector] = []
        for start in range(0, len(prefixed), _TEXTS_AT_ONCE):
            vectors += self._process.embed(prefixed[start : start + _TEXTS_AT_ONCE])
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed one search query; models that tell queries from passages get the query's prefix."""
        return self._process.embed([self._query_prefix + text])[0]

    def close(self) -> None:
        """End the process that holds the weights."""
        self._process.close()

    @cached_property
    def _special_tokens(self) -> int:
        return self._process.count_tokens([""])[0]


class GgufReranker:
    """Scores passages with a cross-encoder in GGUF."""

    def __init__(self, process: EmbeddingProcess) -> None:
        self._process = process

    @classmethod
    def load(cls, path: Path, *, name: str = "", max_input_tokens: int = 0, threads: int = 2) -> GgufReranker:
        """Load weights.

        Raises:
            ApplianceError: they cannot be used.
        """
        longest = min(max_input_tokens or _RERANKED_TOKENS, _RERANKED_TOKENS)
        process = EmbeddingProcess(path, name=name, max_input_tokens=longest, threads=threads)
        try:
            process.open()
        except BaseException:
            process.close()
            raise
        return cls(process)

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return a score for each passage, from 0 to 1; higher is better."""
        return self._process.score(question, passages) if passages else []

    def close(self) -> None:
        """End the process that holds the weights."""
        self._process.close()


def _spread(text: str, count: int) -> list[tuple[int, int]]:
    """Spread spans evenly over the characters that are not white space."""
    places = [place for place, character in enumerate(text) if not character.isspace()]
    if not places or not count:
        return []
    firsts = [places[number * len(places) // count] for number in range(count)]
    lasts = [places[max(0, (number + 1) * len(places) // count - 1)] for number in range(count)]
    return [(first, max(first, last) + 1) for first, last in zip(firsts, lasts, strict=True)]


def _digest_of(weights_digest: str, text_prefix: str, query_prefix: str) -> str:
    settings = {"weights": weights_digest, "text_prefix": text_prefix, "query_prefix": query_prefix}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as exc:
        raise ModelNotFoundError(f"the embedder's file {path} cannot be read: {exc.strerror}") from exc
