"""Verdicts on cached builds survive, and damage to them is no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.engine.build_record import VERDICT_FILE, CachedVerdict, read_verdict, write_verdict


def test_a_verdict_reads_as_it_was_written(tmp_path: Path) -> None:
    verdict = CachedVerdict(is_fault=True, reason="crashed on its first prompt (SIGSEGV)")

    write_verdict(tmp_path / "build", verdict)

    assert read_verdict(tmp_path / "build") == verdict


def test_a_later_verdict_replaces_the_earlier_and_leaves_no_draft(tmp_path: Path) -> None:
    write_verdict(tmp_path, CachedVerdict(is_fault=True, reason="crashed"))
    write_verdict(tmp_path, CachedVerdict(is_fault=False, reason="evaluated"))

    assert read_verdict(tmp_path) == CachedVerdict(is_fault=False, reason="evaluated")
    assert [path.name for path in tmp_path.iterdir()] == [VERDICT_FILE]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"is_fault": true}', "null"])
def test_a_damaged_verdict_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / VERDICT_FILE).write_text(content)

    assert read_verdict(tmp_path) is None
