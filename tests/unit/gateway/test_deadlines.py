"""Each deadline ends the request as a timeout of its own phase, closes the provider, and keeps the text."""

import pytest

from appliance.core.answer import AnswerInProgress
from appliance.core.clock import VirtualClock
from appliance.core.events import Completed, Failed, StreamEvent, TextDelta
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import Deadline, GenerateRequest
from appliance.gateway import Gateway
from appliance.providers.script import Say, ScriptedModel, Step, Think, Wait
from appliance.providers.scripted import ScriptedProvider


class Trial:
    """One scripted model behind a gateway, on a clock where nobody waits."""

    def __init__(self, *steps: Step, load_s: float = 0.0, prefill_token_s: float = 0.0) -> None:
        self.clock = VirtualClock()
        model = ScriptedModel(name="m", turns=(steps,), load_s=load_s, prefill_token_s=prefill_token_s)
        self.gateway = Gateway([ScriptedProvider([model], self.clock)], self.clock)

    async def events(self, deadline: Deadline) -> list[StreamEvent]:
        conversation = Conversation.of(UserMessage(text="go " * 10))
        request = GenerateRequest(conversation=conversation, model="m", deadline=deadline)
        return [event async for event in self.gateway.stream(request)]


def timeout_of(events: list[StreamEvent]) -> Failed:
    last = events[-1]
    assert isinstance(last, Failed), last
    assert last.failure.kind == "timeout"
    return last


async def test_the_total_deadline_ends_a_long_answer_and_keeps_its_text() -> None:
    trial = Trial(Say(text="a b c d e f", token_s=1.0))

    events = await trial.events(Deadline(total_s=3.5))

    failed = timeout_of(events)
    assert failed.failure.details == {"phase": "total", "limit_s": 3.5}
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["a", " b", " c"]
    assert failed.timings.total_s == pytest.approx(3.5)
    assert failed.timings.ttft_s == pytest.approx(1.0)


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(lambda: Trial(Say(text="late"), load_s=10.0), id="loading"),
        pytest.param(lambda: Trial(Say(text="late"), prefill_token_s=1.0), id="prefill"),
        pytest.param(lambda: Trial(Wait(duration_s=9.0), Say(text="late")), id="silence"),
    ],
)
async def test_the_first_token_deadline_covers_all_that_comes_before(trial: type[Trial]) -> None:
    failed = timeout_of(await trial().events(Deadline(first_token_s=4.0)))

    assert failed.failure.details == {"phase": "first_token", "limit_s": 4.0}
    assert failed.timings.total_s == pytest.approx(4.0)


async def test_the_first_token_deadline_is_over_once_a_thought_came() -> None:
    events = await Trial(Think(text="hm"), Wait(duration_s=60.0), Say(text="ok")).events(
        Deadline(first_token_s=4.0)
    )

    assert isinstance(events[-1], Completed)


async def test_a_stall_between_tokens_ends_the_answer_and_steady_tokens_do_not() -> None:
    deadline = Deadline(between_tokens_s=2.0)

    steady = await Trial(Wait(duration_s=30.0), Say(text="a b c", token_s=1.9)).events(deadline)
    stalled = await Trial(Say(text="a b "), Wait(duration_s=30.0), Say(text="c")).events(deadline)

    assert isinstance(steady[-1], Completed)
    assert timeout_of(stalled).failure.details == {"phase": "between_tokens", "limit_s": 2.0}


async def test_a_slow_reader_is_not_a_stall_of_the_provider() -> None:
    trial = Trial(Say(text="a b c"))
    conversation = Conversation.of(UserMessage(text="go"))
    request = GenerateRequest(conversation=conversation, model="m", deadline=Deadline(between_tokens_s=2.0))
    answer = AnswerInProgress()

    async for event in trial.gateway.stream(request):
        await trial.clock.sleep(5.0)
        answer.add(event)

    assert answer.result().kind == "success"


async def test_the_provider_is_closed_when_a_deadline_ends_its_stream() -> None:
    trial = Trial(Say(text="a b c d", token_s=1.0))

    await trial.events(Deadline(total_s=2.5))
    await trial.clock.sleep(100.0)

    assert trial.clock.now_s() == pytest.approx(102.5)


async def test_deadlines_that_are_kept_change_nothing() -> None:
    deadline = Deadline(total_s=100.0, first_token_s=50.0, between_tokens_s=10.0)

    limited = await Trial(Say(text="a b c", token_s=1.0), load_s=3.0).events(deadline)
    unlimited = await Trial(Say(text="a b c", token_s=1.0), load_s=3.0).events(Deadline())

    assert limited == unlimited
