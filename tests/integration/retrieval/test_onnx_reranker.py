"""A reranker in ONNX, from its card to its scores: fetched from files, and loaded by name."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from appliance.app import open_reranker
from appliance.catalog.cards import read_card
from appliance.catalog.catalog import Catalog
from appliance.catalog.store import ModelStore
from appliance.config import load_settings
from appliance.core.errors import ModelFileError
from appliance.retrieval.rerank import FastembedReranker
from tests.tiny_onnx import write_tiny_reranker

CARD = """
id = "tiny-reranker:f32"
family = "tiny"
licence = "Apache-2.0"
capabilities = ["rerank"]
"""


@pytest.fixture
def files(embedder_folder: Path, tmp_path: Path) -> Path:
    """The files of a reranker as they lie on a hub."""
    folder = tmp_path / "files"
    folder.mkdir()
    write_tiny_reranker(folder / "model.onnx")
    shutil.copy(embedder_folder / "tokenizer.json", folder)
    shutil.copy(embedder_folder / "tokenizer_config.json", folder)
    return folder


def expected(files: Path, question: str, passage: str) -> float:
    ids = Tokenizer.from_file(str(files / "tokenizer.json")).encode(question, passage)
    used = [token for token, mask in zip(ids.ids, ids.attention_mask, strict=True) if mask]
    return 1 / (1 + math.exp(-math.cos(sum(used) / len(used))))


def test_a_reranker_is_fetched_by_its_card_and_scores_pairs(files: Path, tmp_path: Path) -> None:
    names = ("model.onnx", "tokenizer.json", "tokenizer_config.json")
    sources = [f"[[files]]\nname = '{name}'\nsources = ['file:{files / name}']\n" for name in names]
    card = read_card(CARD + "".join(sources), "tiny.toml")
    Catalog(ModelStore(tmp_path / "models"), {card.id: card}).pull(card.id)
    reranker = open_reranker(load_settings({"reranker": card.id, "models_dir": tmp_path / "models"}))
    assert reranker is not None

    passages = ["A cat sleeps.", "Dogs bark at the cat.", "Trains are late."]
    scores = reranker.score("Where is the cat?", passages)
    reranker.close()

    assert scores == pytest.approx(
        [expected(files, "Where is the cat?", text) for text in passages], abs=1e-4
    )


def test_a_damaged_reranker_is_a_typed_error(files: Path) -> None:
    (files / "model.onnx").write_bytes(b"not a model")

    with pytest.raises(ModelFileError, match="cannot be loaded"):
        FastembedReranker.load(files)
