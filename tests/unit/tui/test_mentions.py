"""Documents and collections named in a question."""

from __future__ import annotations

import pytest

from tui.mentions import begun_mention, completed, matching, mentioned, scope_of, without_mentions
from tui.rows import NamedSource

KNOWN = [
    NamedSource(name="leases", kind="collection"),
    NamedSource(name="lease.pdf", kind="document", document_id="d1"),
    NamedSource(name="my notes.txt", kind="document", document_id="d2"),
    NamedSource(name="lease.pdf", kind="document", document_id="d3"),
]


@pytest.mark.parametrize(
    "text, names",
    [
        ("what says @lease.pdf?", ["lease.pdf?"]),
        ('@"my notes.txt" and @leases', ["my notes.txt", "leases"]),
        ("write to me@example.org", []),
        ("an @ alone", []),
        ("@a @a", ["a"]),
    ],
)
def test_a_mention_begins_a_word(text: str, names: list[str]) -> None:
    assert mentioned(text) == names


def test_names_mean_collections_and_every_document_of_that_name() -> None:
    scope, unknown = scope_of('say @Leases, @lease.pdf. and @"my notes.txt" or @nothing', KNOWN)

    assert scope.collections == ("leases",)
    assert scope.document_ids == ("d1", "d3", "d2")
    assert unknown == ["nothing"]


def test_the_question_is_searched_without_the_names() -> None:
    assert without_mentions("@leases when does it end?") == "when does it end?"
    assert without_mentions("@leases") == "@leases"


@pytest.mark.parametrize(
    "before, begun",
    [("@", ""), ("ask @le", "le"), ('ask @"my no', "my no"), ("a@b", None), ("@done ", None), ("x", None)],
)
def test_a_mention_being_written_is_seen(before: str, begun: str | None) -> None:
    assert begun_mention(before) == begun


def test_a_name_with_spaces_is_written_in_quotation_marks() -> None:
    (notes,) = matching("notes", KNOWN)

    assert completed("ask @notes", notes) == 'ask @"my notes.txt" '
    assert completed("ask @le", KNOWN[0]) == "ask @leases "
