from __future__ import annotations

import base64
import gzip
import zlib
from pathlib import Path

import pytest

from appliance.memory.byte_scan import scan_files

NEEDLE = "Kowalska"


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b"... Kowalska ...", "utf-8"),
        (b"... KOWALSKA ...", "utf-8"),
        ("x Kowalska x".encode("utf-16-le"), "utf-16-le"),
        ("x Kowalska x".encode("utf-16-be"), "utf-16-be"),
        (base64.b64encode(b"Kowalska ..."), "base64"),
        (base64.b64encode(b"x Kowalska ..."), "base64"),
        (base64.b64encode(b"xx Kowalska ..."), "base64"),
        (b"junk" + zlib.compress(b"some Kowalska text"), "compressed utf-8"),
        (b"junk" + gzip.compress(b"some Kowalska text" * 50) + b"tail", "compressed utf-8"),
    ],
)
def test_a_needle_is_found_in_each_form(content: bytes, form: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)

    assert form in {hit.form for hit in scan_files([tmp_path / "file"], [NEEDLE])}


@pytest.mark.parametrize("content", [b"", b"Kowal ska", b"Kowalskas", b"xKowalska", zlib.compress(b"other")])
def test_what_is_not_the_needle_is_no_find(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)

    assert scan_files([tmp_path / "file"], [NEEDLE]) == []


def test_escaped_json_is_seen_through(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"a": "za\\u017c\\u00f3\\u0142\\u0107 here"}')

    assert [hit.form for hit in scan_files([tmp_path / "file"], ["zażółć"])] == ["json"]
