"""Saved prefixes are found by their exact tokens; a damaged, foreign or other owner's file is a miss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from appliance.engine.prefix_store import PrefixStore

IDENTITY = {"model": "m", "build": "b"}
TOKENS = np.arange(100, dtype=np.int32)


def open_store(
    folder: Path, *, identity: dict[str, str] = IDENTITY, limit_bytes: int = 1 << 20
) -> PrefixStore:
    return PrefixStore(folder, identity=identity, limit_bytes=limit_bytes)


def the_file(folder: Path) -> Path:
    (path,) = folder.rglob("*.kv")
    return path


def test_a_saved_prefix_is_found_after_a_restart(tmp_path: Path) -> None:
    open_store(tmp_path).save("ann", TOKENS, b"cells")

    reopened = open_store(tmp_path)
    restored = reopened.restore("ann", np.concatenate([TOKENS[:80], TOKENS[:5]]).astype(np.int32))

    assert restored is not None
    assert restored[0].tolist() == TOKENS.tolist()
    assert restored[1] == b"cells"
    assert reopened.longest_match("ann", TOKENS[:80]) == 80


def test_a_prefix_is_never_found_for_another_owner(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.save("ann", TOKENS, b"cells")

    assert store.longest_match("bob", TOKENS) == 0
    assert store.restore("bob", TOKENS) is None


def test_a_file_moved_to_another_owner_is_a_miss(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.save("ann", TOKENS, b"cells")
    store.save("bob", TOKENS[:50] + 500, b"other")
    (bobs_folder,) = {p.parent for p in tmp_path.rglob("*.kv")} - {the_file_of(tmp_path, b"cells").parent}
    stolen = bobs_folder / "stolen.kv"
    stolen.write_bytes(the_file_of(tmp_path, b"cells").read_bytes())

    assert open_store(tmp_path).longest_match("bob", TOKENS) == 0


def the_file_of(folder: Path, state: bytes) -> Path:
    (path,) = (p for p in folder.rglob("*.kv") if state in p.read_bytes())
    return path


def test_another_model_or_build_is_a_miss(tmp_path: Path) -> None:
    open_store(tmp_path).save("ann", TOKENS, b"cells")

    assert open_store(tmp_path, identity={"model": "m", "build": "newer"}).count == 0


@pytest.mark.parametrize("position", [0, 20, 90, 300, -40, -1])
def test_a_flipped_byte_is_a_miss_and_the_file_goes(tmp_path: Path, position: int) -> None:
    open_store(tmp_path).save("ann", TOKENS, b"cells" * 20)
    path = the_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[position] ^= 0x01
    path.write_bytes(bytes(data))

    assert open_store(tmp_path).restore("ann", TOKENS) is None


@pytest.mark.parametrize("keep", [0, 3, 15, 60, 150, 450, 500])
def test_a_truncated_file_is_a_miss(tmp_path: Path, keep: int) -> None:
    open_store(tmp_path).save("ann", TOKENS, b"cells" * 20)
    path = the_file(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])

    assert open_store(tmp_path).restore("ann", TOKENS) is None


def test_a_longer_prefix_replaces_the_one_it_contains(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.save("ann", TOKENS[:50], b"short")
    store.save("ann", TOKENS, b"long")

    assert store.count == 1
    assert len(list(tmp_path.rglob("*.kv"))) == 1


def test_the_size_stays_within_its_limit(tmp_path: Path) -> None:
    store = open_store(tmp_path, limit_bytes=2500)
    for number in range(5):
        store.save("ann", (TOKENS + 1000 * number).astype(np.int32), bytes(500))

    assert store.size_bytes <= 2500
    assert store.longest_match("ann", (TOKENS + 4000).astype(np.int32)) == 100


def test_forgetting_an_owner_leaves_no_file_of_his(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.save("ann", TOKENS, b"anns")
    store.save("bob", TOKENS, b"bobs")

    assert store.forget("ann") == 1
    assert store.longest_match("bob", TOKENS) == 100
    assert all(b"anns" not in path.read_bytes() for path in tmp_path.rglob("*.kv"))


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 60_000,
        b"[]",
        b"7",
        b"\xff",
        b'{"identity": "x", "owner": OWNER, "tokens": 1000000000000}',
        b'{"identity": "x", "owner": OWNER, "tokens": -1}',
        b'{"identity": "x", "owner": OWNER, "tokens": 1e400}',
        b'{"identity": "x", "owner": OWNER, "tokens": NaN}',
        b'{"identity": "x", "owner": OWNER, "tokens": null}',
    ],
    ids=lambda header: header[:70].decode("latin-1"),
)
def test_a_header_that_makes_no_sense_is_a_miss_and_the_file_goes(tmp_path: Path, header: bytes) -> None:
    open_store(tmp_path).save("ann", TOKENS, b"cells")
    path = the_file(tmp_path)
    magic = path.read_bytes().partition(b"\n")[0]
    owner = b'"' + path.parent.name.encode() + b'"'
    path.write_bytes(magic + b"\n" + header.replace(b"OWNER", owner) + b"\n" + bytes(64))

    assert open_store(tmp_path).longest_match("ann", TOKENS) == 0
    assert not path.exists()


def test_forgetting_an_owner_deletes_what_another_process_saved_meanwhile(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    open_store(tmp_path).save("ann", TOKENS, b"cells")

    assert store.forget("ann") == 1
    assert not list(tmp_path.rglob("*.kv"))
