"""Import: copied, linked, in place, under a name; and what other programs keep."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from appliance.catalog.catalog import Catalog
from appliance.catalog.importing import ImportMode, import_gguf
from appliance.catalog.names import parse_card_name
from appliance.catalog.scanning import scan
from appliance.catalog.store import ModelStore
from appliance.catalog.verifying import verify
from appliance.core.errors import InvalidRequestError, ModelFileError, ModelNotFoundError
from tests.gguf_files import U32, scalar, tiny_model

GGUF = tiny_model().to_bytes()
DIGEST = hashlib.sha256(GGUF).hexdigest()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "My Model-F32.gguf"
    path.write_bytes(GGUF)
    return path


@pytest.mark.parametrize("mode", ["copy", "link", "in_place"])
def test_a_file_is_taken_in_under_a_name_made_of_its_own(
    mode: ImportMode, weights: Path, store: ModelStore
) -> None:
    catalog = Catalog(store, {})
    imported = import_gguf(catalog, weights, mode=mode)
    assert (imported.id, imported.digest, imported.was_there) == ("my-model:f32", DIGEST, False)
    model = catalog.local("my-model")
    assert model.path.read_bytes() == GGUF
    assert model.path.samefile(weights) == (mode != "copy")
    assert import_gguf(catalog, weights, mode=mode).was_there

    removed = store.remove(parse_card_name("my-model:f32"))
    assert removed.freed_bytes == (len(GGUF) if mode == "copy" else 0)
    assert weights.read_bytes() == GGUF


def test_a_file_in_place_that_changes_is_noticed(weights: Path, store: ModelStore) -> None:
    catalog = Catalog(store, {})
    import_gguf(catalog, weights, name="mine:one", mode="in_place")
    weights.write_bytes(tiny_model(20).to_bytes())
    with pytest.raises(ModelFileError) as caught:
        catalog.local("mine:one")
    assert "--in-place --as mine:one" in caught.value.hint
    assert [outcome.state for outcome in verify(store, store.manifests())] == ["changed"]
    weights.unlink()
    assert [outcome.state for outcome in verify(store, store.manifests())] == ["missing"]
    with pytest.raises(ModelFileError, match="is gone"):
        catalog.local("mine:one")


def test_a_touched_file_is_hashed_once_and_still_good(weights: Path, store: ModelStore) -> None:
    catalog = Catalog(store, {})
    import_gguf(catalog, weights, name="mine:one", mode="in_place")
    os.utime(weights)
    assert catalog.local("mine:one").digest == DIGEST
    assert store.is_unchanged(store.manifests()[0].files[0])


def test_a_taken_name_is_not_given_away(weights: Path, store: ModelStore, tmp_path: Path) -> None:
    catalog = Catalog(store)
    import_gguf(catalog, weights, name="mine:one")
    other = tmp_path / "other.gguf"
    other.write_bytes(tiny_model(20).to_bytes())
    with pytest.raises(InvalidRequestError, match="another model already"):
        import_gguf(catalog, other, name="mine:one")
    with pytest.raises(InvalidRequestError, match="another sha256"):
        import_gguf(catalog, other, name="smollm2:135m-instruct-q4_1")
    with pytest.raises(InvalidRequestError, match="has no tag"):
        import_gguf(catalog, other, name="mine")
    with pytest.raises(ModelNotFoundError):
        import_gguf(catalog, other, name="../../x:y")


def test_bad_files_are_not_taken_in(store: ModelStore, tmp_path: Path) -> None:
    catalog = Catalog(store, {})
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(GGUF[:-100])
    part = tiny_model()
    part.keys["split.count"] = scalar(U32, 3)
    split = part.write(tmp_path / "x.gguf")
    named = part.write(tmp_path / "x-00001-of-00003.gguf")
    for path in (cut, split, named, tmp_path):
        with pytest.raises(ModelFileError):
            import_gguf(catalog, path)
    with pytest.raises(ModelNotFoundError):
        import_gguf(catalog, tmp_path / "missing.gguf")
    assert store.manifests() == []
    assert list(store.root.rglob("sha256-*")) == []


def test_a_folder_with_an_onnx_model_is_told_the_way_by_a_card(store: ModelStore, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    with pytest.raises(ModelFileError, match="holds a model in ONNX; import takes GGUF files") as caught:
        import_gguf(Catalog(store, {}), tmp_path)
    assert f"'file:{tmp_path / 'model.onnx'}'" in caught.value.hint


def test_the_file_of_a_known_card_gets_its_name(starter_weights: Path, store: ModelStore) -> None:
    imported = import_gguf(Catalog(store), starter_weights, mode="in_place")
    assert imported.id == "smollm2:135m-instruct-q4_1"
    assert Catalog(store).local("smollm2").card.licence == "Apache-2.0"


def test_a_path_is_a_model_without_the_store(weights: Path, store: ModelStore) -> None:
    catalog = Catalog(store)
    model = catalog.local(str(weights))
    assert (model.path, model.digest, model.card.context_window) == (weights, "", 1024)
    assert catalog.local(weights.as_uri()).path == weights
    with pytest.raises(ModelNotFoundError):
        catalog.local("./missing.gguf")


def test_models_of_other_programs_are_found(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lm_studio = home / ".lmstudio" / "models" / "maker" / "repo"
    lm_studio.mkdir(parents=True)
    (lm_studio / "Tiny-F32.gguf").write_bytes(GGUF)
    (lm_studio / "broken.gguf").write_bytes(GGUF[:500])
    snapshot = home / "hf" / "hub" / "models--u--r" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    blob = home / "hf" / "hub" / "models--u--r" / "blobs"
    blob.mkdir()
    (blob / "123").write_bytes(tiny_model(20).to_bytes())
    (snapshot / "hub.gguf").symlink_to(blob / "123")
    ollama = home / ".ollama" / "models"
    content = tiny_model(30).to_bytes()
    digest = hashlib.sha256(content).hexdigest()
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
    ]
    for name in ("registry.ollama.ai/library/tiny/latest", "registry.ollama.ai/someone/Big Model/q4"):
        manifest = ollama / "manifests" / name
        manifest.parent.mkdir(parents=True)
        manifest.write_text(json.dumps({"layers": layers if "tiny" in name else "nonsense"}))
    (ollama / "blobs").mkdir()
    (ollama / "blobs" / f"sha256-{digest}").write_bytes(content)

    found = scan({"HOME": str(home), "HF_HOME": str(home / "hf")})
    assert [(model.keeper, model.name, bool(model.problem)) for model in found] == [
        ("ollama", "tiny:latest", False),
        ("lm-studio", "Tiny-F32", False),
        ("lm-studio", "broken", True),
        ("hugging-face", "hub", False),
    ]
    assert scan({"HOME": str(tmp_path / "nobody")}) == []
    moved = scan({"HOME": str(tmp_path / "nobody"), "OLLAMA_MODELS": str(ollama)})
    assert [model.name for model in moved] == ["tiny:latest"]
