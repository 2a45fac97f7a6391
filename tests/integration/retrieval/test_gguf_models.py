"""Embedders and rerankers in GGUF: the same numbers as in ONNX, in a process that may die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from appliance.app import open_library, open_reranker
from appliance.catalog.catalog import Catalog
from appliance.catalog.importing import import_gguf
from appliance.catalog.store import ModelStore
from appliance.config import load_settings
from appliance.core.errors import InvalidRequestError, ModelFileError, ModelNotFoundError
from appliance.core.requests import LOCAL_OWNER
from appliance.engine.embedding import EmbeddingProcess
from appliance.retrieval.embedder import FastembedEmbedder
from appliance.retrieval.files import find_files
from appliance.retrieval.gguf_models import GgufEmbedder, GgufReranker
from appliance.retrieval.search import SearchRequest
from tests.conftest import stored_model
from tests.minilm_gguf import write_minilm_gguf, write_reranker_gguf

TEXTS = (
    "hello",
    "The cat sat on the mat.",
    "Wie spät ist es in Zürich?",
    "Many words about many things. " * 30,
    "",
    "naïve café 東京 x",
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def weights(embedder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The starter embedder as a GGUF."""
    return write_minilm_gguf(embedder_folder, tmp_path_factory.mktemp("gguf") / "minilm-f16.gguf")


@pytest.fixture(scope="module")
def embedder(weights: Path) -> Iterator[GgufEmbedder]:
    """The starter embedder, run by llama.cpp."""
    loaded = GgufEmbedder.load(weights, max_input_tokens=256, threads=1)
    yield loaded
    loaded.close()


def test_vectors_and_token_counts_are_those_of_the_onnx_embedder(
    embedder: GgufEmbedder, embedder_folder: Path
) -> None:
    onnx = FastembedEmbedder.load(embedder_folder)

    cosines = (np.array(embedder.embed(TEXTS)) * np.array(onnx.embed(TEXTS))).sum(axis=1)

    assert min(cosines) >= 0.999
    assert (embedder.dimension, embedder.max_input_tokens) == (384, 256)
    assert [embedder.count_tokens(text) for text in TEXTS] == [onnx.count_tokens(text) for text in TEXTS]
    assert [len(spans) for spans in embedder.token_spans(TEXTS)] == [
        len(spans) for spans in onnx.token_spans(TEXTS)
    ]


def test_spans_lie_in_the_text_in_order(embedder: GgufEmbedder) -> None:
    (spans,) = embedder.token_spans(["  two  words "])

    assert spans == [(2, 8), (8, 12)]


def test_a_text_that_does_not_fit_is_refused_with_its_count(embedder: GgufEmbedder) -> None:
    with pytest.raises(InvalidRequestError, match=r"has 402 tokens; minilm-f16\.gguf takes 256"):
        embedder.embed(["fine", "word " * 400])

    assert not embedder.fits_query("word " * 400)


def test_a_process_that_was_killed_is_started_again(weights: Path) -> None:
    loaded = GgufEmbedder.load(weights, max_input_tokens=64, threads=1)
    try:
        before = loaded.embed(["hello"])
        (child,) = [
            one for one in psutil.Process().children() if "appliance.engine.embedding_child" in one.cmdline()
            and "64" in one.cmdline()
        ]  # fmt: skip
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
        after = loaded.embed(["hello"])
    finally:
        loaded.close()

    assert after == before


def test_prefixes_are_part_of_the_text_and_of_the_digest(weights: Path, embedder: GgufEmbedder) -> None:
    told = GgufEmbedder.load(
        weights, max_input_tokens=256, text_prefix="passage: ", query_prefix="query: ", threads=1
    )
    try:
        assert told.embed(["a cat"]) == embedder.embed(["passage: a cat"])
        assert told.embed_query("a cat") == embedder.embed(["query: a cat"])[0]
        assert told.digest != embedder.digest
    finally:
        told.close()


def test_weights_that_do_not_pool_and_files_that_are_none_are_typed_errors(
    starter_weights: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))

    with pytest.raises(ModelFileError, match="does not say how its tokens become one vector"):
        GgufEmbedder.load(starter_weights, threads=1)
    with pytest.raises(ModelFileError):
        GgufEmbedder.load(broken, weights_digest="x", threads=1)


def test_a_reranker_scores_pairs_as_its_weights_say(embedder_folder: Path, tmp_path: Path) -> None:
    path = write_reranker_gguf(embedder_folder, tmp_path / "reranker.gguf")
    reranker = GgufReranker.load(path, threads=1)
    process = EmbeddingProcess(path, threads=1)
    try:
        scores = reranker.score("Where is the cat?", ["The cat sat on the mat.", "Trains are late.", "x"])
        again = reranker.score("Where is the cat?", ["Trains are late."])
        with pytest.raises(InvalidRequestError, match="these weights are a reranker"):
            process.embed(["x"])
    finally:
        reranker.close()
        process.close()

    assert len({round(score, 6) for score in scores}) == 3
    assert all(0 < score < 1 for score in scores)
    assert again == pytest.approx([scores[1]], abs=1e-3)
    assert reranker.score("x", []) == []


def test_an_imported_gguf_embeds_documents_and_a_chat_model_is_refused(weights: Path, tmp_path: Path) -> None:
    stored_model("smollm2:135m-instruct-q4_1")
    store = tmp_path / "models"
    imported = import_gguf(Catalog(ModelStore(store)), weights, name="minilm:f16")
    paper = tmp_path / "leave.txt"
    paper.write_text("Unused holidays may be taken until the end of March.\n\nTrains leave at noon.\n")
    settings = load_settings({"embedder": imported.id, "models_dir": store, "data_dir": tmp_path / "data"})

    with open_library(settings) as library:
        library.ingestion.add(find_files([str(paper)]), owner=LOCAL_OWNER, collection="c")
        filled = library.fill_vectors()
        found = library.searcher.search(
            SearchRequest(question="vacation days", owner=LOCAL_OWNER, mode="dense")
        )
    with pytest.raises(ModelNotFoundError, match="is no reranker; it is an embedder"):
        open_reranker(load_settings({"reranker": imported.id, "models_dir": store}))
    with pytest.raises(ModelNotFoundError, match="is no embedder; it is a chat model"):
        open_library(load_settings({"embedder": "smollm2:135m-instruct-q4_1", "data_dir": tmp_path / "x"}))

    assert (filled.done, filled.missing) == (1, 0)
    assert found.hits[0].similarity is not None
    assert found.hits[0].similarity > 0.3
