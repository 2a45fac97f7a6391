"""A server that refuses, stalls, lies or goes away costs one typed failure, and what was written is kept."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from appliance.config.remote import RemoteModel, RemoteServer
from appliance.core.addresses import server_address
from appliance.core.answer import AnswerInProgress
from appliance.core.clock import SystemClock
from appliance.core.errors import ApplianceError, PolicyRejectionError, ProviderUnavailableError
from appliance.core.events import Completed, Failed, StreamEvent, TextDelta
from appliance.core.messages import AssistantMessage, Conversation, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Usage
from appliance.providers.openai_http.provider import OpenAiHttpProvider
from tests.openai_server import (
    DONE,
    Answer,
    Received,
    RunningServer,
    always,
    chunk,
    head,
    json_answer,
    listing,
    running,
    stream_head,
    usage_chunk,
)

STATED = (RemoteModel(name="tiny", capabilities=frozenset(("chat", "streaming_usage"))),)
WHOLE = (stream_head(), chunk({"content": "ok"}), chunk(finish="stop"), usage_chunk(3, 1), DONE)


def provider_at(url: str, **changes: object) -> OpenAiHttpProvider:
    values: dict[str, object] = {"name": "box", "address": server_address(url), "models": STATED, **changes}
    return OpenAiHttpProvider(RemoteServer(**values), SystemClock())  # type: ignore[arg-type]


def request(text: str = "hi", owner: str = "local") -> GenerateRequest:
    return GenerateRequest(
        conversation=Conversation.of(UserMessage(text=text)), model="box/tiny", owner=owner
    )


@asynccontextmanager
async def serving(
    answer: Answer, **changes: object
) -> AsyncIterator[tuple[OpenAiHttpProvider, RunningServer]]:
    async with running(answer) as server:
        provider = provider_at(server.url, **changes)
        try:
            yield provider, server
        finally:
            await provider.close()


async def events_of(provider: OpenAiHttpProvider, asked: GenerateRequest | None = None) -> list[StreamEvent]:
    async with aclosing(provider.stream(asked or request())) as stream:
        return [event async for event in stream]


async def failure_of(*pieces: bytes, **changes: object) -> Failed:
    async with serving(always(*pieces), **changes) as (provider, _):
        last = (await events_of(provider))[-1]
    assert isinstance(last, Failed), last
    return last


@pytest.mark.parametrize(
    "pieces, kind, said",
    [
        ((json_answer({"error": {"message": "no"}}, 401),), "authentication", "no"),
        ((json_answer({"error": {"message": "slow"}}, 429, Retry_After="9"),), "rate_limited", "slow"),
        ((head(500), b"<html>oops"), "provider_unavailable", "status 500"),
        ((head(302, Location="http://127.0.0.1:1/"),), "provider_unavailable", "redirects"),
        ((stream_head(), b"data: {broken\n\n"), "provider_unavailable", "no JSON"),
        ((stream_head(), chunk({"content": "half"})), "provider_unavailable", "broke off"),
        ((stream_head(), chunk({"content": "half"}), DONE), "provider_unavailable", "broke off"),
        ((json_answer({"choices": []}),), "provider_unavailable", "broke off"),
        ((b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n",), "provider_unavailable", "broke"),
        ((b"HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\ndata:",), "provider_unavailable", "broke"),
        ((b"SSH-2.0-OpenSSH\r\n",), "provider_unavailable", "broke"),
        ((b"",), "provider_unavailable", "broke"),
        ((stream_head(), b'data: {"error": {"message": "gpu fell off"}}\n\n'), "provider_unavailable", "gpu fell off"),
        ((stream_head(), chunk(finish="content_filter")), "policy_rejection", "filter"),
    ],
)  # fmt: skip
async def test_each_kind_of_trouble_has_its_kind_of_failure(
    pieces: tuple[bytes, ...], kind: str, said: str
) -> None:
    failure = (await failure_of(*pieces)).failure

    assert failure.kind == kind
    assert said in failure.message


async def test_when_to_come_back_reaches_the_caller() -> None:
    limited = await failure_of(json_answer({}, 429, Retry_After="9"))

    assert limited.failure.details["retry_after_s"] == 9.0


async def test_nobody_listening_names_the_address_and_the_setting() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    provider = provider_at(url)

    with pytest.raises(ProviderUnavailableError) as caught:
        await provider.capabilities("box/tiny")

    assert url in caught.value.message
    assert "providers.box.url" in caught.value.hint


async def test_a_stream_that_stalls_is_a_timeout_and_keeps_what_came() -> None:
    async def stalls(received: Received) -> AsyncIterator[bytes]:
        if received.path == "/v1/models":
            yield listing("tiny", owned_by="vllm")
            return
        yield stream_head() + chunk({"content": "half"})
        await asyncio.Event().wait()

    async with serving(stalls, stall_s=0.2) as (provider, _):
        events = await events_of(provider)

    assert events[0] == TextDelta(text="half")
    assert isinstance(events[-1], Failed)
    assert events[-1].failure.kind == "timeout"


async def test_what_was_written_before_the_break_stays() -> None:
    async with serving(always(stream_head(), chunk({"content": "half"}))) as (provider, _):
        answer = AnswerInProgress()
        for event in await events_of(provider):
            answer.add(event)

    result = answer.result()
    assert result.kind == "failure"
    assert result.partial.text == "half"


async def test_an_answer_without_the_closing_mark_is_whole_when_its_reason_came() -> None:
    async with serving(always(stream_head(), chunk({"content": "ok"}, "stop"))) as (provider, _):
        last = (await events_of(provider))[-1]

    assert isinstance(last, Completed)
    assert last.finish_reason == "stop"


async def test_tokens_that_the_server_does_not_report_are_estimates_and_say_so() -> None:
    async with serving(always(stream_head(), chunk({"content": "x" * 30}, "stop"), DONE)) as (provider, _):
        last = (await events_of(provider, request("y" * 300)))[-1]

    assert isinstance(last, Completed)
    assert last.usage.output_tokens == 10
    assert last.usage.input_tokens > 100
    assert last.usage.estimated_tokens == last.usage.input_tokens + last.usage.output_tokens


async def test_reported_tokens_are_no_estimates() -> None:
    async with serving(always(*WHOLE)) as (provider, _):
        last = (await events_of(provider))[-1]

    assert isinstance(last, Completed)
    assert last.usage == Usage(input_tokens=3, output_tokens=1)


async def test_nothing_after_the_closing_mark_counts() -> None:
    async with serving(always(*WHOLE, chunk({"content": "more"}), b"data: {broken\n\n")) as (provider, _):
        events = await events_of(provider)

    assert [event for event in events if isinstance(event, TextDelta)] == [TextDelta(text="ok")]
    assert isinstance(events[-1], Completed)


async def test_empty_events_and_comments_keep_a_stream_alive_and_are_nothing() -> None:
    async with serving(always(stream_head(), b": ping\n\ndata: \n\n", *WHOLE[1:])) as (provider, _):
        assert isinstance((await events_of(provider))[-1], Completed)


async def test_giving_up_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def endless(received: Received) -> AsyncIterator[bytes]:
        if received.path == "/v1/models":
            yield listing("tiny", owned_by="vllm")
            return
        try:
            yield stream_head()
            while True:
                yield chunk({"content": "x"})
                await asyncio.sleep(0)
        finally:
            gone.set()

    async with serving(endless) as (provider, _):
        stream = provider.stream(request())
        await anext(stream)
        await stream.aclose()
        await asyncio.wait_for(gone.wait(), 5)


@pytest.mark.parametrize(
    "url, is_allowed, is_offline, said",
    [
        ("http://192.168.77.7:9", False, False, "not allowed"),
        ("http://192.168.77.7:9", True, True, "offline"),
        ("https://api.example.org", False, False, "not allowed"),
    ],
)
async def test_leaving_the_machine_is_refused_before_anything_is_sent(
    url: str, is_allowed: bool, is_offline: bool, said: str
) -> None:
    server = RemoteServer(name="box", address=server_address(url), is_allowed=is_allowed, models=STATED)
    provider = OpenAiHttpProvider(server, SystemClock(), is_offline=is_offline)

    last = (await events_of(provider))[-1]

    assert isinstance(last, Failed)
    assert last.failure.kind == "policy_rejection"
    assert said in last.failure.message
    with pytest.raises(PolicyRejectionError):
        await provider.model_names()


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")

    async with serving(always(*WHOLE)) as (provider, _):
        assert isinstance((await events_of(provider))[-1], Completed)


async def test_the_key_goes_to_the_server_and_into_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOX_KEY", "sk-very-secret")

    async with serving(always(json_answer({}, 401)), api_key_env="BOX_KEY") as (provider, server):
        last = (await events_of(provider))[-1]

    assert {received.headers["authorization"] for received in server.received} == {"Bearer sk-very-secret"}
    assert "sk-very-secret" not in repr(last)


@pytest.mark.parametrize(
    "value, said", [("", "is not set"), ("sk-\nx", "characters"), ("ключ", "characters")]
)
async def test_a_key_that_cannot_be_one_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    monkeypatch.setenv("BOX_KEY", value)

    async with serving(always(*WHOLE), api_key_env="BOX_KEY") as (provider, server):
        last = (await events_of(provider))[-1]

    assert isinstance(last, Failed)
    assert last.failure.kind == "authentication"
    assert said in last.failure.message
    assert server.received == []


async def test_a_model_that_is_not_offered_is_refused_although_the_server_has_it() -> None:
    async with serving(always(*WHOLE, models=listing("tiny", "large"))) as (provider, _):
        assert await provider.model_names() == ["box/tiny"]
        with pytest.raises(ApplianceError, match="no model 'large'"):
            await provider.capabilities("box/large")


async def test_two_owners_do_not_share_a_prefix_cache_that_knows_none() -> None:
    models = listing("tiny", owned_by="llamacpp")
    async with serving(always(*WHOLE, models=models)) as (provider, server):
        for owner in ("ada", "ada", "bob", "ada"):
            await events_of(provider, request(owner=owner))

    reuse = [received.body["cache_prompt"] for received in server.received if "messages" in received.body]
    assert reuse == [True, True, False, False]


class Ollama:
    """Loads a model when it is asked to, has a small window, and would cut what does not fit."""

    def __init__(self) -> None:
        self._running: list[dict[str, object]] = []

    async def answer(self, received: Received) -> AsyncIterator[bytes]:
        match received.path:
            case "/v1/models":
                yield listing("tiny", owned_by="library")
            case "/api/generate":
                self._running = [{"name": "tiny", "context_length": 256}]
                yield json_answer({"done": True})
            case "/api/ps":
                yield json_answer({"models": self._running})
            case "/api/tags":
                yield json_answer({"models": [{"name": "tiny", "digest": "ab" * 32}]})
            case _:
                yield b"".join(WHOLE)


async def test_a_prompt_that_the_server_would_cut_in_silence_is_refused() -> None:
    async with serving(Ollama().answer) as (provider, server):
        offered = await provider.capabilities("box/tiny")
        short = (await events_of(provider, request("word " * 100)))[-1]
        long = (await events_of(provider, request("word " * 300)))[-1]

    assert (offered.context_window, offered.digest) == (256, "ab" * 32)
    assert isinstance(short, Completed)
    assert isinstance(long, Failed)
    assert long.failure.kind == "context_overflow"
    assert long.failure.details["context_window"] == 256
    assert "would leave out the rest" in long.failure.message
    assert server.paths().count("/v1/chat/completions") == 1


async def probed(answer: Answer, folder: Path) -> frozenset[str]:
    async with running(answer) as server:
        return await probed_at(server, folder)


async def probed_at(server: RunningServer, folder: Path) -> frozenset[str]:
    remote = RemoteServer(name="box", address=server_address(server.url))
    provider = OpenAiHttpProvider(remote, SystemClock(), cache_folder=folder)
    try:
        return (await provider.capabilities("box/tiny")).capabilities
    finally:
        await provider.close()


async def able(received: Received) -> AsyncIterator[bytes]:
    """Holds to schemas, calls tools and counts."""
    body = received.body
    if received.path == "/v1/models":
        yield listing("tiny", owned_by="vllm", max_model_len=2048)
    elif "response_format" in body:
        yield json_answer({"choices": [{"message": {"content": '{"word": "zq7x"}'}}]})
    elif "tools" in body:
        call = {"id": "1", "function": {"name": "report_zq7x", "arguments": '{"ok": true}'}}
        yield json_answer({"choices": [{"message": {"tool_calls": [call]}}]})
    else:
        yield b"".join(WHOLE)


async def talkative(received: Received) -> AsyncIterator[bytes]:
    """Takes every field and heeds none."""
    if received.path == "/v1/models":
        yield listing("tiny", owned_by="vllm")
    elif received.body.get("stream"):
        yield stream_head() + chunk({"content": "Hello!"}, "stop") + DONE
    else:
        yield json_answer({"choices": [{"message": {"content": 'Hello! {"word": "x"}', "tool_calls": None}}]})


async def test_a_server_is_offered_for_what_it_showed(tmp_path: Path) -> None:
    capabilities = await probed(able, tmp_path)

    assert capabilities == {"chat", "json_schema", "tools", "streaming_usage", "open_turn"}


@pytest.mark.parametrize("owner", ["someone", "library", "organization_owner"])
async def test_a_kind_of_server_with_no_known_way_to_go_on_inside_a_turn_is_not_asked_to(
    tmp_path: Path, owner: str
) -> None:
    async def of_its_kind(received: Received) -> AsyncIterator[bytes]:
        yield listing("tiny", owned_by=owner) if received.path == "/v1/models" else json_answer({}, 404)

    turns = (UserMessage(text="Hi"), AssistantMessage(text="Good"))
    going_on = GenerateRequest(conversation=Conversation(turns, is_open=True), model="box/tiny")
    async with running(of_its_kind) as server:
        remote = RemoteServer(name="box", address=server_address(server.url))
        provider = OpenAiHttpProvider(remote, SystemClock(), cache_folder=tmp_path)
        async with aclosing(provider.stream(going_on)) as events:
            last = [event async for event in events][-1]
        await provider.close()

    assert isinstance(last, Failed)
    assert last.failure.kind == "invalid_request"
    assert "go on inside an answer" in last.failure.message


async def test_a_server_that_takes_a_field_and_ignores_it_is_not_offered_for_it(tmp_path: Path) -> None:
    capabilities = await probed(talkative, tmp_path)

    assert capabilities == {"chat", "open_turn"}


@pytest.mark.parametrize("status", [400, 404, 422, 500, 501])
async def test_a_server_that_refuses_a_field_is_not_offered_for_it(tmp_path: Path, status: int) -> None:
    async def refuses(received: Received) -> AsyncIterator[bytes]:
        if "response_format" in received.body or "tools" in received.body:
            yield json_answer({"error": {"message": "unsupported"}}, status)
            return
        async for piece in able(received):
            yield piece

    capabilities = await probed(refuses, tmp_path)

    assert capabilities == {"chat", "streaming_usage", "open_turn"}


async def test_what_was_probed_once_is_not_probed_again(tmp_path: Path) -> None:
    async with running(able) as server:
        first, second = [await probed_at(server, tmp_path) for _ in range(2)]

    assert first == second
    assert server.paths().count("/v1/chat/completions") == 4


async def test_a_server_that_is_down_is_not_remembered_as_unable(tmp_path: Path) -> None:
    async def busy(received: Received) -> AsyncIterator[bytes]:
        yield listing("tiny", owned_by="vllm") if received.path == "/v1/models" else json_answer({}, 503)

    with pytest.raises(ProviderUnavailableError):
        await probed(busy, tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert await probed(able, tmp_path) == {"chat", "json_schema", "tools", "streaming_usage", "open_turn"}


async def test_probes_hold_nothing_of_the_user(tmp_path: Path) -> None:
    async with running(able) as server:
        provider = OpenAiHttpProvider(
            RemoteServer(name="box", address=server_address(server.url)), SystemClock(), cache_folder=tmp_path
        )
        await events_of(provider, request("the heliotrope is in the cellar"))
        await provider.close()

    holding = [received for received in server.received if "heliotrope" in str(received.body)]
    assert len(holding) == 1
    assert len(server.received) > 3
