from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from appliance.catalog.cards import read_card
from appliance.core.errors import InvalidRequestError, ModelFileError, ModelNotFoundError
from appliance.retrieval.embedder import EmbedderSettings, FastembedEmbedder

TEXTS = [
    "A cat sat.",
    "",
    "Stock markets fell sharply on Monday after the news. " * 8,
    "数据库",
    "A kitten sat down.",
]


@pytest.fixture(scope="module")
def embedder(embedder_folder: Path) -> FastembedEmbedder:
    return FastembedEmbedder.load(embedder_folder)


def test_vectors_have_length_one_and_come_in_order(embedder: FastembedEmbedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert [len(vector) for vector in vectors] == [embedder.dimension] * len(TEXTS)
    assert all(math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-4) for vector in vectors)
    alone = [embedder.embed([text])[0] for text in TEXTS]
    for together, single in zip(vectors, alone, strict=True):
        assert sum(a * b for a, b in zip(together, single, strict=True)) > 0.9999


def test_near_meaning_is_near(embedder: FastembedEmbedder) -> None:
    cat, _, market, _, kitten = embedder.embed(TEXTS)
    assert sum(map(math.prod, zip(cat, kitten, strict=True))) > 2 * sum(
        map(math.prod, zip(cat, market, strict=True))
    )


def test_a_text_that_does_not_fit_is_refused_with_its_count(embedder: FastembedEmbedder) -> None:
    fitting = "word " * (embedder.max_input_tokens - 2)
    assert embedder.count_tokens(fitting) == embedder.max_input_tokens
    embedder.embed([fitting])
    with pytest.raises(InvalidRequestError, match=f"text 1 has {embedder.max_input_tokens + 1} tokens"):
        embedder.embed(["fine", fitting + "word"])


def test_tokens_are_counted_beyond_the_limit(embedder: FastembedEmbedder) -> None:
    assert embedder.count_tokens("word " * 1000) == 1002
    (spans,) = embedder.token_spans(["word " * 1000])
    assert len(spans) == 1000


def test_no_text_gives_no_vector(embedder: FastembedEmbedder) -> None:
    assert embedder.embed([]) == []


def test_threads_share_one_embedder(embedder: FastembedEmbedder) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: embedder.embed(TEXTS), range(4)))
    assert all(result == results[0] for result in results)


def test_the_digest_changes_with_settings_and_files(embedder_folder: Path, tmp_path: Path) -> None:
    usual = FastembedEmbedder.load(embedder_folder).digest
    assert FastembedEmbedder.load(embedder_folder, threads=1).digest == usual
    assert FastembedEmbedder.load(embedder_folder, settings=EmbedderSettings(pooling="cls")).digest != usual
    copy = tmp_path / "copy"
    shutil.copytree(embedder_folder, copy)
    (copy / "tokenizer_config.json").unlink()
    (copy / "tokenizer_config.json").write_text('{"model_max_length": 128, "pad_token": "[PAD]"}')
    assert FastembedEmbedder.load(copy).digest != usual
    assert FastembedEmbedder.load(copy).max_input_tokens == 128


def test_missing_and_damaged_files_are_named(embedder_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"model\.onnx"):
        FastembedEmbedder.load(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(embedder_folder, copy)
    (copy / "model.onnx").unlink()
    (copy / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        FastembedEmbedder.load(copy)


NOMIC = """
id = "tiny:onnx"
family = "bert"
licence = "MIT"
capabilities = ["embed"]
query_prefix = "search_query: "
passage_prefix = "search_document: "

[[files]]
name = "model.onnx"
sources = ["hf:u/r/model.onnx"]
"""


class RecordingRuntime:
    """Keeps the texts that reach the weights."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: list[str], batch_size: int) -> Iterator[NDArray[np.float32]]:
        assert batch_size >= len(texts)
        self.texts += texts
        for text in texts:
            yield np.array([1.0, float(len(text))], dtype=np.float32)


def with_prefixes(folder: Path, runtime: RecordingRuntime) -> FastembedEmbedder:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    embedder = FastembedEmbedder(
        runtime,  # type: ignore[arg-type]
        tokenizer,
        EmbedderSettings.of_card(read_card(NOMIC, "tiny.toml")),
        digest="d",
        max_input_tokens=16,
        threads=1,
    )
    runtime.texts.clear()
    return embedder


def test_questions_and_passages_get_the_prefixes_of_the_card(embedder_folder: Path) -> None:
    runtime = RecordingRuntime()
    embedder = with_prefixes(embedder_folder, runtime)

    embedder.embed(["a passage"])
    embedder.embed_query("a question")

    assert runtime.texts == ["search_document: a passage", "search_query: a question"]


def test_prefixes_count_towards_what_fits(embedder_folder: Path) -> None:
    embedder = with_prefixes(embedder_folder, RecordingRuntime())

    # "search", "_", "document" or "query", ":", and the two special tokens.
    assert embedder.count_tokens("word") == 7
    assert embedder.fits_query("word " * 10)
    assert not embedder.fits_query("word " * 11)


def test_another_prefix_is_another_embedder(embedder_folder: Path) -> None:
    usual = FastembedEmbedder.load(embedder_folder)
    settings = EmbedderSettings.of_card(read_card(NOMIC, "tiny.toml"))
    other = FastembedEmbedder.load(embedder_folder, settings=settings)

    assert other.digest != usual.digest
    assert other.embed(["x"]) == usual.embed(["search_document: x"])
    assert other.embed_query("x") == usual.embed(["search_query: x"])[0]
