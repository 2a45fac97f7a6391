"""A small model answers first; the next one is asked only when a validator or grader says no."""

import pytest
from pydantic import BaseModel

from appliance.config import Limits, Quota, Route, RouteCandidate
from appliance.core.clock import VirtualClock
from appliance.core.errors import FailureKind
from appliance.core.events import Completed, Failed, ReasoningDelta, StreamEvent, TextDelta
from appliance.core.requests import GenerateRequest, JsonSchemaFormat, RegexFormat
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.gateway import Gateway, GatewayPolicy
from tests.played_provider import PlayedModel, PlayedProvider, fails, question, says

DIGITS = RegexFormat(pattern="[0-9]+")
AGE = JsonSchemaFormat(
    schema_json='{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}'
)


class Age(BaseModel):
    age: int


class Trial:
    """Two models, the small one first."""

    def __init__(
        self, small: PlayedModel, big: PlayedModel, *, is_cascade: bool = True, seats: int = 0
    ) -> None:
        self.small, self.big = small, big
        self.clock = VirtualClock()
        candidates = (RouteCandidate(model="small"), RouteCandidate(model="big"))
        fallback: frozenset[FailureKind] = frozenset(("provider_unavailable",))
        route = Route(name="both", candidates=candidates, is_cascade=is_cascade, fallback_on=fallback)
        limits = Limits(overall=Quota(concurrency=seats, queue=10))
        policy = GatewayPolicy(routes={"both": route}, limits=limits)
        self.gateway = Gateway([PlayedProvider(self.clock, small, big)], self.clock, policy=policy)

    async def events(self, request: GenerateRequest) -> list[StreamEvent]:
        return [event async for event in self.gateway.stream(request)]


def of(small: str, big: str, **changes: bool) -> Trial:
    return Trial(PlayedModel("small", [says(small)]), PlayedModel("big", [says(big)]), **changes)


def asked(**changes: object) -> GenerateRequest:
    return question(model="both", **changes)


async def test_a_good_answer_of_the_small_model_is_the_answer() -> None:
    trial = of("12", "34")

    result = await trial.gateway.generate(asked(output=DIGITS))

    assert isinstance(result, GenerateSuccess)
    assert (result.value, result.model.name) == ("12", "small")
    assert trial.big.requests == []


async def test_an_answer_that_breaks_its_form_goes_to_the_next_model_and_is_never_shown() -> None:
    events = await of("twelve", "34").events(asked(output=DIGITS))

    assert [event.text for event in events if isinstance(event, TextDelta)] == ["34"]
    last = events[-1]
    assert isinstance(last, Completed)
    assert last.model.name == "big"
    assert [(attempt.model, attempt.failure) for attempt in last.handling.attempts] == [
        ("small", "malformed_output"),
        ("big", None),
    ]


async def test_every_attempt_of_a_cascade_counts() -> None:
    trial = Trial(
        PlayedModel("small", [says("nine ten", seconds=1.0, input_tokens=5)]),
        PlayedModel("big", [says("34", seconds=2.0, input_tokens=7)]),
    )

    result = await trial.gateway.generate(asked(output=DIGITS))

    assert isinstance(result, GenerateSuccess)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (12, 3)
    assert result.timings.total_s == pytest.approx(3.0)
    assert result.timings.ttft_s == pytest.approx(3.0)


async def test_a_type_is_repaired_by_the_small_model_before_the_big_one_is_asked() -> None:
    trial = Trial(
        PlayedModel("small", [says('{"age": "x"}'), says('{"age": "y"}')]),
        PlayedModel("big", [says('{"age": 3}')]),
    )

    result = await trial.gateway.generate(asked(), Age)

    assert isinstance(result, GenerateSuccess)
    assert result.value == Age(age=3)
    assert (len(trial.small.requests), len(trial.big.requests)) == (2, 1)
    assert len(trial.big.requests[0].conversation.messages) == 2, "the big model sees the question, no repair"


async def test_the_last_model_s_failure_is_the_outcome() -> None:
    result = await of("one", "two").gateway.generate(asked(output=DIGITS))

    assert isinstance(result, GenerateFailure)
    assert (result.failure.kind, result.failure.details["raw_text"]) == ("malformed_output", "two")


async def test_without_cascade_a_malformed_answer_is_not_asked_of_another_model() -> None:
    trial = of("twelve", "34", is_cascade=False)

    result = await trial.gateway.generate(asked(output=DIGITS))

    assert isinstance(result, GenerateFailure)
    assert trial.big.requests == []


async def test_thinking_of_a_refused_answer_is_not_shown() -> None:
    thought = (ReasoningDelta(text="hm"), *says("twelve"))
    trial = Trial(PlayedModel("small", [thought]), PlayedModel("big", [says("34")]))

    result = await trial.gateway.generate(asked(output=DIGITS))

    assert isinstance(result, GenerateSuccess)
    assert result.message.reasoning == ""


async def test_the_last_model_streams_as_it_writes() -> None:
    writing = (TextDelta(text="3"), TextDelta(text="4"), says("")[-1])
    trial = Trial(PlayedModel("small", [says("no")]), PlayedModel("big", [writing]))

    events = await trial.events(asked(output=DIGITS))

    assert [event.text for event in events if isinstance(event, TextDelta)] == ["3", "4"]


def too_short(result: GenerateSuccess) -> str:
    return "" if len(result.message.text) > 5 else "it is too short"


async def test_a_grader_escalates_and_its_reason_stands_in_the_record() -> None:
    result = await of("short", "long enough").gateway.generate(asked(), grader=too_short)

    assert isinstance(result, GenerateSuccess)
    assert (result.message.text, result.model.name) == ("long enough", "big")
    first = result.handling.attempts[0]
    assert (first.failure, first.message) == ("malformed_output", "it is too short")


async def test_a_grader_that_nobody_satisfies_ends_in_a_failure_with_its_reason() -> None:
    result = await of("no", "nope").gateway.generate(asked(), grader=too_short)

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "malformed_output"
    assert "the answer was refused: it is too short" in result.failure.message
    assert result.failure.details["raw_text"] == "nope"


async def test_a_grader_sees_the_value() -> None:
    def odd(result: GenerateSuccess) -> str:
        assert isinstance(result.value, dict)
        return "it is even" if result.value["age"] % 2 == 0 else ""

    result = await of('{"age": 2}', '{"age": 3}').gateway.generate(asked(output=AGE), grader=odd)

    assert isinstance(result, GenerateSuccess)
    assert result.value == {"age": 3}


async def test_a_grader_may_ask_a_model_without_waiting_for_the_seat_it_holds() -> None:
    trial = Trial(
        PlayedModel("small", [says("draft"), says("yes")]), PlayedModel("big", [says("never")]), seats=1
    )

    async def judge(result: GenerateSuccess) -> str:
        verdict = await trial.gateway.generate(question(f"is {result.message.text} good?", model="small"))
        assert isinstance(verdict, GenerateSuccess)
        return "" if verdict.message.text == "yes" else "no"

    result = await trial.gateway.generate(asked(), grader=judge)

    assert isinstance(result, GenerateSuccess)
    assert result.message.text == "draft"


async def test_a_grader_that_breaks_is_the_caller_s_error() -> None:
    def broken(result: GenerateSuccess) -> str:
        raise ZeroDivisionError("division by zero")

    result = await of("a", "b").gateway.generate(asked(), grader=broken)

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "invalid_request"
    assert "the grader failed with ZeroDivisionError" in result.failure.message


async def test_a_failure_of_the_small_model_is_a_fallback_and_no_refusal() -> None:
    trial = Trial(PlayedModel("small", [fails("provider_unavailable")]), PlayedModel("big", [says("34")]))

    events = await trial.events(asked(output=DIGITS))

    last = events[-1]
    assert not isinstance(last, Failed)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["34"]
