"""A real llama-server, compiled from the same source as the engine, answers through the provider."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from appliance.config import load_settings
from appliance.config.remote import RemoteServer
from appliance.core.addresses import server_address
from appliance.core.answer import AnswerInProgress
from appliance.core.clock import SystemClock
from appliance.core.events import Completed, Failed, PrefillProgress, StreamEvent, TextDelta
from appliance.core.logprobs import TokenLogprob
from appliance.core.messages import AssistantMessage, Conversation, UserMessage
from appliance.core.requests import (
    ChoiceFormat,
    GenerateRequest,
    JsonSchemaFormat,
    RegexFormat,
    SamplingParams,
)
from appliance.providers.openai_http.provider import OpenAiHttpProvider
from benchmarks.peers.llama_server import LlamaServer
from benchmarks.peers.programs import PeerPrograms
from tests.conftest import STARTER, stored_model
from tests.engine_calls import closing_engine, open_engine

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

PEERS = load_settings().cache_dir / "peers"
CONTEXT_WINDOW = 1024
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}'


def programs() -> PeerPrograms:
    found = sorted(PEERS.glob("*/llama-server"))
    if not found:
        pytest.skip("no llama-server is compiled here; `make bench-peers` compiles it")
    folder = found[-1].parent
    return PeerPrograms(folder=folder, library_folders=(folder,), shares_libraries=False, flags="")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[OpenAiHttpProvider, str]]:
    server = await LlamaServer.start(
        programs(),
        Path(stored_model(STARTER)),
        threads=1,
        parallel=2,
        context_tokens=CONTEXT_WINDOW,
        openmp={},
    )
    remote = RemoteServer(name="box", address=server_address(f"http://127.0.0.1:{server.port}"))
    provider = OpenAiHttpProvider(remote, SystemClock(), cache_folder=tmp_path_factory.mktemp("probes"))
    (name,) = await provider.model_names()
    yield provider, name
    await provider.close()
    await server.stop()


def request(
    name: str, text: str = "List the numbers from one to fifty in words.", **changes: object
) -> GenerateRequest:
    values: dict[str, object] = {
        "conversation": Conversation.of(UserMessage(text=text)),
        "model": name,
        "sampling": SamplingParams(temperature=0.0, max_tokens=16),
        **changes,
    }
    return GenerateRequest(**values)  # type: ignore[arg-type]


async def events_of(provider: OpenAiHttpProvider, asked: GenerateRequest) -> list[StreamEvent]:
    async with aclosing(provider.stream(asked)) as stream:
        return [event async for event in stream]


def text_of(events: list[StreamEvent]) -> str:
    answer = AnswerInProgress()
    for event in events:
        answer.add(event)
    return answer.text


async def test_it_shows_what_it_can_do(box: tuple[OpenAiHttpProvider, str]) -> None:
    provider, name = box

    offered = await provider.capabilities(name)

    assert offered.context_window == CONTEXT_WINDOW
    assert offered.placement == "this_machine"
    assert offered.capabilities >= {"chat", "json_schema", "streaming_usage"}
    assert await provider.capabilities(f"box/{name.rpartition('/')[2]}") == offered


async def test_an_answer_comes_with_progress_tokens_and_times(box: tuple[OpenAiHttpProvider, str]) -> None:
    provider, name = box

    events = await events_of(provider, request(name))

    completed = events[-1]
    assert isinstance(completed, Completed), completed
    progress = [event for event in events if isinstance(event, PrefillProgress)]
    assert progress[-1].processed_tokens == completed.usage.input_tokens
    assert completed.usage.input_tokens == await provider.count_tokens(request(name))
    assert (completed.usage.output_tokens, completed.finish_reason) == (16, "length")
    assert 0 < completed.timings.prefill_s <= completed.timings.ttft_s < completed.timings.total_s
    assert len([event for event in events if isinstance(event, TextDelta)]) > 5


async def test_the_second_turn_reuses_the_first(box: tuple[OpenAiHttpProvider, str]) -> None:
    provider, name = box
    question = UserMessage(text="Tell me something about rivers, please.")
    first = await events_of(provider, request(name, conversation=Conversation.of(question)))
    turns = Conversation.of(question, AssistantMessage(text=text_of(first)), UserMessage(text="Go on."))

    last = (await events_of(provider, request(name, conversation=turns)))[-1]

    assert isinstance(last, Completed)
    assert last.usage.cached_tokens > 20


@pytest.mark.parametrize(
    "output, allowed",
    [
        (ChoiceFormat(choices=("yes", "nö")), {"yes", "nö"}),
        (RegexFormat(pattern="[ab]{2}"), {"aa", "ab", "ba", "bb"}),
    ],
)
async def test_an_answer_is_held_to_its_form(
    box: tuple[OpenAiHttpProvider, str], output: ChoiceFormat | RegexFormat, allowed: set[str]
) -> None:
    provider, name = box

    assert text_of(await events_of(provider, request(name, output=output))) in allowed


async def test_an_answer_is_held_to_its_schema(box: tuple[OpenAiHttpProvider, str]) -> None:
    provider, name = box
    sampling = SamplingParams(temperature=0.0, max_tokens=64)

    events = await events_of(
        provider, request(name, output=JsonSchemaFormat(schema_json=SCHEMA), sampling=sampling)
    )

    assert list(json.loads(text_of(events))) == ["n"]


async def test_a_prompt_that_does_not_fit_is_refused_with_both_counts(
    box: tuple[OpenAiHttpProvider, str],
) -> None:
    provider, name = box
    asked = request(name, "word " * 2 * CONTEXT_WINDOW)

    last = (await events_of(provider, asked))[-1]

    assert isinstance(last, Failed)
    assert last.failure.kind == "context_overflow"
    assert last.failure.details["context_window"] == CONTEXT_WINDOW
    assert last.failure.details["prompt_tokens"] == await provider.count_tokens(asked)


async def test_log_probabilities_are_close_to_those_of_our_engine(
    box: tuple[OpenAiHttpProvider, str],
) -> None:
    provider, name = box
    offered = await provider.capabilities(name)
    asked = request(
        name,
        "What is the capital of France?",
        sampling=SamplingParams(temperature=0.0, max_tokens=6, top_logprobs=2),
    )
    engine = open_engine(Path(stored_model(STARTER)), parallel=1)
    async with closing_engine(engine):
        ours = logprobs_of([event async for event in engine.stream(asked)])

    theirs = logprobs_of(await events_of(provider, asked))

    assert "logprobs" in offered.capabilities
    assert [each.token for each in theirs] == [each.token for each in ours]
    assert [each.logprob for each in theirs] == pytest.approx([each.logprob for each in ours], abs=0.4)
    assert [len(each.top) for each in theirs] == [2] * len(ours)


def logprobs_of(events: list[StreamEvent]) -> list[TokenLogprob]:
    return [each for event in events if isinstance(event, TextDelta) for each in event.logprobs]


async def test_it_goes_on_inside_an_open_turn_and_its_prompt_is_counted_so(
    box: tuple[OpenAiHttpProvider, str],
) -> None:
    provider, name = box
    first = await events_of(provider, request(name))
    turns = (*request(name).conversation.messages, AssistantMessage(text=text_of(first)))
    going_on = request(name, conversation=Conversation(turns, is_open=True))

    events = await events_of(provider, going_on)

    begun, completed = first[-1], events[-1]
    assert isinstance(begun, Completed)
    assert isinstance(completed, Completed), completed
    assert completed.usage.input_tokens == await provider.count_tokens(going_on)
    assert completed.usage.input_tokens == begun.usage.input_tokens + begun.usage.output_tokens
    assert not text_of(events).startswith(text_of(first)[:12])
