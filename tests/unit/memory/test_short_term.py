from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.errors import ContextOverflowError, InvalidRequestError
from appliance.core.messages import AssistantMessage, Conversation, Message, ToolCall, ToolMessage
from appliance.memory.short_term import (
    FullMemory,
    HybridMemory,
    MemoryPolicy,
    SlidingWindow,
    SummaryMemory,
    describe_fold,
    exchanges_of,
    select_turns,
)
from appliance.memory.turns import Role, Summary, Turn, TurnState


def turn(number: int, role: Role, text: str, *, state: TurnState = "done", **more: object) -> Turn:
    fields = {"tool_calls": (), "tool_call_id": "", "tool_name": "", **more}
    return Turn(
        id=f"t{number}", chat_id="c", parent_id=None, sequence=number, role=role, state=state, text=text,
        created_at_s=0.0, **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def words(messages: Sequence[Message]) -> int:
    return sum(len(message.text.split()) for message in messages)


def talk(exchanges: int) -> list[Turn]:
    """Exchanges of ten words each, and a last question of two."""
    turns: list[Turn] = []
    for number in range(exchanges):
        turns.append(turn(2 * number, "user", f"question {number} a b"))
        turns.append(turn(2 * number + 1, "assistant", f"answer {number} a b c d"))
    return [*turns, turn(2 * exchanges, "user", "last question")]


def summary_until(last_id: str) -> Summary:
    return Summary(
        id="s", chat_id="c", last_turn_id=last_id, covered_turn_ids=(last_id,), text="so far", made_by="m",
        created_at_s=0.0,
    )  # fmt: skip


POLICIES: list[MemoryPolicy] = [FullMemory(), SlidingWindow(), SummaryMemory(), HybridMemory()]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_fits_is_kept_whole_and_nothing_is_said_about_folding(policy: MemoryPolicy) -> None:
    view = select_turns(policy, talk(3), budget_tokens=32, count_tokens=words)

    assert view.kept_tokens == 32
    assert view.folded == ()
    assert describe_fold(view) == ""


def test_full_memory_refuses_one_token_too_many_with_the_numbers() -> None:
    with pytest.raises(ContextOverflowError) as caught:
        select_turns(FullMemory(), talk(3), budget_tokens=31, count_tokens=words)

    assert (caught.value.prompt_tokens, caught.value.context_window) == (32, 31)


def test_a_window_folds_the_oldest_exchanges_and_says_how_many() -> None:
    view = select_turns(SlidingWindow(), talk(3), budget_tokens=31, count_tokens=words)

    assert [each.exchange.turns[0].id for each in view.folded] == ["t0"]
    assert (view.folded[0].reason, view.folded[0].tokens, view.kept_tokens) == ("over_budget", 10, 22)
    assert (
        describe_fold(view) == "2 earlier turns (10 tokens) are not in the prompt: they do not fit the budget"
    )


def test_a_window_of_two_keeps_the_last_two_exchanges() -> None:
    view = select_turns(SlidingWindow(max_exchanges=2), talk(3), budget_tokens=99, count_tokens=words)

    assert [exchange.turns[0].id for exchange in view.kept] == ["t4", "t6"]
    assert {each.reason for each in view.folded} == {"outside_window"}


def test_summary_memory_folds_all_but_the_last_question() -> None:
    view = select_turns(SummaryMemory(), talk(3), budget_tokens=31, count_tokens=words)

    assert [exchange.turns[0].id for exchange in view.to_summarise] == ["t0", "t2", "t4"]
    assert [exchange.turns[0].id for exchange in view.kept] == ["t6"]


def test_hybrid_memory_keeps_recent_turns_and_leaves_room_to_grow() -> None:
    view = select_turns(HybridMemory(verbatim_share=0.5), talk(4), budget_tokens=40, count_tokens=words)

    assert [exchange.turns[0].id for exchange in view.to_summarise] == ["t0", "t2", "t4"]
    assert view.kept_tokens == 12


def test_a_stored_summary_is_used_while_what_follows_it_fits() -> None:
    view = select_turns(
        HybridMemory(), talk(4), budget_tokens=40, count_tokens=words, summary=summary_until("t3")
    )

    assert view.summary is not None
    assert view.to_summarise == ()
    assert [exchange.turns[0].id for exchange in view.kept] == ["t4", "t6", "t8"]
    assert describe_fold(view) == "4 earlier turns (20 tokens) stand in the prompt as a summary"


def test_only_what_the_summary_does_not_cover_is_summarised_next() -> None:
    view = select_turns(
        HybridMemory(), talk(6), budget_tokens=25, count_tokens=words, summary=summary_until("t3")
    )

    assert [exchange.turns[0].id for exchange in view.to_summarise] == ["t4", "t6", "t8"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_last_question_that_does_not_fit_is_refused_not_cut(policy: MemoryPolicy) -> None:
    with pytest.raises(ContextOverflowError):
        select_turns(policy, talk(1), budget_tokens=1, count_tokens=words)


def test_a_tool_call_and_its_result_stand_or_fall_together() -> None:
    call = ToolCall(call_id="1", name="look", arguments_json="{}")
    turns = [
        turn(0, "user", "look it up"),
        turn(1, "assistant", "I look", tool_calls=(call,)),
        turn(2, "tool", "found", tool_call_id="1", tool_name="look"),
        turn(3, "assistant", "there"),
        turn(4, "user", "thanks"),
    ]

    first, last = exchanges_of(turns)

    assert [message.kind for message in first.messages] == ["user", "assistant", "tool", "assistant"]
    assert [each.id for each in last.turns] == ["t4"]


def test_a_stopped_answer_with_open_calls_is_sent_as_its_text() -> None:
    call = ToolCall(call_id="1", name="look", arguments_json="{}")
    turns = [
        turn(0, "user", "look it up"),
        turn(1, "assistant", "I look", tool_calls=(call,), state="stopped"),
        turn(2, "user", "well?"),
    ]

    messages = [message for exchange in exchanges_of(turns) for message in exchange.messages]

    assert messages[1] == AssistantMessage(text="I look")
    Conversation(tuple(messages))


def test_notes_forgotten_turns_and_empty_answers_are_not_sent() -> None:
    turns = [
        turn(0, "user", "", state="forgotten"),
        turn(1, "assistant", "", state="forgotten"),
        turn(2, "user", "hello"),
        turn(3, "assistant", "", state="failed"),
        turn(4, "note", "model switched"),
        turn(5, "user", "again"),
    ]

    view = select_turns(FullMemory(), turns, budget_tokens=9, count_tokens=words)

    assert [message.text for message in view.messages] == ["hello", "again"]


def test_an_empty_branch_has_nothing_to_answer() -> None:
    with pytest.raises(InvalidRequestError):
        select_turns(FullMemory(), [], budget_tokens=9, count_tokens=words)


_ROLES: st.SearchStrategy[Role] = st.sampled_from(["user", "assistant", "tool", "note"])
_STATES: st.SearchStrategy[TurnState] = st.sampled_from(["done", "stopped", "failed", "forgotten"])
_CALLS = st.lists(st.sampled_from(["1", "2"]), max_size=2, unique=True)


@st.composite
def branches(draw: st.DrawFn) -> list[Turn]:
    turns: list[Turn] = []
    for number in range(draw(st.integers(0, 12))):
        role = draw(_ROLES)
        calls = tuple(ToolCall(call_id=each, name="look", arguments_json="{}") for each in draw(_CALLS))
        turns.append(
            turn(
                number, role, draw(st.sampled_from(["", "one two", "a b c d e"])), state=draw(_STATES),
                tool_calls=calls if role == "assistant" else (),
                tool_call_id=draw(st.sampled_from(["1", "2"])) if role == "tool" else "",
                tool_name="look" if role == "tool" else "",
            )
        )  # fmt: skip
    return [*turns, turn(99, "user", "last question")]


@settings(deadline=None)
@given(branches(), st.sampled_from(POLICIES), st.integers(2, 60))
def test_any_branch_gives_a_well_formed_prompt_within_the_budget_and_accounts_for_every_turn(
    branch: list[Turn], policy: MemoryPolicy, budget_tokens: int
) -> None:
    try:
        view = select_turns(policy, branch, budget_tokens=budget_tokens, count_tokens=words)
    except ContextOverflowError:
        assert isinstance(policy, FullMemory)
        return

    Conversation(view.messages)
    assert view.kept_tokens == words(view.messages) <= budget_tokens
    shown = [each.id for exchange in view.kept for each in exchange.turns]
    folded = [each.id for fold in view.folded for each in fold.exchange.turns]
    speaking = [each.id for exchange in exchanges_of(branch) if exchange.messages for each in exchange.turns]
    assert folded + shown == speaking


def test_messages_of_tools_without_a_call_are_left_out() -> None:
    turns = [turn(0, "tool", "stray", tool_call_id="9", tool_name="look"), turn(1, "user", "hi")]

    assert all(
        not isinstance(message, ToolMessage)
        for exchange in exchanges_of(turns)
        for message in exchange.messages
    )
