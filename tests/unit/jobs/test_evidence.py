"""Which words of a document a value stands on."""

from __future__ import annotations

import pytest

from appliance.jobs.evidence import Verdict, evidence_of
from appliance.retrieval.records import StoredChunk
from appliance.structured.json_text import JsonValue


def chunk(text: str, start: int = 0) -> StoredChunk:
    return StoredChunk(
        chunk_id=1, document_id="d", owner="local", collection="c", source="/a.pdf", name="a.pdf", title="",
        ordinal=0, start=start, end=start + len(text), text=text, heading_path=(), prefix="", token_count=1,
        segments=((start, "page 1"),),
    )  # fmt: skip


@pytest.mark.parametrize(
    "value, text, verdict, quote",
    [
        ("Müller GmbH", "by Müller GmbH, Bonn", "exact", "Müller GmbH"),
        ("Müller GmbH", "by MÜLLER\n  GmbH, Bonn", "near", "MÜLLER\n  GmbH"),
        ("agreement", "the agree-\nment holds", "near", "agree-\nment"),
        ("art", "the party starts", "absent", ""),
        (12, "12 units", "exact", "12"),
        (12, "12.5 units, 112 more, A12", "absent", ""),
        (1234567, "a sum of 1.234.567,00 euro", "near", "1.234.567,00"),
        (1234567, "a sum of 1 234 567", "near", "1 234 567"),
        (12.5, "costs 12,50 €", "near", "12,50"),
        (-3, "it fell to −3 degrees", "near", "−3"),
        (3, "a notice of three months", "near", "three"),
        ("2024-03-05", "signed on 5 March 2024", "near", "5 March 2024"),
        ("2024-03-05", "signed on March 5th, 2024", "near", "March 5th, 2024"),
        ("2024-03-05", "am 05.03.2024 in Bonn", "near", "05.03.2024"),
        ("2024-13-05", "am 05.03.2024 in Bonn", "absent", ""),
        ("契約", "この契約は有効です", "exact", "契約"),
        (True, "it is true", "uncheckable", ""),
        (None, "nothing", "empty", ""),
        ("  ", "nothing", "empty", ""),
        ([], "nothing", "empty", ""),
    ],
)
def test_a_value_is_found_as_people_write_it(
    value: JsonValue, text: str, verdict: Verdict, quote: str
) -> None:
    (found,) = evidence_of("field", value, [chunk(text, start=100)])

    assert (found.verdict, found.quote) == (verdict, quote)
    if quote:
        assert text[found.start - 100 : found.end - 100] == quote
        assert found.place == "page 1"


def test_of_several_places_the_one_behind_the_fields_name_is_taken() -> None:
    text = "Page 3 of 9.\n\nThe notice period is 3 months."

    (found,) = evidence_of("notice_period", 3, [chunk(text)])

    assert found.start == text.index("3 months")


def test_each_value_inside_lists_and_objects_has_its_own_evidence() -> None:
    found = evidence_of("party", {"name": "Ada", "tags": ["one", "two"]}, [chunk("Ada has one")])

    assert [(one.path, one.verdict) for one in found] == [
        ("party.name", "exact"),
        ("party.tags[0]", "exact"),
        ("party.tags[1]", "absent"),
    ]
