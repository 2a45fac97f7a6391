"""One trace tells the whole course of a request: admission, attempts, back-off, validation; and no content."""

from appliance.config import RetryPolicy
from appliance.core.clock import VirtualClock
from appliance.core.events import Completed
from appliance.core.requests import RegexFormat
from appliance.gateway import Gateway, GatewayPolicy
from appliance.telemetry import Telemetry
from appliance.telemetry.spans import SpanRecord
from tests.played_provider import PlayedModel, PlayedProvider, fails, question, says


class Sink:
    """Keeps the records of ended spans."""

    def __init__(self) -> None:
        self.records: list[SpanRecord] = []

    def take(self, record: SpanRecord) -> None:
        self.records.append(record)

    def close(self) -> None:
        return


async def test_a_trace_holds_every_step_below_the_request() -> None:
    clock, sink = VirtualClock(), Sink()
    model = PlayedModel("small", [fails("provider_unavailable"), says("12", seconds=2.0)])
    retry = RetryPolicy(first_wait_s=1.0)
    gateway = Gateway(
        [PlayedProvider(clock, model)],
        clock,
        policy=GatewayPolicy(retry=retry),
        telemetry=Telemetry(clock, sink=sink),
    )
    request = question("secret question", output=RegexFormat(pattern="[0-9]+"))

    await gateway.generate(request)

    (root,) = [record for record in sink.records if not record.parent_id]
    steps = [record.name for record in sink.records if record.parent_id == root.span_id]
    assert steps == ["admission", "attempt", "back_off", "attempt", "validation"]
    assert root.request_id == request.request_id
    assert root.attributes["gen_ai.response.model"] == "small"
    attempts = [record for record in sink.records if record.name == "attempt"]
    assert [record.status for record in attempts] == ["error", "ok"]
    assert attempts[0].attributes["error.type"] == "provider_unavailable"
    decode = next(record for record in sink.records if record.name == "decode")
    assert (decode.parent_id, decode.duration_ns) == (attempts[1].span_id, 2_000_000_000)
    assert "secret" not in repr(sink.records)


async def test_a_stream_that_is_left_after_its_end_was_not_cancelled() -> None:
    clock, sink = VirtualClock(), Sink()
    gateway = Gateway(
        [PlayedProvider(clock, PlayedModel("small", [says("well")]))],
        clock,
        telemetry=Telemetry(clock, sink=sink),
    )
    events = gateway.stream(question())

    async for event in events:
        if isinstance(event, Completed):
            break
    await events.aclose()

    assert [record.status for record in sink.records if not record.parent_id] == ["ok"]


async def test_attempts_retries_and_endings_are_counted() -> None:
    clock = VirtualClock()
    telemetry = Telemetry(clock)
    model = PlayedModel("small", [fails("provider_unavailable"), says("well")])
    gateway = Gateway([PlayedProvider(clock, model)], clock, telemetry=telemetry)

    await gateway.generate(question())
    await gateway.generate(question(model="nobody"))

    metrics = telemetry.metrics
    assert metrics.attempts.values() == {
        ("played", "small", "provider_unavailable"): 1.0,
        ("played", "small", "completed"): 1.0,
    }
    assert metrics.retries.values() == {("played", "small", "provider_unavailable"): 1.0}
    assert metrics.requests.values()["played", "small", "stop"] == 1.0
    assert metrics.rejections.values() == {("invalid_request",): 1.0}
