"""What an answer stands on, read out of its receipt."""

from __future__ import annotations

import json

from tests.ui_session import an_answer
from tui.in_process.sources import sourced_answer


def test_a_receipt_tells_verified_and_invented_quotes_apart() -> None:
    answer = sourced_answer(json.dumps({"sections": [], "documents": an_answer()}))

    assert answer is not None
    assert [(row.number, row.name, row.is_verified) for row in answer.sources] == [
        (1, "lease.pdf", True),
        (2, "no document", False),
    ]
    assert answer.notes == ("read 2 of 96 passages", "UNVERIFIED: It is free.")


def test_other_answers_have_no_sources() -> None:
    assert sourced_answer("") is None
    assert sourced_answer('{"sections": []}') is None
