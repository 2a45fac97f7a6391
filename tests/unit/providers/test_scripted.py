"""The scripted provider counts, caches, stops and waits by its stated rules, always the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.answer import AnswerInProgress
from appliance.core.clock import VirtualClock
from appliance.core.errors import Failure, InvalidRequestError
from appliance.core.events import Completed, LoadProgress, PrefillProgress, StreamEvent
from appliance.core.messages import AssistantMessage, Conversation, Message, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess
from appliance.providers.script import (
    CallTool,
    EchoQuestion,
    Fail,
    Say,
    ScriptedModel,
    Step,
    Think,
    tokens_of,
)
from appliance.providers.scripted import ScriptedProvider


def provider_of(*turns: tuple[Step, ...], **facts: float) -> ScriptedProvider:
    model = ScriptedModel(name="m", turns=turns or ((EchoQuestion(),),), **facts)  # type: ignore[arg-type]
    return ScriptedProvider([model], VirtualClock())


def asked(text: str = "hello there", owner: str = "local", **sampling: object) -> GenerateRequest:
    return GenerateRequest(
        conversation=Conversation.of(UserMessage(text=text)),
        model="m",
        owner=owner,
        sampling=SamplingParams(**sampling),  # type: ignore[arg-type]
    )


async def result_of(provider: ScriptedProvider, request: GenerateRequest) -> GenerateResult:
    answer = AnswerInProgress()
    async for event in provider.stream(request):
        answer.add(event)
    return answer.result()


async def success_of(provider: ScriptedProvider, request: GenerateRequest) -> GenerateSuccess:
    result = await result_of(provider, request)
    assert isinstance(result, GenerateSuccess), result
    return result


@given(st.text(max_size=80))
def test_tokens_lose_no_character(text: str) -> None:
    assert "".join(tokens_of(text)) == text


async def test_the_prompt_counts_a_role_and_an_end_for_each_message_and_one_opening() -> None:
    provider = provider_of()

    assert await provider.count_tokens(asked("three short words")) == 3 + 2 + 1


async def test_the_turn_follows_the_answers_given_and_the_last_one_repeats() -> None:
    provider = provider_of((Say(text="first"),), (Say(text="second"),))
    question = UserMessage(text="go")
    answered = (question, AssistantMessage(text="first"), question)
    twice = (*answered, AssistantMessage(text="second"), question)
    talks: list[tuple[Message, ...]] = [(question,), answered, twice]

    texts = [
        (await success_of(provider, GenerateRequest(conversation=Conversation(said), model="m"))).message.text
        for said in talks
    ]

    assert texts == ["first", "second", "second"]


async def test_thinking_is_part_of_the_output_and_its_budget_leaves_room_for_the_answer() -> None:
    provider = provider_of((Think(text="one two three four"), Say(text="so: five")))

    result = await success_of(provider, asked(reasoning_budget=2))

    assert (result.message.reasoning, result.message.text) == ("one two", "so: five")
    assert (result.usage.reasoning_tokens, result.usage.output_tokens) == (2, 4)


async def test_max_tokens_bounds_thinking_and_answer_together() -> None:
    provider = provider_of((Think(text="one two"), Say(text="three four")))

    result = await success_of(provider, asked(max_tokens=3))

    assert result.finish_reason == "length"
    assert (result.message.reasoning, result.message.text) == ("one two", "three")


async def test_an_answer_of_exactly_max_tokens_is_not_called_cut() -> None:
    result = await success_of(provider_of((Say(text="one two"),)), asked(max_tokens=2))

    assert result.finish_reason == "stop"


async def test_a_stop_string_across_tokens_does_not_leak() -> None:
    result = await success_of(provider_of((Say(text="one two three"),)), asked(stop=("o th",)))

    assert (result.message.text, result.finish_reason) == ("one tw", "stop")


async def test_a_scripted_failure_keeps_the_text_before_it() -> None:
    failure = Failure(kind="rate_limited", message="later", retryable=True)

    result = await result_of(provider_of((Say(text="half an"), Fail(failure=failure))), asked())

    assert isinstance(result, GenerateFailure)
    assert (result.failure, result.partial.text) == (failure, "half an")


async def test_call_ids_differ_within_an_answer() -> None:
    provider = provider_of((CallTool(name="a", arguments_json="{}"), CallTool(name="b", arguments_json="")))

    calls = (await success_of(provider, asked())).message.tool_calls

    assert [call.name for call in calls] == ["a", "b"]
    assert calls[0].call_id != calls[1].call_id


async def test_loading_and_prefill_take_virtual_time_and_show_progress_once() -> None:
    provider = provider_of(load_s=2.0, prefill_token_s=0.01)
    request = asked("word " * 600)

    first = [event async for event in provider.stream(request)]
    second = [event async for event in provider.stream(request)]

    assert [event.fraction for event in first if isinstance(event, LoadProgress)] == [
        0.0,
        0.25,
        0.5,
        0.75,
        1.0,
    ]
    assert [event.processed_tokens for event in first if isinstance(event, PrefillProgress)] == [
        256,
        512,
        604,
    ]
    assert [event for event in second if isinstance(event, LoadProgress)] == []
    assert completed_of(first).timings.load_s == pytest.approx(2.0)
    assert completed_of(first).timings.prefill_s == pytest.approx(6.04)
    assert completed_of(second).usage.cached_tokens == 603


async def test_a_stream_closed_in_prefill_keeps_only_what_was_prefilled() -> None:
    provider = provider_of(prefill_token_s=0.01)
    request = asked("word " * 600)
    stream = provider.stream(request)
    await anext(stream)
    await anext(stream)
    await stream.aclose()

    assert (await success_of(provider, request)).usage.cached_tokens == 256


async def test_an_empty_script_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="no turn"):
        ScriptedModel(name="m", turns=())


def completed_of(events: list[StreamEvent]) -> Completed:
    last = events[-1]
    assert isinstance(last, Completed), last
    return last
