"""The embedder port over fastembed, from local files only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.core.capabilities import ModelCard, Pooling
from appliance.core.errors import InvalidRequestError, ModelFileError, ModelNotFoundError
from appliance.core.ports import Vector

if TYPE_CHECKING:
    from fastembed import TextEmbedding
    from tokenizers import Tokenizer

# Batches of 4 are as fast as larger ones on a CPU; fastembed's default of 256 needs ten times the memory.
_BATCH_SIZE = 4
_DEFAULT_THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSettings:
    """How the weights are used; part of the digest, since another choice gives other vectors."""

    pooling: Pooling = "mean"
    model_file: str = "model.onnx"
    text_prefix: str = ""
    query_prefix: str = ""

    @classmethod
    def of_card(cls, card: ModelCard) -> EmbedderSettings:
        """Return how a card says its weights are used."""
        return cls(pooling=card.pooling, text_prefix=card.passage_prefix, query_prefix=card.query_prefix)


class FastembedEmbedder:
    """Embeds texts with an ONNX model in a local folder."""

    def __init__(
        self,
        model: TextEmbedding,
        tokenizer: Tokenizer,
        settings: EmbedderSettings,
        *,
        digest: str,
        max_input_tokens: int,
        threads: int,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._settings = settings
        self._digest = digest
        self._max_input_tokens = max_input_tokens
        self._threads = threads
        self._dimension = len(next(iter(model.embed(["x"], batch_size=1))))

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        settings: EmbedderSettings | None = None,
        threads: int = _DEFAULT_THREADS,
    ) -> FastembedEmbedder:
        """Load weights and tokenizer of a folder; nothing is downloaded.

        Raises:
            ModelNotFoundError: the folder lacks a file.
            ModelFileError: a file cannot be used.
        """
        chosen = settings or EmbedderSettings()
        digest = _digest_of(folder, chosen)
        limit = _input_limit(folder)
        try:
            model = _load_model(folder, chosen, digest)
            tokenizer = _load_tokenizer(folder)
            return cls(model, tokenizer, chosen, digest=digest, max_input_tokens=limit, threads=threads)
        except Exception as exc:
            # onnxruntime and tokenizers raise bare Exception subclasses of their own for unreadable files.
            raise ModelFileError(
                f"the embedder in {folder} cannot be loaded: {exc}",
                hint="fetch the embedder again; its files may be damaged",
            ) from exc

    @property
    def digest(self) -> str:
        """The sha256 over weights, tokenizer and settings."""
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
        """Whether a text that is cut at white space has as many tokens as its parts: BERT splits there first."""
        return type(self._tokenizer.pre_tokenizer).__name__ == "BertPreTokenizer"

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text before any truncation, special tokens included."""
        return len(self._tokenizer.encode(self._settings.text_prefix + text).ids)

    def fits_query(self, text: str) -> bool:
        """Whether a search query is embedded whole, its prefix included."""
        return len(self._tokenizer.encode(self._settings.query_prefix + text).ids) <= self._max_input_tokens

    def token_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the character span of each token of each text, special tokens left out."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.offsets for encoding in encodings]

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts in order.

        Raises:
            InvalidRequestError: a text is too long; nothing is cut in silence.
        """
        return self._embed([self._settings.text_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Embed one search query; models that tell queries from passages get the query's prefix."""
        return self._embed([self._settings.query_prefix + text])[0]

    def close(self) -> None:
        """Nothing is held beyond this object."""

    def _embed(self, texts: list[str]) -> list[Vector]:
        lengths = self._checked_lengths(texts)
        # A batch is padded to its longest text, so texts of like length go together.
        order = sorted(range(len(texts)), key=lengths.__getitem__)
        vectors: list[Vector] = [[]] * len(texts)
        batches = [order[start : start + _BATCH_SIZE] for start in range(0, len(order), _BATCH_SIZE)]
        if len(batches) == 1:
            self._fill(batches[0], texts, vectors)
            return vectors
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(lambda batch: self._fill(batch, texts, vectors), batches))
        return vectors

    def _fill(self, positions: list[int], texts: list[str], vectors: list[Vector]) -> None:
        batch = [texts[position] for position in positions]
        for position, vector in zip(positions, self._model.embed(batch, batch_size=_BATCH_SIZE), strict=True):
            vectors[position] = vector.tolist()

    def _checked_lengths(self, texts: list[str]) -> list[int]:
        lengths = [len(encoding.ids) for encoding in self._tokenizer.encode_batch(texts)]
        for position, length in enumerate(lengths):
            if length > self._max_input_tokens:
                raise InvalidRequestError(
                    f"text {position} has {length} tokens; the embedder takes {self._max_input_tokens}",
                    hint="split the text into chunks; it is not cut in silence",
                    tokens=length,
                    limit=self._max_input_tokens,
                )
        return lengths


def _load_model(folder: Path, settings: EmbedderSettings, digest: str) -> TextEmbedding:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    name = f"local/{digest}"
    if name not in {str(entry["model"]) for entry in TextEmbedding.list_supported_models()}:
        TextEmbedding.add_custom_model(
            model=name,
            pooling=PoolingType.MEAN if settings.pooling == "mean" else PoolingType.CLS,
            normalization=True,
            sources=ModelSource(hf="local/unused"),
            dim=1,
            model_file=settings.model_file,
        )
    # One thread inside the session and several callers beat one caller with several threads inside,
    # by far when the cores are shared: no thread waits for another within a layer.
    return TextEmbedding(
        name,
        specific_model_path=str(folder),
        threads=1,
        providers=["CPUExecutionProvider"],
        enable_cpu_mem_arena=False,
    )


def _load_tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # A tokenizer.json may carry truncation and padding of its own, which would hide the true length.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _input_limit(folder: Path) -> int:
    try:
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        limit = int(config["model_max_length"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelFileError(
            f"tokenizer_config.json in {folder} does not state model_max_length: {exc}",
            hint="fetch the embedder again",
        ) from exc
    if not 8 <= limit <= 1 << 20:
        raise ModelFileError(f"tokenizer_config.json in {folder} states a model_max_length of {limit}")
    return limit


def _digest_of(folder: Path, settings: EmbedderSettings) -> str:
    digest = hashlib.sha256()
    for name in (settings.model_file, "tokenizer.json", "tokenizer_config.json"):
        digest.update(name.encode())
        for block in _blocks_of(folder / name):
            digest.update(block)
    digest.update(json.dumps(asdict(settings), sort_keys=True).encode())
    return digest.hexdigest()


def _blocks_of(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                yield block
    except OSError as exc:
        raise ModelNotFoundError(
            f"the embedder's file {path.name} cannot be read in {path.parent}: {exc.strerror}",
            hint="fetch the embedder with `appliance pull`",
        ) from exc
