"""The reranker port over fastembed's cross-encoders, from local files only."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from appliance.core.errors import ModelFileError, ModelNotFoundError

if TYPE_CHECKING:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

_BATCH_SIZE = 4
_NEEDED = ("model.onnx", "tokenizer.json", "tokenizer_config.json")


class ClosableReranker(Protocol):
    """A reranker that may hold a process."""

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return a score for each passage; higher is better."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class FastembedReranker:
    """Scores passages with an ONNX cross-encoder in a local folder."""

    def __init__(self, model: TextCrossEncoder) -> None:
        self._model = model

    @classmethod
    def load(cls, folder: Path) -> FastembedReranker:
        """Load a folder; nothing is downloaded.

        Raises:
            ModelNotFoundError: the folder lacks a file.
            ModelFileError: a file cannot be used.
        """
        missing = [name for name in _NEEDED if not (folder / name).is_file()]
        if missing:
            raise ModelNotFoundError(
                f"the reranker's files {', '.join(missing)} are not in {folder}",
                hint="fetch the reranker with `appliance pull`",
            )
        try:
            return cls(_load(folder))
        except Exception as exc:
            # onnxruntime and tokenizers raise bare Exception subclasses of their own for unreadable files.
            raise ModelFileError(
                f"the reranker in {folder} cannot be loaded: {exc}", hint="fetch the reranker again"
            ) from exc

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return a score for each passage, from 0 to 1; higher is better."""
        logits = self._model.rerank(question, list(passages), batch_size=_BATCH_SIZE)
        return [_share(float(logit)) for logit in logits]

    def close(self) -> None:
        """Nothing is held beyond this object."""


class LateReranker:
    """A reranker that is loaded by the first search that needs it; every search may raise what loading raises."""

    def __init__(self, load: Callable[[], ClosableReranker]) -> None:
        self._load = load
        self._loaded: ClosableReranker | None = None
        self._loading = threading.Lock()

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return a score for each passage, from 0 to 1; higher is better."""
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
        return self._loaded.score(question, passages)

    def close(self) -> None:
        """Release what was loaded."""
        if self._loaded is not None:
            self._loaded.close()


def _share(logit: float) -> float:
    """The logistic function, written so that no exponent overflows."""
    if logit >= 0:
        return 1.0 / (1.0 + math.exp(-logit))
    return math.exp(logit) / (1.0 + math.exp(logit))


def _load(folder: Path) -> TextCrossEncoder:
    from fastembed.common.model_description import ModelSource
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    name = f"local/{folder.resolve()}"
    if name.lower() not in {
        str(entry["model"]).lower() for entry in TextCrossEncoder.list_supported_models()
    }:
        TextCrossEncoder.add_custom_model(
            model=name, sources=ModelSource(hf="local/unused"), model_file="model.onnx"
        )
    return TextCrossEncoder(
        name, specific_model_path=str(folder), threads=1, providers=["CPUExecutionProvider"]
    )
