"""Receipts as people read them, and the sections the meter colours."""

import json

from appliance.core.usage import Timings, Usage
from appliance.memory.turns import AnswerRecord, Turn
from tui.receipt_text import Section, receipt_lines, sections_of
from tui.rows import ReceiptView
from tui.widgets.meter import MeterState, used_sections

RECEIPT = json.dumps(
    {
        "total_tokens": 63,
        "template_tokens": 3,
        "sections": [
            {"name": "system", "tokens": 20, "limit_tokens": None, "entries": []},
            {
                "name": "turns",
                "tokens": 40,
                "limit_tokens": 50,
                "entries": [
                    {"label": "hello", "outcome": "kept", "tokens": 40, "cut_tokens": 0, "reason": "fits"},
                    {
                        "label": "old",
                        "outcome": "cut",
                        "tokens": 0,
                        "cut_tokens": 90,
                        "reason": "over_budget",
                    },
                ],
            },
        ],
    }
)


def an_answer() -> Turn:
    record = AnswerRecord(
        usage=Usage(input_tokens=60, cached_tokens=45, output_tokens=11),
        timings=Timings(ttft_s=0.5, total_s=1.5),
        finish_reason="stop",
    )
    return Turn(
        id="t", chat_id="c", parent_id=None, sequence=1, role="assistant", state="done", text="x",
        created_at_s=0.0, answer=record,
    )  # fmt: skip


def test_every_entry_says_whether_it_was_kept_and_why() -> None:
    text = "\n".join(
        receipt_lines(an_answer(), ReceiptView(receipt_json=RECEIPT, messages=(("user", "hi"),)))
    )

    assert "system" in text
    assert "never cut" in text
    assert "90 left out · over budget · old" in text
    assert "45 reused, 15 computed" in text
    assert "10.0 tokens/s" in text
    assert "── user" in text


def test_a_receipt_that_is_no_json_is_shown_as_it_is() -> None:
    assert "something else" in "\n".join(
        receipt_lines(an_answer(), ReceiptView(receipt_json="something else"))
    )
    assert sections_of("something else") == ()


def test_the_meter_shows_the_receipts_sections_and_the_answer() -> None:
    state = MeterState(usage=Usage(input_tokens=60, output_tokens=11), sections=sections_of(RECEIPT))

    assert used_sections(state) == [
        Section(name="template", tokens=3),
        Section(name="system", tokens=20),
        Section(name="turns", tokens=40),
        Section(name="answer", tokens=11),
    ]


def test_without_sections_the_meter_parts_the_prompt_by_what_was_reused() -> None:
    state = MeterState(usage=Usage(input_tokens=60, cached_tokens=45, output_tokens=11))

    assert used_sections(state) == [
        Section(name="reused", tokens=45),
        Section(name="new", tokens=15),
        Section(name="answer", tokens=11),
    ]
