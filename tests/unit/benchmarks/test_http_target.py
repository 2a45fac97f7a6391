"""The load client against a transport of known times on a clock where nobody waits."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from appliance.core.clock import VirtualClock
from appliance.core.errors import InvalidRequestError, PolicyRejectionError, ProviderUnavailableError
from benchmarks.answer_checks import answer_doubts, count_outputs
from benchmarks.answers import LoadRequest
from benchmarks.event_splitter import EventSplitter
from benchmarks.http_target import HttpTarget, base_of, refuse_when_offline

TTFT_S, ITL_S = 0.25, 0.02


class KnownTimes(httpx.AsyncByteStream):
    """Streams tokens at set times; several of them in one read where asked."""

    def __init__(self, clock: VirtualClock, tokens: int) -> None:
        self._clock = clock
        self._tokens = tokens

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield _event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        for number in range(self._tokens):
            await self._clock.sleep(ITL_S if number else TTFT_S)
            yield _event({"choices": [{"delta": {"content": f" w{number}"}, "finish_reason": None}]})
        usage = {
            "prompt_tokens": 9,
            "completion_tokens": self._tokens,
            "prompt_tokens_details": {"cached_tokens": 4},
        }
        yield _event({"choices": [{"delta": {}, "finish_reason": "length"}]})
        yield _event({"choices": [], "usage": usage, **_EXTRA})
        yield b"data: [DONE]\n\n"


_EXTRA: dict[str, object] = {"appliance": {"timings": [{"queue_s": 0.01, "load_s": 0.0, "prefill_s": 0.2}]}}


class KnownServer(httpx.AsyncBaseTransport):
    """Answers chat completions after known times, `/tokenize` by words, and errors where told."""

    def __init__(self, clock: VirtualClock, *, status: int = 200, has_tokenize: bool = True) -> None:
        self._clock = clock
        self._status = status
        self._has_tokenize = has_tokenize
        self.bodies: list[dict[str, object]] = []
        self.counts_conversations = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        if request.url.path.endswith("/tokenize"):
            return self._tokenize(body)
        self.bodies.append(body)
        if self._status != 200:
            return httpx.Response(self._status, json={"error": {"message": "no such model"}})
        return httpx.Response(200, stream=KnownTimes(self._clock, body["max_tokens"]))

    def _tokenize(self, body: dict[str, str]) -> httpx.Response:
        if not self._has_tokenize:
            return httpx.Response(404)
        if "messages" in body:
            return httpx.Response(200, json={"count": 42} if self.counts_conversations else {"tokens": []})
        return httpx.Response(200, json={"tokens": list(range(len(body["content"].split())))})


def _event(value: object) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _target(server: KnownServer, clock: VirtualClock, **extra: object) -> HttpTarget:
    return HttpTarget("http://127.0.0.1:1", "m", extra=extra, now=clock.now_s, transport=server)


def _request(tokens: int) -> LoadRequest:
    return LoadRequest(number=1, text="some words", input_tokens=9, output_tokens=tokens, key="k")


async def test_times_of_a_stream_of_known_times_are_exact(virtual_clock: VirtualClock) -> None:
    async with _target(KnownServer(virtual_clock), virtual_clock) as target:
        answer = await target.answer(_request(20))

    assert answer.trace.ttft_s == pytest.approx(TTFT_S, abs=1e-9)
    assert answer.trace.itl_s == pytest.approx([ITL_S] * 19, abs=1e-9)
    assert answer.trace.tpot_s == pytest.approx(ITL_S, abs=1e-9)
    assert answer.trace.e2el_s == pytest.approx(TTFT_S + 19 * ITL_S, abs=1e-9)


async def test_counts_phases_and_the_ending_are_those_the_server_says(virtual_clock: VirtualClock) -> None:
    async with _target(KnownServer(virtual_clock), virtual_clock) as target:
        answer = await target.answer(_request(3))

    assert (answer.input_tokens, answer.cached_tokens, answer.trace.output_tokens) == (9, 4, 3)
    assert answer.phases == {"queue_s": 0.01, "load_s": 0.0, "prefill_s": 0.2}
    assert (answer.finish_reason, answer.has_succeeded) == ("length", True)


async def test_more_fields_of_the_body_are_sent(virtual_clock: VirtualClock) -> None:
    server = KnownServer(virtual_clock)
    async with _target(server, virtual_clock, ignore_eos=True) as target:
        await target.answer(_request(2))

    assert server.bodies[0]["ignore_eos"] is True
    assert server.bodies[0]["stream_options"] == {"include_usage": True}


async def test_a_refusal_is_a_failed_answer_with_the_servers_words(virtual_clock: VirtualClock) -> None:
    async with _target(KnownServer(virtual_clock, status=404), virtual_clock) as target:
        answer = await target.answer(_request(2))

    assert not answer.has_succeeded
    assert "HTTP 404" in answer.failure
    assert "no such model" in answer.failure


async def test_a_prompt_is_counted_with_what_the_template_adds(virtual_clock: VirtualClock) -> None:
    async with _target(KnownServer(virtual_clock), virtual_clock) as target:
        counted = await target.count_tokens("one two three")

    assert counted == 3 + (9 - 1)  # the server says 9 tokens for a prompt of one word


async def test_a_server_that_counts_conversations_is_believed(virtual_clock: VirtualClock) -> None:
    server = KnownServer(virtual_clock)
    server.counts_conversations = True
    async with _target(server, virtual_clock) as target:
        counted = await target.count_tokens("one two three")

    assert (counted, server.bodies) == (42, [])


async def test_a_server_that_cannot_count_is_refused_with_a_way_out(virtual_clock: VirtualClock) -> None:
    async with _target(KnownServer(virtual_clock, has_tokenize=False), virtual_clock) as target:
        with pytest.raises(InvalidRequestError) as refused:
            await target.count_tokens("one")

    assert "--tokenizer" in refused.value.hint


async def test_a_server_that_is_not_there_is_a_typed_error() -> None:
    async with HttpTarget("http://127.0.0.1:1", "m") as target:
        with pytest.raises(ProviderUnavailableError, match="cannot be reached"):
            await target.model_names()


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1"),
        ("https://host/api/v1/chat/completions", "https://host/api/v1"),
    ],
)
def test_an_url_is_taken_however_it_is_written(url: str, base: str) -> None:
    assert base_of(url) == base


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "ftp://host",
        "http://",
        "http://user:secret@host",
        "http://host/v1?key=secret",
        "http://h#secret",
    ],
)
def test_what_is_no_url_or_holds_a_password_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        base_of(url)

    assert "secret" not in refused.value.message


def test_offline_only_this_machine_is_reached() -> None:
    refuse_when_offline("http://127.0.0.1:8080", is_offline=True)
    refuse_when_offline("http://other.example", is_offline=False)

    with pytest.raises(PolicyRejectionError, match=r"other\.example"):
        refuse_when_offline("http://other.example", is_offline=True)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_events_are_the_same_however_their_bytes_are_cut(size: int) -> None:
    data = b": comment\n\ndata: one\n\nevent: x\ndata:two\r\n\r\ndata: a\ndata: b\n\n"
    splitter = EventSplitter()

    events = [event for at in range(0, len(data), size) for event in splitter.feed(data[at : at + size])]

    assert events == [b"one", b"two", b"a\nb"]


class BrokenOff(httpx.AsyncByteStream):
    """Two tokens, and the connection is closed without a word."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(2):
            yield _event({"choices": [{"delta": {"content": " w"}, "finish_reason": None}]})


async def test_a_stream_that_ends_in_the_middle_is_a_failed_answer(virtual_clock: VirtualClock) -> None:
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, stream=BrokenOff()))
    async with HttpTarget("http://127.0.0.1:1", "m", now=virtual_clock.now_s, transport=transport) as target:
        answer = await target.answer(_request(5))

    assert not answer.has_succeeded
    assert "broke off after 2 chunks" in answer.failure
    assert answer.does_target_count is False


WEIRD = [
    {"choices": "none"}, [1], {"choices": [5, {"delta": "x"}, {"delta": {"content": ["a"]}, "finish_reason": 7}]},
    {"usage": "much"}, {"usage": {"prompt_tokens": "7", "completion_tokens": -1}}, {"timings": [], "appliance": 3},
    {"choices": [{"delta": {"content": "four words in one"}, "finish_reason": "stop"}]},
]  # fmt: skip


class Bytes(httpx.AsyncByteStream):
    """Everything in one read."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


def _responding(
    clock: VirtualClock, body: bytes, content_type: str = "text/event-stream; charset=utf-8"
) -> HttpTarget:
    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/tokenize"):
            return httpx.Response(200, json={"tokens": json.loads(request.content)["content"].split()})
        return httpx.Response(200, stream=Bytes(body), headers={"content-type": content_type})

    transport = httpx.MockTransport(respond)
    return HttpTarget("http://127.0.0.1:1", "m", now=clock.now_s, transport=transport)


async def test_fields_of_other_types_are_passed_over(virtual_clock: VirtualClock) -> None:
    async with _responding(virtual_clock, b"".join(map(_event, WEIRD))) as target:
        answer = await target.answer(_request(5))

    assert (answer.failure, answer.finish_reason, answer.input_tokens) == ("", "stop", None)


async def test_an_answer_that_nobody_counted_is_counted_by_its_text(virtual_clock: VirtualClock) -> None:
    async with _responding(virtual_clock, _event(WEIRD[-1])) as target:
        (counted,) = await count_outputs([await target.answer(_request(9))], target)

    assert (counted.trace.output_tokens, counted.is_counted_here) == (4, True)
    assert "their texts were counted here" in " ".join(answer_doubts([counted], is_cached=False))


async def test_reasoning_that_comes_under_two_names_is_counted_once(virtual_clock: VirtualClock) -> None:
    delta = {"content": "", "reasoning": "two words", "reasoning_content": "two words"}
    said = {"choices": [{"delta": delta}, {"delta": {"content": " three"}, "finish_reason": "stop"}]}
    async with _responding(virtual_clock, _event(said)) as target:
        answer = await target.answer(_request(9))

    assert answer.text == "two words three"


async def test_a_server_without_tokenize_is_asked_for_it_once(virtual_clock: VirtualClock) -> None:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(404)

    transport = httpx.MockTransport(respond)
    async with HttpTarget("http://127.0.0.1:1", "m", now=virtual_clock.now_s, transport=transport) as target:
        counts = [await target.count_output("some words") for _ in range(3)]

    assert counts == [None] * 3
    assert asked == ["/tokenize", "/v1/tokenize"]


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"data: {not json\n\n", "text/event-stream", "no JSON: {not json"),
        (b"\x00\xff garbage", "text/event-stream", "the answer has no text"),
        (b'{"choices": []}', "application/json", "sent application/json instead of a stream"),
        (b"<html>", "text/html", "sent text/html instead of a stream"),
    ],
)
async def test_what_is_no_stream_of_events_is_said(
    virtual_clock: VirtualClock, body: bytes, content_type: str, words: str
) -> None:
    async with _responding(virtual_clock, body, content_type) as target:
        answer = await target.answer(_request(5))

    assert words in answer.failure
