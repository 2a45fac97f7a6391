from __future__ import annotations

import os
from pathlib import Path

from appliance.documents.discovery import Found, Skipped, discover
from appliance.documents.limits import Limits


def tree(root: Path) -> Path:
    for name in ("b.txt", "a.md", "sub/c.txt", ".git/config", "node_modules/x.js", ".secret", "~$a.docx"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (root / "empty.txt").touch()
    return root


def names(items: list[Found | Skipped], root: Path) -> dict[str, str]:
    return {
        item.path.relative_to(root).as_posix(): "found" if isinstance(item, Found) else item.reason
        for item in items
    }


def test_every_entry_is_found_or_skipped_with_a_reason_in_a_fixed_order(tmp_path: Path) -> None:
    items = list(discover([tree(tmp_path)]))

    assert list(names(items, tmp_path).items()) == [
        (".git", "hidden"),
        (".secret", "hidden"),
        ("a.md", "found"),
        ("b.txt", "found"),
        ("empty.txt", "empty"),
        ("node_modules", "generated"),
        ("sub/c.txt", "found"),
        ("~$a.docx", "office_lock_file"),
    ]


def test_patterns_keep_what_they_match_by_name_or_by_path(tmp_path: Path) -> None:
    tree(tmp_path)

    by_name = names(list(discover([tmp_path], ["*.md"])), tmp_path)
    by_path = names(list(discover([tmp_path], ["sub/*"])), tmp_path)

    assert [name for name, what in by_name.items() if what == "found"] == ["a.md"]
    assert [name for name, what in by_path.items() if what == "found"] == ["sub/c.txt"]
    assert by_name["b.txt"] == "not_matched"


def test_a_named_pattern_is_expanded_and_a_real_name_with_brackets_is_not(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "notes[1].txt").write_text("x")

    by_pattern = [item.path.name for item in discover([tmp_path / "*.txt"]) if isinstance(item, Found)]
    by_name = [item.path.name for item in discover([tmp_path / "notes[1].txt"])]

    assert by_pattern == ["b.txt", "notes[1].txt"]
    assert by_name == ["notes[1].txt"]


def test_a_hidden_file_that_is_named_is_found(tmp_path: Path) -> None:
    tree(tmp_path)

    assert [item.kind for item in discover([tmp_path / ".secret"])] == ["found"]


def test_the_same_file_twice_is_read_once(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.txt")

    found = names(list(discover([tmp_path / "b.txt", tmp_path])), tmp_path)

    assert (found["b.txt"], found["link.txt"]) == ("already_seen", "already_seen")


def test_loops_of_links_end(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")

    found = names(list(discover([tmp_path])), tmp_path)

    assert found["sub/up"] == "link_loop"
    assert found["self"] == "not_found"


def test_what_is_no_file_or_too_large_or_missing_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "big.txt").write_text("x" * 100)

    items = list(discover([tmp_path, tmp_path / "missing"], limits=Limits(file_bytes=50)))

    assert names(items, tmp_path) == {"big.txt": "too_large", "pipe": "not_a_file", "missing": "not_found"}
