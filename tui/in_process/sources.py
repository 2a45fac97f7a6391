"""Reads what an answer from documents stands on out of its receipt."""

from __future__ import annotations

import json
from pathlib import Path

from tui.rows import SourcedAnswer, SourceRow

_VERDICTS = {
    "verified": "verified word for word",
    "near": "verified; white space or hyphens differ",
    "wrong_source": "verified; the model named another source",
    "absent": "not in the documents",
}


def sourced_answer(receipt_json: str) -> SourcedAnswer | None:
    """Return the sources and notes; None where the receipt tells of no documents."""
    told = _object(json.loads(receipt_json) if receipt_json else {}).get("documents")
    if not isinstance(told, dict):
        return None
    notes = [str(told.get("coverage", "")), *map(str, _list(told.get("notes")))]
    if told.get("kind") == "quoted_only":
        notes.append("nothing of the model's own words stands in the documents; this is their quote")
    elif told.get("kind") == "answered":
        texts = [" ".join(str(text).split()) for text in _list(told.get("unverified"))]
        notes += [f"UNVERIFIED: {text}" for text in texts]
    return SourcedAnswer(
        sources=tuple(_source(_object(one)) for one in _list(told.get("citations"))),
        notes=tuple(note for note in notes if note),
    )


def _source(numbered: dict[str, object]) -> SourceRow:
    citation = _object(numbered.get("citation"))
    verdict = str(citation.get("verdict", "absent"))
    return SourceRow(
        number=_whole(numbered.get("number")),
        name=Path(str(citation.get("source", ""))).name or "no document",
        place=str(citation.get("place", "")),
        quote=str(citation.get("quote", "")),
        verdict=_VERDICTS.get(verdict, verdict),
        is_verified=verdict != "absent",
        document_id=str(citation.get("document_id", "")),
        start=_whole(citation.get("start")),
        end=_whole(citation.get("end")),
    )


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
