"""An answer in progress keeps everything that was written, and ends as a success or one typed failure."""

from appliance.core.answer import AnswerInProgress
from appliance.core.errors import Failure
from appliance.core.events import (
    Completed,
    Failed,
    ModelIdentity,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
)
from appliance.core.messages import ToolCall
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess
from appliance.core.usage import FinishReason, Timings, Usage

USAGE = Usage(input_tokens=3, output_tokens=2)
TIMINGS = Timings(total_s=1.0)


def completed(finish_reason: FinishReason) -> Completed:
    model = ModelIdentity(provider="scripted", name="m")
    return Completed(finish_reason=finish_reason, usage=USAGE, timings=TIMINGS, model=model)


def result_of(*events: StreamEvent) -> GenerateResult:
    answer = AnswerInProgress()
    for event in events:
        answer.add(event)
    return answer.result()


def test_text_reasoning_and_tool_calls_come_together() -> None:
    result = result_of(
        ReasoningDelta(text="hm"),
        TextDelta(text="Let me "),
        TextDelta(text="look."),
        ToolCallDelta(index=1, call_id="b", name="two", arguments_delta="{}"),
        ToolCallDelta(index=0, call_id="a", name="one", arguments_delta='{"x":'),
        ToolCallDelta(index=0, call_id="a", name="", arguments_delta=" 1}"),
        completed("tool_calls"),
    )

    assert isinstance(result, GenerateSuccess)
    assert (result.message.text, result.message.reasoning) == ("Let me look.", "hm")
    assert result.message.tool_calls == (
        ToolCall(call_id="a", name="one", arguments_json='{"x": 1}'),
        ToolCall(call_id="b", name="two", arguments_json="{}"),
    )


def test_a_failure_keeps_what_was_written_and_counted() -> None:
    failure = Failure(kind="engine_crashed", message="it died")

    result = result_of(TextDelta(text="half"), Failed(failure=failure, usage=USAGE, timings=TIMINGS))

    assert isinstance(result, GenerateFailure)
    assert result.failure == failure
    assert result.partial.text == "half"
    assert (result.usage, result.timings) == (USAGE, TIMINGS)


def test_a_cancelled_answer_is_a_failure_of_its_own_kind() -> None:
    result = result_of(TextDelta(text="half"), completed("cancelled"))

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "cancelled"
    assert result.partial.text == "half"


def test_a_stream_without_an_end_is_an_internal_failure() -> None:
    progress = PrefillProgress(processed_tokens=5, total_tokens=9, cached_tokens=2)

    result = result_of(progress, TextDelta(text="half"))

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "internal"
    assert result.usage == Usage(input_tokens=9, cached_tokens=2)


def test_tool_calls_that_share_an_id_are_malformed_output() -> None:
    result = result_of(
        ToolCallDelta(index=0, call_id="a", name="one", arguments_delta="{}"),
        ToolCallDelta(index=1, call_id="a", name="two", arguments_delta="{}"),
        completed("tool_calls"),
    )

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "malformed_output"
