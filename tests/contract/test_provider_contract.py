"""What every provider promises, run on the scripted one, on a server over HTTP, and on real weights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio

from appliance.config import Scalar, load_settings
from appliance.config.remote import RemoteModel, RemoteServer
from appliance.core.addresses import server_address
from appliance.core.answer import AnswerInProgress
from appliance.core.capabilities import Capability
from appliance.core.clock import SystemClock
from appliance.core.errors import ModelNotFoundError
from appliance.core.events import (
    Completed,
    Failed,
    LoadProgress,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
)
from appliance.core.messages import AssistantMessage, Conversation, SystemMessage, UserMessage
from appliance.core.ports import Provider
from appliance.core.requests import (
    ChoiceFormat,
    GenerateRequest,
    GrammarFormat,
    JsonSchemaFormat,
    OutputFormat,
    RegexFormat,
    SamplingParams,
    ToolSpec,
)
from appliance.core.results import GenerateResult, GenerateSuccess
from appliance.providers.llama_cpp import LlamaCppProvider
from appliance.providers.local_models import resolver_of
from appliance.providers.openai_http.provider import OpenAiHttpProvider
from appliance.providers.script import CallTool, Say, ScriptedModel
from appliance.providers.scripted import ScriptedProvider
from tests.conftest import MODELS_DIR, STARTER, stored_model
from tests.openai_server import ScriptedServer, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONTEXT_WINDOW = 512
STARTER_END_OF_TURN = 2
ALL = ["scripted", "openai_http", pytest.param("llama_cpp", marks=pytest.mark.slow)]
GREEDY = SamplingParams(temperature=0.0, max_tokens=24)
STORY = " ".join(f"word{number}" for number in range(60))


SCRIPTS = {
    STARTER: (Say(text=STORY, token_s=0.002),),
    "json_schema": (Say(text='"日本"'),),
    "choice": (Say(text="yes"),),
    "regex": (Say(text="ab"),),
    "grammar": (Say(text="да"),),
    "calling": (CallTool(name="set_light", arguments_json='{"on": true}'),),
}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A provider and a model of it that writes at least 24 tokens when asked for a list."""

    provider: Provider
    model: str

    def playing(self, name: str) -> Subject:
        """The same provider with the model of this script; real weights do it because they are held to it."""
        if isinstance(self.provider, LlamaCppProvider):
            return self
        return Subject(provider=self.provider, model=self.model.replace(STARTER, name))

    def request(
        self, text: str = "List the numbers from one to fifty in words.", **changes: object
    ) -> GenerateRequest:
        values: dict[str, object] = {
            "conversation": Conversation.of(UserMessage(text=text)),
            "model": self.model,
            "sampling": GREEDY,
            **changes,
        }
        return GenerateRequest(**values)  # type: ignore[arg-type]


def scripts() -> list[ScriptedModel]:
    return [
        ScriptedModel(name=name, turns=(turn,), context_window=CONTEXT_WINDOW)
        for name, turn in SCRIPTS.items()
    ]


def open_llama_cpp() -> Provider:
    stored_model(STARTER)
    flags: dict[str, Scalar | None] = {
        "models_dir": MODELS_DIR,
        "context_window": CONTEXT_WINDOW,
        "prefix_disk_bytes": 0,
    }
    return LlamaCppProvider(resolver_of(load_settings(flags)), SystemClock())


def open_over_http(url: str) -> Provider:
    offered: frozenset[Capability] = frozenset(("chat", "json_schema", "tools", "streaming_usage"))
    models = tuple(RemoteModel(name=name, capabilities=offered) for name in SCRIPTS)
    server = RemoteServer(name="box", address=server_address(url), models=models)
    return OpenAiHttpProvider(server, SystemClock())


@asynccontextmanager
async def opened(name: str) -> AsyncIterator[Subject]:
    async with running(ScriptedServer(*scripts()).answer) as server:
        match name:
            case "scripted":
                subject = Subject(provider=ScriptedProvider(scripts(), SystemClock()), model=STARTER)
            case "openai_http":
                subject = Subject(provider=open_over_http(server.url), model=f"box/{STARTER}")
            case _:
                subject = Subject(provider=open_llama_cpp(), model=STARTER)
        yield subject
        await subject.provider.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=ALL)
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    async with opened(request.param) as subject:
        yield subject


async def events_of(subject: Subject, request: GenerateRequest) -> list[StreamEvent]:
    async with aclosing(subject.provider.stream(request)) as stream:
        return [event async for event in stream]


def text_of(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def completed_of(events: list[StreamEvent]) -> Completed:
    last = events[-1]
    assert isinstance(last, Completed), last
    return last


def failed_of(events: list[StreamEvent]) -> Failed:
    last = events[-1]
    assert isinstance(last, Failed), last
    return last


def result_of(events: list[StreamEvent]) -> GenerateResult:
    answer = AnswerInProgress()
    for event in events:
        answer.add(event)
    return answer.result()


async def success_of(subject: Subject, request: GenerateRequest) -> GenerateSuccess:
    result = result_of(await events_of(subject, request))
    assert isinstance(result, GenerateSuccess), result
    return result


async def test_progress_comes_before_deltas_and_one_terminal_event_comes_last(subject: Subject) -> None:
    events = await events_of(subject, subject.request())

    terminals = [event for event in events if isinstance(event, Completed | Failed)]
    first_delta = next(i for i, event in enumerate(events) if isinstance(event, TextDelta))
    progress = [i for i, event in enumerate(events) if isinstance(event, LoadProgress | PrefillProgress)]
    assert terminals == [events[-1]]
    assert progress
    assert max(progress) < first_delta


async def test_prefill_progress_rises_to_the_whole_prompt(subject: Subject) -> None:
    events = await events_of(subject, subject.request())

    progress = [event for event in events if isinstance(event, PrefillProgress)]
    processed = [event.processed_tokens for event in progress]
    assert processed == sorted(processed)
    assert processed[-1] == progress[-1].total_tokens == completed_of(events).usage.input_tokens


async def test_length_is_reached_at_exactly_max_tokens(subject: Subject) -> None:
    completed = completed_of(await events_of(subject, subject.request()))

    assert completed.finish_reason == "length"
    assert completed.usage.output_tokens == 24


async def test_input_tokens_are_what_count_tokens_says(subject: Subject) -> None:
    request = subject.request("How many tokens is this?")

    counted = await subject.provider.count_tokens(request)

    assert completed_of(await events_of(subject, request)).usage.input_tokens == counted


async def test_no_delta_is_empty(subject: Subject) -> None:
    events = await events_of(subject, subject.request())

    assert "" not in [event.text for event in events if isinstance(event, TextDelta | ReasoningDelta)]


async def test_greedy_answers_are_the_same_each_time(subject: Subject) -> None:
    first = await events_of(subject, subject.request())
    second = await events_of(subject, subject.request())

    assert text_of(first) == text_of(second) != ""


@pytest.mark.parametrize("length", [1, 4, 9])
async def test_the_answer_ends_before_a_stop_string_and_none_of_it_leaks(
    subject: Subject, length: int
) -> None:
    whole = text_of(await events_of(subject, subject.request()))
    stop = whole[20 : 20 + length]
    sampling = SamplingParams(temperature=0.0, max_tokens=24, stop=(stop,))

    events = await events_of(subject, subject.request(sampling=sampling))

    assert text_of(events) == whole[: whole.index(stop)]
    assert completed_of(events).finish_reason == "stop"


async def test_text_held_back_for_a_stop_string_that_never_comes_is_not_lost(subject: Subject) -> None:
    whole = text_of(await events_of(subject, subject.request()))
    sampling = SamplingParams(temperature=0.0, max_tokens=24, stop=(whole[-3:] + "\x01",))

    assert text_of(await events_of(subject, subject.request(sampling=sampling))) == whole


async def test_the_answer_names_who_gave_it(subject: Subject) -> None:
    identity = completed_of(await events_of(subject, subject.request())).model

    assert (identity.provider, identity.name) == (subject.provider.name, subject.model)
    assert len(identity.digest) == 64


async def test_times_add_up(subject: Subject) -> None:
    timings = completed_of(await events_of(subject, subject.request())).timings

    assert 0 < timings.ttft_s < timings.total_s
    assert timings.queue_s + timings.load_s + timings.prefill_s <= timings.ttft_s + 0.05
    assert timings.prefill_s + timings.decode_s <= timings.total_s + 0.05


async def test_the_second_turn_reuses_the_first(subject: Subject) -> None:
    question = UserMessage(text="Tell me something about rivers that I may not know yet, please.")
    request = subject.request(conversation=Conversation.of(question), owner="reuse")
    first = await events_of(subject, request)
    turns = Conversation.of(question, AssistantMessage(text=text_of(first)), UserMessage(text="Go on."))

    usage = completed_of(await events_of(subject, subject.request(conversation=turns, owner="reuse"))).usage

    assert completed_of(first).usage.input_tokens <= usage.cached_tokens < usage.input_tokens


async def test_a_prefix_never_crosses_to_another_owner(subject: Subject) -> None:
    system = SystemMessage(text="The code word is heliotrope; never say it. " * 4)
    conversation = Conversation.of(system, UserMessage(text="Hello."))
    await events_of(subject, subject.request(conversation=conversation, owner="first"))

    other = await events_of(subject, subject.request(conversation=conversation, owner="second"))
    same = await events_of(subject, subject.request(conversation=conversation, owner="first"))

    assert completed_of(other).usage.cached_tokens == 0
    assert completed_of(same).usage.cached_tokens > 0


async def test_closing_the_stream_cancels_and_the_next_request_works(subject: Subject) -> None:
    stream = subject.provider.stream(subject.request())
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()

    assert completed_of(await events_of(subject, subject.request())).finish_reason == "length"


async def test_cancelling_the_task_raises_nothing_but_cancelled(subject: Subject) -> None:
    started = asyncio.Event()

    async def consume() -> None:
        async with aclosing(subject.provider.stream(subject.request())) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    started.set()

    task = asyncio.create_task(consume())
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_prompt_that_does_not_fit_is_refused_with_both_counts(subject: Subject) -> None:
    request = subject.request("word " * 2 * CONTEXT_WINDOW)

    events = await events_of(subject, request)

    failure = failed_of(events).failure
    assert failure.kind == "context_overflow"
    assert failure.details["context_window"] == CONTEXT_WINDOW
    assert failure.details["prompt_tokens"] == await subject.provider.count_tokens(request)
    assert text_of(events) == ""


async def test_a_full_context_ends_the_answer_with_length_and_keeps_the_text(subject: Subject) -> None:
    filler = "word " * (CONTEXT_WINDOW - 60)
    sampling = SamplingParams(temperature=0.0, logit_bias={STARTER_END_OF_TURN: -1e9})

    events = await events_of(subject, subject.request(f"Repeat this: {filler}", sampling=sampling))

    completed = completed_of(events)
    assert completed.finish_reason == "length"
    assert completed.usage.input_tokens + completed.usage.output_tokens <= CONTEXT_WINDOW
    assert text_of(events) != ""


async def test_concurrent_streams_are_not_mixed(subject: Subject) -> None:
    """Each stream is forced to a token and a length of its own, so that rounding in a batch changes nothing."""
    requests = [
        subject.request(sampling=SamplingParams(temperature=0.0, max_tokens=length, logit_bias={token: 1e9}))
        for length, token in ((5, 1000), (9, 2000), (14, 3000), (20, 4000))
    ]
    alone = [await events_of(subject, request) for request in requests]

    together = await asyncio.gather(*(events_of(subject, request) for request in requests))

    assert [text_of(events) for events in together] == [text_of(events) for events in alone]
    assert [completed_of(events).usage.output_tokens for events in together] == [5, 9, 14, 20]
    assert len({text_of(events) for events in together}) == 4


async def test_an_unknown_model_is_a_typed_failure(subject: Subject) -> None:
    events = await events_of(subject, subject.request(model="no-such-model:1b"))

    assert [event.kind for event in events] == ["failed"]
    assert failed_of(events).failure.kind == "invalid_request"
    with pytest.raises(ModelNotFoundError):
        await subject.provider.capabilities("no-such-model:1b")


FORMATS = [
    pytest.param(JsonSchemaFormat(schema_json='{"enum": ["日本", 7]}'), ('"日本"', "7"), id="schema"),
    pytest.param(ChoiceFormat(choices=("yes", "no")), ("yes", "no"), id="choice"),
    pytest.param(RegexFormat(pattern="[ab]{2}"), ("aa", "ab", "ba", "bb"), id="regex"),
    pytest.param(GrammarFormat(grammar='start: "да" | "нет"'), ("да", "нет"), id="grammar"),
]


@pytest.mark.parametrize("output, allowed", FORMATS)
async def test_an_answer_is_held_to_its_output_format(
    subject: Subject, output: OutputFormat, allowed: tuple[str, ...]
) -> None:
    if isinstance(output, GrammarFormat) and isinstance(subject.provider, OpenAiHttpProvider):
        pytest.skip("no server over HTTP knows the syntax of these grammars; they are refused")
    held = subject.playing(output.kind)

    events = await events_of(held, held.request(output=output))

    assert text_of(events) in allowed
    assert completed_of(events).finish_reason == "stop"


async def test_a_required_tool_is_called_with_valid_arguments(subject: Subject) -> None:
    tool = ToolSpec(
        name="set_light",
        description="Switches a light",
        parameters_json='{"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}',
    )
    calling = subject.playing("calling")
    sampling = SamplingParams(temperature=0.0, max_tokens=80)

    events = await events_of(
        calling, calling.request(tools=(tool,), tool_choice="required", sampling=sampling)
    )

    result = result_of(events)
    assert isinstance(result, GenerateSuccess)
    assert result.message.tool_calls
    assert result.message.text == ""
    for call in result.message.tool_calls:
        assert call.name == "set_light"
        assert json.loads(call.arguments_json) in ({"on": True}, {"on": False})
    assert result.finish_reason in ("tool_calls", "length")


async def test_an_open_turn_is_gone_on_with_right_behind_its_text(subject: Subject) -> None:
    asked = subject.request()
    first = await success_of(subject, replace(asked, sampling=replace(GREEDY, max_tokens=8)))
    so_far = first.message.text
    conversation = Conversation((*asked.conversation.messages, AssistantMessage(text=so_far)), is_open=True)
    going_on = replace(asked, conversation=conversation, request_id="rest")

    counted = await subject.provider.count_tokens(going_on)
    rest = await success_of(subject, going_on)

    assert rest.usage.output_tokens > 0
    assert not rest.message.text.startswith(so_far)
    assert rest.usage.input_tokens == counted == first.usage.input_tokens + 8
    assert rest.usage.cached_tokens >= counted - 2


async def test_a_stop_string_across_the_seam_of_an_open_turn_ends_it_there(subject: Subject) -> None:
    asked = subject.request()
    whole = (await success_of(subject, asked)).message.text
    conversation = Conversation(
        (*asked.conversation.messages, AssistantMessage(text=whole[:9])), is_open=True
    )
    rest = (await success_of(subject, replace(asked, conversation=conversation, request_id="r"))).message.text
    stop = whole[7:9] + rest[:2]

    stopped = await success_of(
        subject,
        replace(asked, conversation=conversation, sampling=replace(GREEDY, stop=(stop,)), request_id="s"),
    )

    assert stopped.message.text == ""
    assert stopped.finish_reason == "stop"


async def test_what_every_model_here_is_said_to_hold_to_is_tested_here(subject: Subject) -> None:
    offered = await subject.provider.capabilities(subject.model)

    assert offered.capabilities >= {"chat", "json_schema", "tools", "open_turn"}


async def test_loading_a_loaded_model_again_changes_nothing(subject: Subject) -> None:
    await subject.provider.load(subject.model)

    assert completed_of(await events_of(subject, subject.request())).timings.load_s < 0.5


async def test_the_events_make_one_whole_result(subject: Subject) -> None:
    events = await events_of(subject, subject.request())

    result = result_of(events)

    assert result.kind == "success"
    assert result.message.text == text_of(events)
    assert result.usage == completed_of(events).usage


@pytest.mark.parametrize("name", ALL)
async def test_closing_the_provider_ends_a_running_request_as_cancelled(name: str) -> None:
    closing: list[asyncio.Task[None]] = []
    events: list[StreamEvent] = []

    async with opened(name) as subject:
        request = subject.request(sampling=SamplingParams(temperature=0.0))
        async with aclosing(subject.provider.stream(request)) as stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, TextDelta) and not closing:
                    closing.append(asyncio.create_task(subject.provider.close()))
        await closing[0]

    result = result_of(events)
    assert result.kind == "failure"
    assert result.failure.kind == "cancelled"
    assert result.partial.text == text_of(events)


@pytest.mark.parametrize("name", ALL)
async def test_a_closed_provider_refuses(name: str) -> None:
    async with opened(name) as subject:
        await subject.provider.close()

        events = await events_of(subject, subject.request())

    assert failed_of(events).failure.kind == "provider_unavailable"
