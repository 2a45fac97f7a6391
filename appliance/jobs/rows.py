"""Rows taken out of documents as values, and their forms as CSV and JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from appliance.core.errors import Failure
from appliance.core.usage import Usage
from appliance.jobs.evidence import FieldEvidence
from appliance.structured.json_text import JsonValue

# A spreadsheet runs a cell that begins so as a formula.
_FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedRow:
    """What one document gave. `problems` keep the row from satisfying the schema; `notes` say what was not read.

    `failure` is why there is no row; then `values` is empty. `receipts` has one receipt a part that was read.
    """

    document_id: str
    name: str
    source: str
    values: Mapping[str, JsonValue] = field(default_factory=dict)
    evidence: tuple[FieldEvidence, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    parts: int = 0
    usage: Usage = field(default_factory=Usage)
    receipts: tuple[Mapping[str, object], ...] = ()
    failure: Failure | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the row satisfies the schema as it was given."""
        return self.failure is None and not self.problems

    @property
    def absent(self) -> tuple[FieldEvidence, ...]:
        """The values that stand nowhere in the document."""
        return tuple(one for one in self.evidence if one.verdict == "absent")

    def evidence_for(self, name: str) -> tuple[FieldEvidence, ...]:
        """Return the evidence of one field, with everything in it."""
        return tuple(one for one in self.evidence if _field_of(one.path) == name)

    def to_json(self) -> dict[str, object]:
        """Return the row as an object for JSON."""
        return {
            "document_id": self.document_id,
            "name": self.name,
            "source": self.source,
            "values": dict(self.values),
            "evidence": [asdict(one) for one in self.evidence],
            "is_valid": self.is_valid,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "parts": self.parts,
            "usage": asdict(self.usage),
            "receipts": [dict(one) for one in self.receipts],
            "failure": None if self.failure is None else asdict(self.failure),
        }


def to_jsonl(rows: Sequence[ExtractedRow]) -> str:
    """Return one JSON object a line."""
    return "".join(json.dumps(row.to_json(), ensure_ascii=False) + "\n" for row in rows)


def to_csv(rows: Sequence[ExtractedRow], names: Sequence[str]) -> str:
    """Return a table: the document, each field, then verdict, quote and place of each field.

    A text that a spreadsheet would run as a formula gets an apostrophe before it.
    """
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\r\n")
    proofs = [f"{name} {what}" for name in names for what in ("verdict", "quote", "place")]
    table.writerow([_cell(text) for text in ("document", "source", *names, "problem", *proofs)])
    for row in rows:
        problem = row.failure.message if row.failure else "; ".join((*row.problems, *row.notes))
        cells = [row.name, row.source, *(row.values.get(name) for name in names), problem]
        for name in names:
            found = row.evidence_for(name)
            cells += [
                " ".join(dict.fromkeys(one.verdict for one in found)),
                " … ".join(one.quote for one in found if one.quote),
                ", ".join(dict.fromkeys(one.place for one in found if one.place)),
            ]
        table.writerow([_cell(cell) for cell in cells])
    return written.getvalue()


def _field_of(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _cell(value: JsonValue) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return f"'{value}" if value.startswith(_FORMULA_BEGINNINGS) else value
        case int() | float():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)
