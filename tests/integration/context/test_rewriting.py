"""Follow-ups told in full and other wordings, from the conversation to what was searched for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

import pytest

from appliance.config import Route, RouteCandidate
from appliance.context.asking import DocumentAsker
from appliance.context.question import DocumentQuestion
from appliance.core.clock import VirtualClock
from appliance.core.errors import Failure, InvalidRequestError
from appliance.core.messages import AssistantMessage, UserMessage
from appliance.gateway import Gateway, GatewayPolicy
from appliance.memory.document_prompt import DocumentPrompt
from appliance.memory.document_scope import DocumentScope
from appliance.memory.turns import Chat, Turn
from appliance.providers.script import Fail, Say, ScriptedModel, Step
from appliance.providers.scripted import ScriptedProvider
from appliance.retrieval.library import Library

ASKED = DocumentQuestion(
    question="And until when does that hold?",
    model="m",
    collections=("handbook",),
    search_mode="text",
    history=(UserMessage(text="Can I carry over leave?"), AssistantMessage(text="Yes.")),
)
CRASH = Fail(failure=Failure(kind="engine_crashed", message="it died"))
TOLD = "Until when can unused leave be carried over?"
BY_CODE = "And until when does that hold? (carry leave)"
ANSWER = "Unused leave can be carried over until the end of March."


def asker_with(library: Library, written: Step, answer: str = ANSWER) -> DocumentAsker:
    """An asker whose route has one model for rewriting and another one for the answer."""
    clock = VirtualClock()
    writer = ScriptedModel(name="writer", turns=((written,),))
    reader = ScriptedModel(name="reader", turns=((Say(text=answer),),))
    route = Route(name="m", candidates=(RouteCandidate(model="reader"),), stages={"rewrite": "writer"})
    policy = GatewayPolicy(routes={"m": route})
    return DocumentAsker(Gateway([ScriptedProvider([writer, reader], clock)], clock, policy=policy), library)


async def test_a_follow_up_is_searched_for_as_a_model_of_its_stage_told_it(library: Library) -> None:
    answer = await asker_with(library, Say(text=TOLD)).answer(ASKED)

    assert (answer.kind, answer.question) == ("answered", ASKED.question)
    assert answer.search.queries == (TOLD, ASKED.question)
    assert f"searched for: {TOLD}" in answer.notes
    told = json.loads(json.dumps(answer.to_json()))
    assert (told["search"]["queries"], told["rewritten_by"]) == ([TOLD, ASKED.question], "model")
    assert answer.model is not None
    assert answer.model.name == "reader"


async def test_the_model_reads_the_question_as_asked_and_in_full(library: Library) -> None:
    prepared = await asker_with(library, Say(text=TOLD)).prepare(ASKED)

    last = prepared.built.request.conversation.messages[-1]
    assert isinstance(last, UserMessage)
    assert f"Question: {ASKED.question}\nThat is: {TOLD}" in last.text


async def test_a_first_question_costs_no_call(library: Library) -> None:
    asker = asker_with(library, CRASH)
    answer = await asker.answer(replace(ASKED, question=TOLD, history=()))

    assert (answer.kind, answer.search.queries) == ("answered", (TOLD,))
    assert not any("searched for" in note or "died" in note for note in answer.notes)


async def test_a_model_that_cannot_rewrite_leaves_the_question_to_code(library: Library) -> None:
    answer = await asker_with(library, CRASH).answer(ASKED)
    whole = await asker_with(library, CRASH).answer(replace(ASKED, question=TOLD))

    assert (answer.kind, answer.search.queries, answer.rewritten_by) == ("answered", (BY_CODE,), "code")
    assert answer.notes[:2] == ("telling the question in full failed: it died", f"searched for: {BY_CODE}")
    assert (whole.search.queries, whole.rewritten_by) == ((TOLD,), "")


async def test_without_a_model_of_the_stage_code_tells_a_follow_up_and_asks_no_model(
    library: Library,
) -> None:
    clock = VirtualClock()
    reader = ScriptedModel(name="reader", turns=((Say(text=ANSWER),),))
    asker = DocumentAsker(Gateway([ScriptedProvider([reader], clock)], clock), library)

    answer = await asker.answer(replace(ASKED, model="reader"))
    prepared = await asker.prepare(replace(ASKED, model="reader"))

    assert (answer.kind, answer.search.queries, answer.rewritten_by) == ("answered", (BY_CODE,), "code")
    assert (answer.text, answer.question) == (f"{ANSWER} [1]", ASKED.question)
    assert f"That is: {BY_CODE}" in prepared.built.request.conversation.messages[-1].text


async def test_other_wordings_are_searched_for_and_named(library: Library) -> None:
    asked = replace(ASKED, question=TOLD, history=(), other_wordings=2)
    answer = await asker_with(library, Say(text="1. carry over days\n2. note of a doctor\n3. more")).answer(
        asked
    )

    assert answer.search.queries == (TOLD, "carry over days", "note of a doctor")
    assert "also searched for: note of a doctor" in answer.notes


async def test_wordings_that_were_not_written_are_no_failure(library: Library) -> None:
    asked = replace(ASKED, question=TOLD, history=(), other_wordings=2)
    answer = await asker_with(library, CRASH).answer(asked)

    assert (answer.kind, answer.search.queries) == ("answered", (TOLD,))
    (note,) = [note for note in answer.notes if "no other wordings" in note]
    assert "it died" in note


def test_so_many_wordings_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="between 0 and 10"):
        replace(ASKED, other_wordings=11)


def turn(number: int, role: Literal["user", "assistant"], text: str) -> Turn:
    return Turn(
        id=f"t{number}", chat_id="c", parent_id=None, sequence=number, role=role, state="done", text=text,
        created_at_s=0.0,
    )  # fmt: skip


async def test_a_follow_up_in_a_chat_says_in_its_receipt_what_was_searched_for(library: Library) -> None:
    chat = Chat(
        id="c", title="", system_text="", created_at_s=0.0, updated_at_s=0.0, is_pinned=False, is_archived=False,
        is_deleted=False, active_turn_id=None, turn_count=3, source="",
    )  # fmt: skip
    branch = [
        turn(1, "user", "Can I carry over leave?"),
        turn(2, "assistant", "Yes."),
        turn(3, "user", ASKED.question),
    ]
    prompt = DocumentPrompt(
        asker_with(library, Say(text=TOLD)), model="m", scope=DocumentScope(collections=("handbook",))
    )
    prepared = await prompt(chat, branch, lambda _: None)
    assert prepared.stream is not None
    assert prepared.receipt_at_end is not None
    events = [event async for event in prepared.stream(prepared.request)]

    assert events[-1].kind == "completed"
    told = json.loads(prepared.receipt_at_end())["documents"]
    assert (told["kind"], told["searched_for"]) == ("answered", [TOLD, ASKED.question])
    assert told["rewritten_by"] == "model"
    assert f"searched for: {TOLD}" in told["notes"]


async def test_the_users_own_words_choose_the_sentence_that_is_quoted_first(library: Library) -> None:
    clock = VirtualClock()
    reader = ScriptedModel(name="reader", turns=((Say(text="Nothing that stands there."),),))
    asker = DocumentAsker(Gateway([ScriptedProvider([reader], clock)], clock), library)
    said = (UserMessage(text="How many days of paid leave may every employee take a year?"),)
    asked = replace(ASKED, model="reader", question="And when must it be carried over?", history=said)

    answer = await asker.answer(asked)

    assert answer.rewritten_by == "code"
    assert answer.citations[0].citation.quote.startswith("Unused leave can be carried over")
