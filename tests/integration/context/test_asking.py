"""Questions to a real library, answered by a script: what code makes of what a model says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from appliance.context.question import DocumentQuestion
from appliance.core.errors import ContextOverflowError, Failure, InvalidRequestError
from appliance.core.requests import SamplingParams
from appliance.providers.script import Fail, Say
from appliance.retrieval.grounding import REFUSAL
from appliance.retrieval.library import Library
from tests.integration.context.conftest import MakeAsker

ASKED = DocumentQuestion(
    question="Until when can unused leave be carried over?", model="m", collections=("handbook",)
)


async def test_an_answer_carries_verified_quotes_with_file_and_span(
    library: Library, asker_of: MakeAsker
) -> None:
    library.fill_vectors()
    answer = await asker_of("Unused leave can be carried over until the end of March.").answer(ASKED)

    assert answer.kind == "answered"
    assert answer.text.endswith("[1]")
    first = answer.citations[0].citation
    assert (first.verdict, first.source.rpartition("/")[2]) == ("verified", "leave.md")
    document = library.store.parsed("local", first.document_id)
    assert document is not None
    assert document.text[first.start : first.end] == first.quote
    assert "end of March" in first.quote


async def test_what_the_documents_do_not_say_is_never_the_answer(asker_of: MakeAsker) -> None:
    answer = await asker_of("Leave is converted to gold bars by the treasurer.").answer(ASKED)

    assert answer.kind == "quoted_only"
    assert answer.text == ("“Unused leave can be carried over until the end of March of the next year.” [1]")
    assert answer.model_text.startswith("Leave is converted")
    assert answer.supported_share == 0.0


async def test_a_supported_sentence_stands_beside_one_marked_unverified(asker_of: MakeAsker) -> None:
    said = "Unused leave can be carried over until the end of March. The treasurer pays gold for it."
    answer = await asker_of(said).answer(ASKED)

    assert answer.kind == "answered"
    assert answer.text.endswith("The treasurer pays gold for it. [unverified]")
    assert answer.supported_share == 0.5


async def test_too_little_evidence_is_the_fixed_refusal_and_the_model_is_not_asked(
    library: Library, asker_of: MakeAsker
) -> None:
    library.fill_vectors()
    asked = replace(ASKED, question="Which penguin won the world cup final in Lisbon?")
    answer = await asker_of("The emperor penguin.").answer(asked)

    assert (answer.kind, answer.text, answer.model_text) == ("refused", REFUSAL, "")
    assert answer.citations == ()
    assert "leave.md" in answer.evidence.refusal
    assert answer.usage.input_tokens == 0


async def test_the_receipt_is_what_the_model_was_sent(asker_of: MakeAsker) -> None:
    asker = asker_of("Until the end of March.")
    answer = await asker.answer(ASKED)
    prepared = await asker.prepare(ASKED)

    assert answer.receipt is not None
    assert answer.receipt.total_tokens == answer.usage.input_tokens == prepared.built.receipt.total_tokens
    sent = prepared.built.request.conversation
    assert "HACKED" not in sent.system_text
    assert sent.messages[-1].text.count("</documents>") == 1


async def test_without_vectors_the_words_find_it_and_the_answer_says_so(asker_of: MakeAsker) -> None:
    answer = await asker_of("Until the end of March.").answer(ASKED)

    assert answer.kind == "answered"
    assert any("have no vector yet" in note for note in answer.notes)


async def test_a_collection_that_does_not_exist_is_refused_and_the_others_are_named(
    asker_of: MakeAsker,
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await asker_of("x").answer(replace(ASKED, collections=("laws",)))

    assert "'laws'" in caught.value.message
    assert "handbook" in caught.value.hint


async def test_an_empty_library_is_a_refusal_that_says_nothing_was_found(
    empty_library: Library, asker_of: MakeAsker
) -> None:
    library = empty_library
    library.remove("local", library.store.documents("local"))
    answer = await asker_of("x").answer(replace(ASKED, collections=()))

    assert answer.kind == "refused"
    assert "Nothing was found" in answer.evidence.refusal


async def test_a_question_longer_than_the_window_is_refused_with_counts(asker_of: MakeAsker) -> None:
    asked = replace(ASKED, sampling=SamplingParams(max_tokens=10))
    with pytest.raises(ContextOverflowError) as caught:
        await asker_of("x", context_window=30).answer(asked)

    assert caught.value.context_window == 30


async def test_passages_that_do_not_fit_are_named_in_the_receipt(asker_of: MakeAsker) -> None:
    asked = replace(ASKED, sampling=SamplingParams(max_tokens=10))
    prepared = await asker_of("x", context_window=110).prepare(asked)

    documents = prepared.built.receipt.section("documents")
    assert documents.cut_tokens > 0
    assert {entry.reason for entry in documents.entries} & {"over_budget", "middle_left_out"}


async def test_a_model_that_fails_leaves_its_failure_and_the_quotes(asker_of: MakeAsker) -> None:
    crash = Fail(failure=Failure(kind="engine_crashed", message="it died"))
    answer = await asker_of(steps=(Say(text="Unused"), crash)).answer(ASKED)

    assert answer.failure is not None
    assert answer.failure.kind == "engine_crashed"
    assert answer.citations[0].citation.verdict == "verified"


async def test_a_question_about_everything_reads_everything_while_that_fits(asker_of: MakeAsker) -> None:
    asked = replace(ASKED, question="List all leave rules, and carry over of unused leave", passages=1)
    whole = await asker_of("Thirty days of paid leave a year.").answer(asked)
    part = await asker_of("Thirty days of paid leave a year.", context_window=110).answer(
        replace(asked, sampling=SamplingParams(max_tokens=10))
    )

    assert (whole.coverage.needs_all, str(whole.coverage)) == (True, "read 2 of 2 passages")
    assert not any("--all" in note for note in whole.notes)
    assert part.coverage.read_passages < 2
    assert any("--all" in note for note in part.notes)


async def test_the_answer_is_json(asker_of: MakeAsker) -> None:
    answer = await asker_of("Until the end of March.").answer(ASKED)
    shown = json.loads(json.dumps(answer.to_json()))

    assert shown["citations"][0]["citation"]["verdict"] == "verified"
    assert shown["receipt"]["total_tokens"] == shown["usage"]["input_tokens"]
    assert shown["search"]["hits"][0]["final_rank"] == 1
    assert shown["coverage"]["text"].startswith("read ")
