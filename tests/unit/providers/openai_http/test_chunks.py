"""Chunks of the kinds that servers write become the same events."""

import json

import pytest

from appliance.core.errors import PolicyRejectionError, ProviderUnavailableError
from appliance.core.events import PrefillProgress, ReasoningDelta, StreamEvent, TextDelta, ToolCallDelta
from appliance.core.logprobs import Alternative, TokenLogprob
from appliance.core.usage import Usage
from appliance.providers.openai_http.chunks import AnswerChunks

Json = dict[str, object]


def choice(delta: Json, finish: str | None = None) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def call(**fields: object) -> str:
    return choice({"tool_calls": [fields]})


def read(*chunks: str, is_wrapped: bool = False) -> tuple[AnswerChunks, list[StreamEvent]]:
    answer = AnswerChunks("box", is_wrapped=is_wrapped)
    events = [event for chunk in chunks for event in answer.events_of(chunk)]
    return answer, [*events, *answer.rest()]


def joined(events: list[StreamEvent]) -> dict[int, tuple[str, str, str]]:
    """Each call of an answer: its id, its name and its whole arguments."""
    calls: dict[int, tuple[str, str, str]] = {}
    for event in events:
        assert isinstance(event, ToolCallDelta)
        call_id, name, arguments = calls.get(event.index, (event.call_id, "", ""))
        calls[event.index] = (call_id, name + event.name, arguments + event.arguments_delta)
    return calls


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_and_text_are_told_apart(field: str) -> None:
    _, events = read(
        choice({field: "hm", "content": None}), choice({"content": "so"}), choice({"content": ""})
    )

    assert events == [ReasoningDelta(text="hm"), TextDelta(text="so")]


def test_fragments_of_several_calls_are_told_apart_by_index() -> None:
    answer, events = read(
        call(index=0, id="a", type="function", function={"name": "get", "arguments": ""}),
        call(index=1, id="b", type="function", function={"name": "put", "arguments": '{"x'}),
        call(index=0, function={"arguments": '{"y":1}'}),
        call(index=1, function={"arguments": '":2}'}),
        choice({}, "tool_calls"),
    )

    assert joined(events) == {0: ("a", "get", '{"y":1}'), 1: ("b", "put", '{"x":2}')}
    assert answer.finish_reason == "tool_calls"


def test_fragments_without_an_index_are_told_apart_by_id() -> None:
    _, events = read(
        call(id="a", function={"name": "get", "arguments": "{"}),
        call(function={"arguments": "}"}),
        call(id="b", function={"name": "put", "arguments": "{}"}),
    )

    assert joined(events) == {0: ("a", "get", "{}"), 1: ("b", "put", "{}")}


def test_arguments_as_an_object_and_no_id_still_make_a_call() -> None:
    answer, events = read(call(function={"name": "get", "arguments": {"x": "ü"}}), choice({}, "stop"))

    assert joined(events) == {0: ("call_0", "get", '{"x": "ü"}')}
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "stated, reason",
    [
        ("stop", "stop"),
        ("length", "length"),
        ("eos", "stop"),
        ("function_call", "tool_calls"),
        ("odd", "stop"),
    ],
)
def test_reasons_in_other_words_are_understood(stated: str, reason: str) -> None:
    assert read(choice({}, stated))[0].finish_reason == reason


def test_an_answer_that_a_filter_withheld_is_a_rejection() -> None:
    with pytest.raises(PolicyRejectionError):
        read(choice({}, "content_filter"))


@pytest.mark.parametrize("stated", ["error", "abort"])
def test_an_answer_that_was_given_up_is_no_answer(stated: str) -> None:
    with pytest.raises(ProviderUnavailableError):
        read(choice({"content": "half"}, stated))


def test_usage_is_read_and_never_more_than_it_is_part_of() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 50},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }

    answer, _ = read(json.dumps({"choices": [], "usage": usage}))

    assert answer.usage == Usage(input_tokens=9, cached_tokens=9, output_tokens=4, reasoning_tokens=3)


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"prompt_tokens": 3}, {"prompt_tokens": -1, "completion_tokens": 2}, {"prompt_tokens": True,
     "completion_tokens": 1}, {"prompt_tokens": "3", "completion_tokens": "4"}, []],
)  # fmt: skip
def test_usage_that_is_no_usage_is_not_known(usage: object) -> None:
    assert read(json.dumps({"choices": [], "usage": usage}))[0].usage is None


def test_progress_of_the_prompt_is_passed_on() -> None:
    progress = {"total": 33, "cache": 8, "processed": 20, "time_ms": 3}

    _, events = read(json.dumps({"choices": [], "prompt_progress": progress}))

    assert events == [PrefillProgress(processed_tokens=20, total_tokens=33, cached_tokens=8)]


def test_times_of_the_server_are_seconds() -> None:
    answer, _ = read(json.dumps({"choices": [], "timings": {"prompt_ms": 250, "predicted_ms": 1500.5}}))

    assert (answer.timings.prefill_s, answer.timings.decode_s) == (0.25, 1.5005)


def test_a_wrapped_text_is_told_once_and_whole() -> None:
    _, events = read(
        choice({"content": '"ja '}), choice({"content": '\\u00fc"'}), choice({}, "stop"), is_wrapped=True
    )

    assert events == [TextDelta(text="ja ü")]


def test_a_wrapped_text_that_was_cut_is_shown_as_it_is() -> None:
    _, events = read(choice({"content": '"ja '}), choice({}, "length"), is_wrapped=True)

    assert events == [TextDelta(text='"ja ')]


@pytest.mark.parametrize("data", ["{", "", "7", "[]", "null", "[" * 100_000])
def test_a_chunk_that_is_no_object_is_named(data: str) -> None:
    with pytest.raises(ProviderUnavailableError, match="no JSON object"):
        read(data)


@pytest.mark.parametrize(
    "data",
    ['{"choices": 7}', '{"choices": [7]}', '{"choices": [{"delta": []}]}', '{"choices": [{"delta": {"content": 5}}]}',
     '{"choices": [{"delta": {"tool_calls": [7, null]}}]}', "{}", '{"choices": [], "timings": [], "prompt_progress": 3}'],
)  # fmt: skip
def test_values_of_the_wrong_kind_are_no_crash_and_no_text(data: str) -> None:
    _, events = read(data)

    assert [event for event in events if isinstance(event, TextDelta)] == []


def test_an_error_inside_the_stream_is_its_error() -> None:
    with pytest.raises(ProviderUnavailableError, match="out of memory"):
        read('{"error": {"message": "out of memory", "code": 500}}')


def scored(text: str, *entries: Json) -> str:
    return json.dumps({"choices": [{"delta": {"content": text}, "logprobs": {"content": entries}}]})


def read_scored(*chunks: str, top: int | None = 1) -> list[StreamEvent]:
    answer = AnswerChunks("box", top_logprobs=top)
    return [event for chunk in chunks for event in answer.events_of(chunk)]


def test_log_probabilities_come_with_their_text_and_no_more_alternatives_than_asked_for() -> None:
    other = {"token": "no", "bytes": None, "logprob": -2.0}
    entry = {"token": "so", "bytes": [115, 111], "logprob": -0.25, "top_logprobs": [other, other]}

    (event,) = read_scored(scored("so", entry))

    alternative = Alternative(token="no", token_bytes=(110, 111), logprob=-2.0)
    told = TokenLogprob(token="so", token_bytes=(115, 111), logprob=-0.25, top=(alternative,))
    assert event == TextDelta(text="so", logprobs=(told,))


def test_tokens_of_a_character_in_pieces_wait_for_it() -> None:
    halves = [{"token": "?", "bytes": [byte], "logprob": -1.0} for byte in "é".encode()]

    (event,) = read_scored(scored("", halves[0]), scored("é", halves[1]))

    assert isinstance(event, TextDelta)
    assert [each.token_bytes for each in event.logprobs] == [(195,), (169,)]


@pytest.mark.parametrize("strange", [None, "-inf", float("-inf"), True, -1e300])
def test_a_log_probability_that_is_no_number_is_as_unlikely_as_can_be(strange: object) -> None:
    (event,) = read_scored(scored("a", {"token": "a", "logprob": strange}))

    assert isinstance(event, TextDelta)
    assert event.logprobs[0].logprob == -9999.0


def test_log_probabilities_of_thinking_and_those_nobody_asked_for_are_left_out() -> None:
    entry = {"token": "a", "logprob": -1.0}
    thinking = json.dumps({"choices": [{"delta": {"reasoning": "a"}, "logprobs": {"content": [entry]}}]})

    assert read_scored(thinking, scored("b")) == [ReasoningDelta(text="a"), TextDelta(text="b")]
    assert read_scored(scored("a", entry), top=None) == [TextDelta(text="a")]
