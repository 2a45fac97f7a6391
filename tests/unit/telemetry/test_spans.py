"""A span tells what happened and when, in names and numbers, and never what someone wrote."""

import asyncio
from collections.abc import Sequence

import pytest

from appliance.core.clock import VirtualClock
from appliance.core.errors import Failure, MalformedOutputError, ProviderUnavailableError
from appliance.core.usage import Timings
from appliance.telemetry import Telemetry
from appliance.telemetry.spans import LONGEST_TEXT, SpanRecord

REQUEST = "0123456789abcdef" * 2
SECRET = "the heliotrope is in the cellar"


class Kept:
    """A sink that keeps records in a list."""

    def __init__(self) -> None:
        self.records: list[SpanRecord] = []

    def take(self, record: SpanRecord) -> None:
        self.records.append(record)

    def close(self) -> None:
        self.records.append(self.records[-1])


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def telemetry(kept: Kept, virtual_clock: VirtualClock) -> Telemetry:
    return Telemetry(virtual_clock, sink=kept)


def named(records: Sequence[SpanRecord], name: str) -> SpanRecord:
    (record,) = (record for record in records if record.name == name)
    return record


async def test_a_child_lies_below_its_parent_in_name_and_time(
    kept: Kept, telemetry: Telemetry, virtual_clock: VirtualClock
) -> None:
    with telemetry.span("request", request_id=REQUEST, owner="ada") as request:
        await virtual_clock.sleep(1.0)
        with request.child("attempt", {"gen_ai.request.model": "tiny"}):
            await virtual_clock.sleep(2.0)

    root, child = named(kept.records, "request"), named(kept.records, "attempt")
    assert (root.trace_id, root.parent_id, root.owner) == (REQUEST, "", "ada")
    assert (child.trace_id, child.parent_id, child.owner) == (REQUEST, root.span_id, "ada")
    assert (child.start_ns - root.start_ns, child.duration_ns) == (10**9, 2 * 10**9)
    assert root.duration_ns == 3 * 10**9
    assert child.attributes == {"gen_ai.request.model": "tiny"}


async def test_the_phases_of_an_engine_follow_one_another(kept: Kept, telemetry: Telemetry) -> None:
    with telemetry.span("attempt") as attempt:
        attempt.add_phases(Timings(queue_s=1.0, load_s=0.0, prefill_s=2.0, decode_s=4.0))

    start_ns = named(kept.records, "attempt").start_ns
    phases = [(record.name, record.start_ns - start_ns, record.duration_ns) for record in kept.records[:-1]]
    assert phases == [
        ("queue", 0, 10**9),
        ("prefill", 10**9, 2 * 10**9),
        ("decode", 3 * 10**9, 4 * 10**9),
    ]


async def test_spans_begun_inside_an_ambient_span_lie_below_it(kept: Kept, telemetry: Telemetry) -> None:
    with telemetry.span("request", request_id=REQUEST) as request, telemetry.ambient(request):
        telemetry.span("context", request_id="another").end()
    telemetry.span("outside", request_id="another").end()

    assert named(kept.records, "context").parent_id == request.span_id
    assert named(kept.records, "context").trace_id == REQUEST
    assert named(kept.records, "outside").parent_id == ""


async def test_ambient_spans_of_two_tasks_are_not_mixed(kept: Kept, telemetry: Telemetry) -> None:
    both = asyncio.Barrier(2)

    async def work(name: str) -> None:
        with telemetry.span(name) as span, telemetry.ambient(span):
            await both.wait()
            telemetry.span(f"below {name}").end()

    await asyncio.gather(work("first"), work("second"))

    for name in ("first", "second"):
        assert named(kept.records, f"below {name}").parent_id == named(kept.records, name).span_id


async def test_a_request_id_of_any_other_form_makes_a_valid_trace_id_that_is_always_the_same(
    telemetry: Telemetry,
) -> None:
    first, second = (telemetry.span("request", request_id="req-7") for _ in range(2))
    zeros = telemetry.span("request", request_id="0" * 32)

    assert first.trace_id == second.trace_id
    assert len(first.trace_id) == 32
    assert int(zeros.trace_id, 16) != 0


async def test_what_an_exception_quotes_is_not_kept(kept: Kept, telemetry: Telemetry) -> None:
    error = MalformedOutputError(f"{SECRET!r} is no JSON", raw_text=SECRET)

    with pytest.raises(MalformedOutputError), telemetry.span("validation"):
        raise error

    record = kept.records[0]
    assert (record.status, record.attributes["error.type"]) == ("error", "malformed_output")
    assert "heliotrope" not in repr(record)


async def test_numbers_of_a_failure_are_kept(kept: Kept, telemetry: Telemetry) -> None:
    with telemetry.span("attempt") as span:
        span.fail(
            Failure(kind="rate_limited", message=SECRET, details={"retry_after_s": 3.5, "host": SECRET})
        )

    assert kept.records[0].attributes == {
        "error.type": "rate_limited",
        "appliance.retryable": False,
        "appliance.failure.retry_after_s": 3.5,
    }


@pytest.mark.parametrize(
    "exception, status",
    [(asyncio.CancelledError(), "cancelled"), (GeneratorExit(), "cancelled"), (ValueError(SECRET), "error"),
     (ProviderUnavailableError("down"), "error")],
)  # fmt: skip
async def test_an_exception_that_passes_becomes_the_status(
    kept: Kept, telemetry: Telemetry, exception: BaseException, status: str
) -> None:
    with pytest.raises(type(exception)), telemetry.span("attempt"):
        raise exception

    assert kept.records[0].status == status
    assert SECRET not in repr(kept.records[0])


async def test_a_span_that_ends_twice_is_kept_once(kept: Kept, telemetry: Telemetry) -> None:
    with telemetry.span("attempt") as span:
        span.end()

    assert len(kept.records) == 1


async def test_texts_of_other_owners_are_dropped_and_of_this_one_redacted(
    kept: Kept, virtual_clock: VirtualClock
) -> None:
    telemetry = Telemetry(virtual_clock, sink=kept, content_owners=frozenset(("ada",)))

    for owner in ("ada", "bob"):
        with telemetry.span("request", owner=owner) as span:
            span.add_content("prompt", "write to ada@example.org")

    assert kept.records[0].content == {"prompt": "write to [email]"}
    assert kept.records[1].content == {}


async def test_a_text_attribute_has_a_bound(kept: Kept, telemetry: Telemetry) -> None:
    telemetry.span("request", {"gen_ai.request.model": "m" * 10_000}).end()

    assert kept.records[0].attributes["gen_ai.request.model"] == "m" * LONGEST_TEXT
