from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest

from appliance.core.clock import VirtualClock
from appliance.core.errors import (
    CancelledRequestError,
    ContextOverflowError,
    Failure,
    InvalidRequestError,
)
from appliance.core.events import Completed, Failed, ModelIdentity, ReasoningDelta, StreamEvent, TextDelta
from appliance.core.messages import AssistantMessage, Conversation, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.core.usage import Timings, Usage
from appliance.memory.conversations import Conversations
from appliance.memory.events import AnswerBegun, AnswerSaved, ChatEvent, TurnSaved
from appliance.memory.journal import stop_unfinished_answers
from appliance.memory.prompt import PreparedPrompt, ReportFolding, branch_conversation
from appliance.memory.session import ChatSession
from appliance.memory.turns import Chat, Turn
from appliance.providers.script import Fail, Say, ScriptedModel, Step, Think, Wait
from appliance.providers.scripted import ScriptedProvider
from tests.unit.memory.stopped_clock import StoppedClock

MODEL = "small:1"
OpenSession = Callable[..., ChatSession]


async def prepare(chat: Chat, branch: Sequence[Turn], on_folding: ReportFolding) -> PreparedPrompt:
    request = GenerateRequest(conversation=branch_conversation(branch), model=MODEL)
    return PreparedPrompt(request=request, receipt_json='{"kept": 1}')


@pytest.fixture
def open_session(conversations: Conversations, clock: StoppedClock) -> OpenSession:
    def opened(*turns: tuple[Step, ...]) -> ChatSession:
        provider = ScriptedProvider([ScriptedModel(name=MODEL, turns=turns)], clock)
        return ChatSession(conversations, provider.stream, prepare, clock=clock, new_seed=lambda: 77)

    return opened


async def drain(events: AsyncIterator[ChatEvent]) -> list[ChatEvent]:
    return [event async for event in events]


async def test_an_answer_is_stored_with_all_it_takes_to_run_it_again(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Say(text="Paris is the capital."),))
    chat = conversations.chats.create()

    events = await drain(session.ask(chat.id, "What is the capital of France?"))

    assert [event.kind for event in events[:2]] == ["turn_saved", "answer_begun"]
    assert events[-1].kind == "answer_saved"
    answer = events[-1].turn
    assert answer.text == "Paris is the capital."
    assert answer.state == "done"
    assert answer.answer.model.name == MODEL
    assert answer.answer.model.digest != ""
    assert answer.answer.finish_reason == "stop"
    assert answer.answer.usage.output_tokens > 0
    sent = conversations.turns.request_of(answer.id)
    assert sent.sampling.seed == 77
    assert sent.messages == (UserMessage(text="What is the capital of France?"),)
    assert conversations.turns.receipt_of(answer.id) == '{"kept": 1}'


async def test_the_question_is_on_disk_before_the_prompt_is_prepared(
    conversations: Conversations, clock: StoppedClock
) -> None:
    seen: list[str] = []

    async def look(chat: Chat, branch: Sequence[Turn], on_folding: ReportFolding) -> PreparedPrompt:
        seen.extend(turn.text for turn in Conversations(conversations.database).turns.all_turns(chat.id))
        raise ContextOverflowError(prompt_tokens=9, context_window=8)

    session = ChatSession(conversations, ScriptedProvider([], clock).stream, look, clock=clock)
    chat = conversations.chats.create()

    with pytest.raises(ContextOverflowError):
        await drain(session.ask(chat.id, "hello"))

    assert seen == ["hello"]
    assert not session.is_answering(chat.id)


async def test_each_delta_is_readable_from_disk_when_it_is_shown(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Say(text="one two three four"),))
    chat = conversations.chats.create()
    shown, stored = "", []

    async with aclosing(session.ask(chat.id, "count")) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                shown += event.text
                stored.append(conversations.turns.shown_branch(chat.id)[-1].text == shown)

    assert stored == [True] * 4


async def test_cancel_keeps_the_partial_answer_and_the_chat_goes_on(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session(
        (Say(text="one two"), Wait(duration_s=60), Say(text=" three")), (Say(text="fine"),)
    )
    chat = conversations.chats.create()
    async with aclosing(session.ask(chat.id, "count")) as events:
        kinds = []
        async for event in events:
            kinds.append(event.kind)
            if isinstance(event, TextDelta) and "two" in event.text:
                assert session.cancel(chat.id)
            last = event

    assert kinds[-2:] == ["failed", "answer_saved"]
    assert last.turn.state == "stopped"
    assert last.turn.text == "one two"
    assert last.turn.answer.finish_reason == "cancelled"
    again = await drain(session.ask(chat.id, "and now?"))
    assert again[-1].turn.text == "fine"


async def test_a_caller_who_leaves_early_leaves_a_stopped_answer(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Say(text="one two three"),))
    chat = conversations.chats.create()

    async with aclosing(session.ask(chat.id, "count")) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break

    answer = conversations.turns.shown_branch(chat.id)[-1]
    assert (answer.state, answer.text) == ("stopped", "one")
    assert not session.is_answering(chat.id)


async def test_a_cancelled_task_leaves_a_stopped_answer(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Say(text="one"), Wait(duration_s=60)))
    chat = conversations.chats.create()
    shown = asyncio.Event()

    async def read() -> None:
        async with aclosing(session.ask(chat.id, "count")) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    shown.set()

    task = asyncio.create_task(read())
    await shown.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    answer = conversations.turns.shown_branch(chat.id)[-1]
    assert (answer.state, answer.text) == ("stopped", "one")


async def test_a_failure_of_the_model_is_stored_with_the_words_before_it(
    open_session: OpenSession, conversations: Conversations
) -> None:
    failure = Failure(kind="engine_crashed", message="the worker died", retryable=True)
    session = open_session((Say(text="one two"), Fail(failure=failure)))
    chat = conversations.chats.create()

    events = await drain(session.ask(chat.id, "count"))

    assert isinstance(events[-2], Failed)
    assert events[-1].turn.state == "failed"
    assert events[-1].turn.text == "one two"
    assert events[-1].turn.answer.failure == failure


async def test_a_stream_without_an_end_is_a_failed_answer(
    conversations: Conversations, clock: StoppedClock
) -> None:
    async def half(request: GenerateRequest) -> AsyncIterator[StreamEvent]:
        yield TextDelta(text="half")

    session = ChatSession(conversations, half, prepare, clock=clock)
    chat = conversations.chats.create()

    events = await drain(session.ask(chat.id, "go"))

    assert events[-1].turn.state == "failed"
    assert events[-1].turn.answer.failure.kind == "internal"


async def test_regenerate_keeps_the_old_answer_on_its_branch(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Say(text="first"),))
    chat = conversations.chats.create()
    old = (await drain(session.ask(chat.id, "go")))[-1].turn

    new = (await drain(session.regenerate(old.id)))[-1].turn

    assert conversations.turns.branches_at(new.id).turn_ids == (old.id, new.id)
    assert [turn.id for turn in conversations.turns.shown_branch(chat.id)][-1] == new.id
    assert conversations.turns.show_branch_of(old.id)[-1].id == old.id


async def test_edit_asks_on_a_branch_beside_the_old_question(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Say(text="answer"),))
    chat = conversations.chats.create()
    first = await drain(session.ask(chat.id, "old words"))

    edited = await drain(session.edit(first[0].turn.id, "new words"))

    assert isinstance(edited[0], TurnSaved)
    assert [turn.text for turn in conversations.turns.shown_branch(chat.id)] == ["new words", "answer"]
    assert conversations.turns.branches_at(first[0].turn.id).turn_ids[0] == first[0].turn.id
    with pytest.raises(InvalidRequestError):
        await drain(session.edit(edited[-1].turn.id, "an answer cannot be edited"))


@pytest.fixture
async def stopped(open_session: OpenSession, conversations: Conversations) -> tuple[ChatSession, Turn]:
    session = open_session(
        (Say(text="one two"), Wait(duration_s=60), Say(text=" three")), (Say(text="fine"),)
    )
    chat = conversations.chats.create()
    async with aclosing(session.ask(chat.id, "count")) as events:
        async for event in events:
            if isinstance(event, TextDelta) and "two" in event.text:
                session.cancel(chat.id)
    return session, conversations.turns.shown_branch(chat.id)[-1]


async def test_a_stopped_answer_goes_on_in_the_same_turn_right_behind_its_last_character(
    stopped: tuple[ChatSession, Turn], conversations: Conversations
) -> None:
    session, partial = stopped

    events = await drain(session.continue_answer(partial.id))

    whole = events[-1].turn
    assert [event.text for event in events if isinstance(event, TextDelta)] == [" three"]
    assert (whole.id, whole.text, whole.state) == (partial.id, "one two three", "done")
    assert conversations.turns.branches_at(whole.id).turn_ids == (whole.id,)
    assert [turn.id for turn in conversations.turns.shown_branch(whole.chat_id)][-1] == whole.id
    sent = conversations.turns.request_of(whole.id).conversation
    assert sent == Conversation((UserMessage(text="count"), AssistantMessage(text="one two")), is_open=True)


async def test_tokens_and_times_of_a_continued_answer_are_those_of_both_parts(
    stopped: tuple[ChatSession, Turn], conversations: Conversations
) -> None:
    session, partial = stopped

    events = await drain(session.continue_answer(partial.id))

    ending = next(event for event in events if isinstance(event, Completed))
    before, whole = partial.answer, events[-1].turn.answer
    assert before.usage.output_tokens == 2
    assert whole.usage.output_tokens == 2 + ending.usage.output_tokens
    assert whole.usage.input_tokens == ending.usage.input_tokens
    assert whole.usage.cached_tokens == before.usage.input_tokens + 2 - 1
    assert whole.timings.total_s == before.timings.total_s + ending.timings.total_s
    assert whole.finish_reason == "stop"


async def test_an_answer_that_dies_while_it_goes_on_keeps_all_that_was_shown(
    stopped: tuple[ChatSession, Turn], conversations: Conversations
) -> None:
    _, partial = stopped
    request = conversations.turns.request_of(partial.id)
    again = conversations.turns.reopen_answer(partial, request)
    conversations.turns.journal(again.id, StoppedClock()).append(TextDelta(text=" thr"))
    with conversations.database.transaction() as connection:
        connection.execute("UPDATE turns SET writer = 'nobody' WHERE id = ?", (again.id,))

    assert stop_unfinished_answers(conversations.database) == 1

    kept = conversations.turns.get(partial.id)
    assert (kept.text, kept.state) == ("one two thr", "stopped")
    assert kept.answer.usage == partial.answer.usage
    assert conversations.search("thr")[0].turn_id == partial.id


async def test_a_failure_while_an_answer_goes_on_leaves_it_to_be_continued_again(
    conversations: Conversations, clock: StoppedClock, stopped: tuple[ChatSession, Turn]
) -> None:
    _, partial = stopped
    failure = Failure(kind="engine_crashed", message="it died", retryable=True)

    async def dies(request: GenerateRequest) -> AsyncIterator[StreamEvent]:
        yield TextDelta(text=" th")
        yield Failed(failure=failure)

    failed = (
        await drain(ChatSession(conversations, dies, prepare, clock=clock).continue_answer(partial.id))
    )[-1].turn

    assert (failed.text, failed.state, failed.answer.failure) == ("one two th", "failed", failure)
    whole = (await drain(stopped[0].continue_answer(partial.id)))[-1].turn
    assert whole.text == "one two three"


async def test_running_a_continued_answer_again_writes_its_rest_again(
    stopped: tuple[ChatSession, Turn], conversations: Conversations
) -> None:
    session, partial = stopped
    whole = (await drain(session.continue_answer(partial.id)))[-1].turn

    again = (await drain(session.run_again(whole.id)))[-1].turn

    assert again.id != whole.id
    assert again.text == whole.text
    assert conversations.turns.request_of(again.id) != conversations.turns.request_of(whole.id)


async def test_an_answer_cut_at_its_limit_can_be_continued_and_a_whole_one_cannot(
    conversations: Conversations, clock: StoppedClock
) -> None:
    provider = ScriptedProvider([ScriptedModel(name=MODEL, turns=((Say(text="one two three"),),))], clock)

    async def prepare_short(chat: Chat, branch: Sequence[Turn], on_folding: ReportFolding) -> PreparedPrompt:
        prepared = await prepare(chat, branch, on_folding)
        sampling = SamplingParams(max_tokens=2)
        return PreparedPrompt(request=replace(prepared.request, sampling=sampling))

    session = ChatSession(conversations, provider.stream, prepare_short, clock=clock)
    chat = conversations.chats.create()
    cut = (await drain(session.ask(chat.id, "count")))[-1].turn
    assert (cut.text, cut.answer.finish_reason) == ("one two", "length")

    whole = (await drain(session.continue_answer(cut.id)))[-1].turn

    assert (whole.text, whole.answer.finish_reason) == ("one two three", "stop")
    with pytest.raises(InvalidRequestError, match="the model ended it itself"):
        await drain(session.continue_answer(whole.id))


async def test_an_answer_that_another_turn_follows_is_not_continued(
    stopped: tuple[ChatSession, Turn], conversations: Conversations
) -> None:
    session, partial = stopped
    await drain(session.ask(partial.chat_id, "and now?"))

    with pytest.raises(InvalidRequestError, match="another turn follows"):
        await drain(session.continue_answer(partial.id))

    assert conversations.turns.get(partial.id) == partial


async def test_an_answer_stopped_while_the_model_was_thinking_has_no_text_to_continue(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Think(text="well, now"), Wait(duration_s=60), Say(text="one")))
    chat = conversations.chats.create()
    async with aclosing(session.ask(chat.id, "count")) as events:
        async for event in events:
            if isinstance(event, ReasoningDelta) and "now" in event.text:
                session.cancel(chat.id)
    thinking = conversations.turns.shown_branch(chat.id)[-1]

    with pytest.raises(InvalidRequestError, match="still thinking"):
        await drain(session.continue_answer(thinking.id))


async def test_the_thinking_before_a_stopped_answer_is_sent_with_it(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Think(text="well"), Say(text="one"), Wait(duration_s=60), Say(text=" two")))
    chat = conversations.chats.create()
    async with aclosing(session.ask(chat.id, "count")) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                session.cancel(chat.id)
    partial = conversations.turns.shown_branch(chat.id)[-1]

    whole = (await drain(session.continue_answer(partial.id)))[-1].turn

    assert (whole.reasoning, whole.text) == ("well", "one two")
    sent = conversations.turns.request_of(whole.id).messages
    assert sent[-1] == AssistantMessage(text="one", reasoning="well")


async def test_an_answer_stopped_by_its_reader_keeps_its_tokens_and_times(
    conversations: Conversations,
) -> None:
    clock = VirtualClock()
    model = ScriptedModel(
        name=MODEL,
        prefill_token_s=0.5,
        turns=((Say(text="one two three", token_s=2.0), Wait(duration_s=60)),),
    )
    provider = ScriptedProvider([model], clock)
    session = ChatSession(conversations, provider.stream, prepare, clock=clock)
    chat = conversations.chats.create()

    async with aclosing(session.ask(chat.id, "count")) as events:
        async for event in events:
            if isinstance(event, TextDelta) and "three" in event.text:
                session.cancel(chat.id)

    record = conversations.turns.shown_branch(chat.id)[-1].answer
    assert record.usage == Usage(input_tokens=4, output_tokens=3, estimated_tokens=3)
    assert (record.timings.prefill_s, record.timings.ttft_s, record.timings.total_s) == (2.0, 4.0, 8.0)
    assert record.timings.tpot_s(3) == 2.0


async def test_run_again_sends_the_same_request_with_the_same_seed(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Say(text="answer"),))
    chat = conversations.chats.create()
    first = (await drain(session.ask(chat.id, "go")))[-1].turn

    second = (await drain(session.run_again(first.id)))[-1].turn

    before, after = conversations.turns.request_of(first.id), conversations.turns.request_of(second.id)
    assert second.id != first.id
    assert (after.messages, after.sampling, after.model) == (before.messages, before.sampling, before.model)


async def test_a_second_question_while_one_is_answered_is_refused(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Say(text="one two"),))
    chat = conversations.chats.create()

    async with aclosing(session.ask(chat.id, "go")) as events:
        async for event in events:
            if isinstance(event, AnswerBegun):
                with pytest.raises(InvalidRequestError, match="still being written"):
                    await drain(session.ask(chat.id, "me too"))

    assert len(conversations.turns.all_turns(chat.id)) == 2


async def test_cancel_before_the_prompt_is_ready_begins_no_answer(
    conversations: Conversations, clock: StoppedClock
) -> None:
    started = asyncio.Event()

    async def slow(chat: Chat, branch: Sequence[Turn], on_folding: ReportFolding) -> PreparedPrompt:
        started.set()
        await clock.sleep(60)
        raise AssertionError("never reached")

    session = ChatSession(conversations, ScriptedProvider([], clock).stream, slow, clock=clock)
    chat = conversations.chats.create()
    task = asyncio.create_task(drain(session.ask(chat.id, "go")))
    await started.wait()

    session.cancel(chat.id)

    with pytest.raises(CancelledRequestError):
        await task
    assert [turn.role for turn in conversations.turns.all_turns(chat.id)] == ["user"]


async def test_a_stalled_stream_is_checkpointed_after_one_second(
    conversations: Conversations, clock: StoppedClock
) -> None:
    go_on = asyncio.Event()

    async def stalling(request: GenerateRequest) -> AsyncIterator[StreamEvent]:
        yield TextDelta(text="one")
        await go_on.wait()
        yield Completed(
            finish_reason="stop",
            usage=Usage(),
            timings=Timings(),
            model=ModelIdentity(provider="p", name="m"),
        )

    session = ChatSession(conversations, stalling, prepare, clock=clock)
    chat = conversations.chats.create()
    shown = asyncio.Event()

    async def read() -> None:
        async with aclosing(session.ask(chat.id, "go")) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    shown.set()

    def checkpoints() -> int:
        with conversations.database.read() as connection:
            return connection.execute(
                "SELECT count(*) FROM answer_pieces WHERE kind = 'checkpoint'"
            ).fetchone()[0]

    task = asyncio.create_task(read())
    await shown.wait()
    before = checkpoints()
    async with asyncio.timeout(5):
        while checkpoints() == before:
            clock.pass_s(1.1)
            await asyncio.sleep(0)
    go_on.set()
    await task

    assert before == 0
    assert conversations.turns.shown_branch(chat.id)[-1].state == "done"


async def test_an_endless_fast_stream_can_be_cancelled(
    conversations: Conversations, clock: StoppedClock
) -> None:
    async def endless(request: GenerateRequest) -> AsyncIterator[StreamEvent]:
        while True:
            yield TextDelta(text="x ")

    session = ChatSession(conversations, endless, prepare, clock=clock)
    chat = conversations.chats.create()
    async with asyncio.timeout(10):
        async with aclosing(session.ask(chat.id, "go")) as events:
            seen = 0
            async for event in events:
                seen += 1
                last = event
                if seen == 10:
                    session.cancel(chat.id)

    assert isinstance(last, AnswerSaved)
    assert last.turn.state == "stopped"


async def test_a_chat_deleted_for_good_while_it_is_answered_fails_cleanly(
    open_session: OpenSession, conversations: Conversations
) -> None:
    session = open_session((Say(text="one two three"),))
    chat = conversations.chats.create()

    async def read_and_delete() -> None:
        async with aclosing(session.ask(chat.id, "go")) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    with conversations.database.transaction() as connection:
                        connection.execute("DELETE FROM chats WHERE id = ?", (chat.id,))

    with pytest.raises(InvalidRequestError, match="deleted"):
        await read_and_delete()

    assert not session.is_answering(chat.id)
