"""Names of documents and collections in a question, written @name or @"name with spaces"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from appliance.memory.document_scope import DocumentScope
from tui.rows import NamedSource

_MENTION = re.compile(r"(?:(?<=\s)|^)@(?:\"([^\"\n]+)\"|([^\s\"@][^\s\"]*))")
_BEGUN = re.compile(r"(?:\s|^)@(\"?)([^\"\n]*)$")
_ENDS = ".,;:!?)"


def mentioned(text: str) -> list[str]:
    """Return the names a text mentions, each once, in order."""
    names = [quoted or bare for quoted, bare in _MENTION.findall(text)]
    return list(dict.fromkeys(names))


def without_mentions(text: str) -> str:
    """Return a question without what it mentions, as it is searched for; a text of names alone stays."""
    return _MENTION.sub("", text).strip() or text


def scope_of(text: str, known: Sequence[NamedSource]) -> tuple[DocumentScope, list[str]]:
    """Return what of the known the text mentions, and the mentioned names that nothing has."""
    collections: list[str] = []
    document_ids: list[str] = []
    unknown: list[str] = []
    for name in mentioned(text):
        meant = _meant(name, known) or _meant(name.rstrip(_ENDS), known)
        collections += [one.name for one in meant if one.kind == "collection"]
        document_ids += [one.document_id for one in meant if one.kind == "document"]
        if not meant:
            unknown.append(name)
    return DocumentScope(collections=tuple(collections), document_ids=tuple(document_ids)), unknown


def begun_mention(before_cursor: str) -> str | None:
    """Return what stands behind the @ that is being written; None when none is."""
    found = _BEGUN.search(before_cursor)
    if found is None or (not found[1] and " " in found[2]):
        return None
    return found[2]


def matching(begun: str, known: Sequence[NamedSource]) -> list[NamedSource]:
    """Return the sources that a begun mention may mean: those that begin so, then those that hold it."""
    wanted = begun.casefold()
    first = [one for one in known if one.name.casefold().startswith(wanted)]
    return [*first, *(one for one in known if one not in first and wanted in one.name.casefold())]


def completed(before_cursor: str, source: NamedSource) -> str:
    """Return the text before the cursor with the begun mention written out."""
    found = _BEGUN.search(before_cursor)
    assert found is not None
    name = f'"{source.name}"' if re.search(r"[\s\"]", source.name) else source.name
    return f"{before_cursor[: found.start(1)]}{name} "


def _meant(name: str, known: Sequence[NamedSource]) -> list[NamedSource]:
    """A name means a collection before a document; a document's name may stand for several documents."""
    found = [one for one in known if one.name.casefold() == name.casefold()]
    return [one for one in found if one.kind == "collection"] or found
