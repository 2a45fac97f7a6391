"""Workloads, loops, windows and goodput on a clock where nobody waits."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.core.clock import VirtualClock
from appliance.core.errors import InvalidRequestError, ProviderUnavailableError
from benchmarks.answer_checks import answer_doubts, answer_facts
from benchmarks.answers import Answer, LoadRequest
from benchmarks.exact_text import NoExactTextError
from benchmarks.latency_suite import LatencyPlan, measure_latency
from benchmarks.load_driver import run_closed, run_open
from benchmarks.load_suite import LoadPlan, measure_load, parse_limits
from benchmarks.load_workload import Arrival, make_requests, poisson_times, read_trace
from benchmarks.metrics import RequestTrace
from benchmarks.recorder import Recorder
from benchmarks.records import RecordStore
from benchmarks.steady_state import (
    Limits,
    Window,
    closed_window,
    latency_metrics,
    open_window,
    steadiness_doubts,
    window_metrics,
)

ANSWER_S = 1.0


class SteadyTarget:
    """Answers after one second with four tokens, a quarter of a second apart; knows how many it answers at once."""

    name = "steady"

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.running = self.most_running = 0
        self.sent_s: list[float] = []

    async def answer(self, request: LoadRequest) -> Answer:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        sent_s = self._clock.now_s()
        self.sent_s.append(sent_s)
        await self._clock.sleep(ANSWER_S)
        self.running -= 1
        return _answer(sent_s, number=request.number)

    async def count_tokens(self, text: str) -> int:
        return await word_pieces(text)

    async def count_output(self, text: str) -> int | None:
        return await word_pieces(text)


def _answer(sent_s: float, *, number: int = 0, ttft_s: float = 0.25, **changes: object) -> Answer:
    times_s = tuple(sent_s + ttft_s + 0.25 * step for step in range(4))
    request = LoadRequest(number=number, text="t", input_tokens=8, output_tokens=4, key="k")
    trace = RequestTrace(sent_s=sent_s, chunk_times_s=times_s, ended_s=times_s[-1], output_tokens=4)
    facts: dict[str, object] = {"input_tokens": 8, "cached_tokens": 0}
    return Answer(request=request, trace=trace, **(facts | changes))


async def word_pieces(text: str) -> int:
    """A tokenizer in which a word has one to three tokens, and the template two."""
    return 2 + sum(1 + len(word) // 6 for word in text.split())


def _requests(count: int) -> list[LoadRequest]:
    return [
        LoadRequest(number=n, text="t", input_tokens=8, output_tokens=4, key=str(n)) for n in range(count)
    ]


@pytest.mark.parametrize("tokens", [3, 17, 128, 1001])
async def test_a_workload_has_exactly_the_tokens_asked_for(tokens: int) -> None:
    requests = await make_requests([(tokens, 5)] * 4, seed=3, count_tokens=word_pieces, salt="run-1")

    assert [await word_pieces(request.text) for request in requests] == [tokens] * 4
    assert [request.output_tokens for request in requests] == [5] * 4


async def test_the_same_seed_asks_the_same_and_another_run_begins_otherwise() -> None:
    one, again, later = [
        [
            request.text
            for request in await make_requests([(64, 5)] * 3, seed=3, count_tokens=word_pieces, salt=salt)
        ]
        for salt in ("run-1", "run-1", "run-2")
    ]

    assert one == again
    assert {text.split()[0:3].__str__() for text in one}.isdisjoint(
        text.split()[0:3].__str__() for text in later
    )


async def test_a_prompt_shorter_than_the_template_is_refused() -> None:
    with pytest.raises(NoExactTextError, match="the shortest prompt has 3"):
        await make_requests([(1, 5)], seed=3, count_tokens=word_pieces)


def test_poisson_arrivals_have_their_rate_and_their_seed() -> None:
    times = poisson_times(4.0, 4000, seed=1)
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]

    assert 4000 / times[-1] == pytest.approx(4.0, rel=0.05)
    assert sum(gap > 0.25 for gap in gaps) / 4000 == pytest.approx(0.3679, abs=0.03)
    assert times == poisson_times(4.0, 4000, seed=1) != poisson_times(4.0, 4000, seed=2)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"at_s": -1, "input_tokens": 1, "output_tokens": 1}', "line 2: at_s"),
        ('{"at_s": 1, "input_tokens": 1}', "line 2: output_tokens"),
        ("{", "line 2"),
    ],
)
def test_a_trace_file_names_the_line_that_is_wrong(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(f'{{"at_s": 0, "input_tokens": 8, "output_tokens": 4}}\n{line}\n')

    with pytest.raises(InvalidRequestError, match=words):
        read_trace(path)


async def test_a_closed_loop_keeps_so_many_running_and_no_more(virtual_clock: VirtualClock) -> None:
    target = SteadyTarget(virtual_clock)

    run = await run_closed(target, _requests(10), concurrency=3, clock=virtual_clock)

    assert target.most_running == 3
    assert sorted(answer.request.number for answer in run.answers) == list(range(10))
    assert virtual_clock.now_s() == 4.0  # ten answers of a second by three


async def test_a_closed_loop_begins_nothing_after_its_limit(virtual_clock: VirtualClock) -> None:
    target = SteadyTarget(virtual_clock)

    run = await run_closed(target, _requests(10), concurrency=1, clock=virtual_clock, limit_s=2.5)

    assert len(run.answers) == 3


async def test_an_open_loop_sends_at_the_stated_times_whatever_is_running(
    virtual_clock: VirtualClock,
) -> None:
    target = SteadyTarget(virtual_clock)
    times = [0.0, 0.1, 0.2, 3.0]
    arrivals = [Arrival(at_s=at_s, request=one) for at_s, one in zip(times, _requests(4), strict=True)]

    run = await run_open(target, arrivals, clock=virtual_clock, most_running=10)

    assert target.sent_s == pytest.approx(times)
    assert (len(run.answers), run.doubts()) == (4, [])


async def test_an_open_loop_says_when_it_held_requests_back(virtual_clock: VirtualClock) -> None:
    target = SteadyTarget(virtual_clock)
    arrivals = [Arrival(at_s=0.0, request=one) for one in _requests(3)]

    run = await run_open(target, arrivals, clock=virtual_clock, most_running=1)

    assert any("waited for one of 1 places" in doubt for doubt in run.doubts())
    assert any("late" in doubt for doubt in run.doubts())


def test_the_steady_window_leaves_out_ramp_up_and_the_end() -> None:
    answers = [_answer(float(sent)) for sent in range(10) for _ in range(2)]

    window = closed_window(answers, concurrency=2)

    assert (window.began_s, window.ended_s, window.is_steady) == (1.0, 9.0, True)
    assert closed_window(answers[:2], concurrency=2).is_steady is False
    assert open_window(answers) == Window(began_s=1.0, ended_s=9.0, is_steady=True)


def test_throughput_counts_the_tokens_that_arrived_in_the_window() -> None:
    answers = [_answer(float(sent)) for sent in range(10)]  # four tokens each second, one after the other
    metrics = {
        m.name: m for m in window_metrics(answers, Window(began_s=1.0, ended_s=9.0, is_steady=True), Limits())
    }

    assert metrics["output_throughput"].value == pytest.approx(4.0, abs=0.3)
    assert metrics["request_throughput"].value == 1.0
    assert set(metrics["ttft"].samples) == {0.25}
    assert "goodput" not in metrics


def test_goodput_counts_only_requests_within_every_limit() -> None:
    answers = [_answer(float(sent), ttft_s=0.25 if sent % 2 else 0.75) for sent in range(10)]
    window = Window(began_s=0.0, ended_s=10.0, is_steady=True)

    metrics = {m.name: m for m in window_metrics(answers, window, Limits(ttft_s=0.5))}

    assert metrics["within_limits"].value == 0.5
    assert metrics["goodput"].value == pytest.approx(metrics["output_throughput"].value / 2)


def test_failed_requests_are_out_of_latencies_and_not_within_limits() -> None:
    answers = [_answer(0.0), _answer(1.0, failure="HTTP 500")]
    window = Window(began_s=0.0, ended_s=2.0, is_steady=True)

    metrics = {m.name: m for m in window_metrics(answers, window, Limits(ttft_s=9.0))}

    assert len(metrics["ttft"].samples) == 1
    assert metrics["within_limits"].value == 0.5
    assert answer_facts(answers)["failed"] == 1


@pytest.mark.parametrize(
    ("changes", "is_cached", "words"),
    [
        ({"input_tokens": 9}, False, "other prompt lengths"),
        ({"cached_tokens": 7}, False, "88% of a new prompt cached"),
        ({"cached_tokens": 1}, True, "only 12% of a repeated prompt"),
        ({"cached_tokens": None}, True, "does not say how much"),
        ({"failure": "HTTP 500"}, False, "1 of 1 requests failed: HTTP 500"),
        ({"does_target_count": False}, False, "counted no output tokens in 1 answers"),
    ],
)
def test_what_is_not_as_the_test_states_is_a_doubt(
    changes: dict[str, object], is_cached: bool, words: str
) -> None:
    assert words in " ".join(answer_doubts([_answer(0.0, **changes)], is_cached=is_cached))


def test_answers_as_asked_for_leave_no_doubt() -> None:
    assert answer_doubts([_answer(0.0)], is_cached=False) == []


def test_limits_are_read_in_milliseconds() -> None:
    assert parse_limits(["ttft:500 tpot:50", "e2el:3000"]) == Limits(ttft_s=0.5, tpot_s=0.05, e2el_s=3.0)
    assert not parse_limits([]).is_stated


@pytest.mark.parametrize("text", ["ttft", "ttft:", "ttft:-1", "ttft:nan", "latency:5", "ttft=500"])
def test_a_limit_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="is no limit"):
        parse_limits([text])


def test_arrivals_are_refused_without_a_rate() -> None:
    with pytest.raises(InvalidRequestError):
        poisson_times(0.0, 3, seed=1)


def test_the_parts_of_the_time_to_a_first_token_add_up() -> None:
    answers = [
        _answer(0.0, ttft_s=0.5, phases={"queue_s": 0.1, "load_s": 0.0, "prefill_s": 0.3}),
        _answer(1.0, ttft_s=0.9, phases={"queue_s": 0.2, "load_s": 0.0, "prefill_s": 0.6}),
    ]
    found = {metric.name: metric.samples for metric in latency_metrics(answers)}

    assert found["ttft_rest"] == pytest.approx((0.1, 0.1))
    assert "ttft_retrieve" not in found
    parts = zip(*(found[f"ttft_{name}"] for name in ("queue", "load", "prefill", "rest")), strict=True)
    assert [sum(part) for part in parts] == pytest.approx(found["ttft"])


def test_gaps_of_one_request_count_as_one_when_their_value_is_bounded() -> None:
    found = {metric.name: metric for metric in latency_metrics([_answer(float(sent)) for sent in range(3)])}

    assert (len(found["itl"].samples), found["itl"].groups) == (9, (3, 3, 3))
    assert found["itl"].interval.coverage == found["ttft"].interval.coverage == 0.75


def _burst_answer() -> Answer:
    request = LoadRequest(number=0, text="t", input_tokens=8, output_tokens=6, key="k")
    times_s = (1.0, 1.00001, 1.00002, 1.07, 1.07001, 1.07002)
    trace = RequestTrace(sent_s=0.0, chunk_times_s=times_s, ended_s=1.07, output_tokens=6)
    return Answer(request=request, trace=trace, input_tokens=8, cached_tokens=0)


def test_a_reader_is_told_when_gaps_between_chunks_are_no_times_of_tokens() -> None:
    assert "about 3 tokens arrive with one write" in str(answer_facts([_burst_answer()])["note"])
    assert answer_facts([_answer(0.0)])["note"] == ""


def test_a_target_that_does_not_keep_up_is_named() -> None:
    growing = [_answer(float(sent), ttft_s=0.25 + sent / 2) for sent in range(30)]
    window = Window(began_s=3.0, ended_s=29.0, is_steady=True)

    doubts = steadiness_doubts(growing, window)

    assert [doubt.split(":")[0] for doubt in doubts] == ["the target did not keep up", "no steady state"]
    assert steadiness_doubts([_answer(float(sent)) for sent in range(30)], window) == []


class StoppingTarget(SteadyTarget):
    """Interrupts who asks while it answers the fifth request."""

    asker: asyncio.Task[list[str]]

    async def answer(self, request: LoadRequest) -> Answer:
        if request.number == 4:
            self.asker.cancel()
            await asyncio.Event().wait()
        return await super().answer(request)


async def test_a_level_that_is_interrupted_is_recorded_as_partial(
    virtual_clock: VirtualClock, tmp_path: Path
) -> None:
    recorder = Recorder("load", RecordStore(tmp_path), models={}, seed=1, listen=lambda _event: None)
    plan = LoadPlan(model="tiny", input_tokens=40, output_tokens=4, requests=9, concurrencies=(1,))
    target = StoppingTarget(virtual_clock)
    target.asker = asyncio.create_task(measure_load(plan, target, recorder, virtual_clock))

    with pytest.raises(asyncio.CancelledError):
        await target.asker

    (kept,) = RecordStore(tmp_path).find(recorder.run).records
    assert kept.facts["partial"] == "partial: interrupted after 4 of 9 requests"
    assert kept.facts["partial"] in kept.doubts
    assert kept.facts["requests"] == 4


class UncountingTarget(SteadyTarget):
    """Counts no tokens of its answers, and fails or is interrupted when it is asked to count their texts."""

    asker: asyncio.Task[list[str]] | None = None

    async def answer(self, request: LoadRequest) -> Answer:
        return replace(await super().answer(request), does_target_count=False, text="four words and more")

    async def count_output(self, text: str) -> int | None:
        if self.asker is None:
            raise ProviderUnavailableError("/tokenize: ReadTimeout")
        self.asker.cancel()
        return await asyncio.Event().wait()


async def test_a_level_whose_texts_cannot_be_counted_is_kept_with_a_doubt(
    virtual_clock: VirtualClock, tmp_path: Path
) -> None:
    recorder = Recorder("load", RecordStore(tmp_path), models={}, seed=1, listen=lambda _event: None)
    plan = LoadPlan(model="m", input_tokens=40, output_tokens=4, requests=9, concurrencies=(1,))

    await measure_load(plan, UncountingTarget(virtual_clock), recorder, virtual_clock)

    (kept,) = recorder.records
    assert (kept.facts["requests"], kept.facts["partial"]) == (9, "")
    assert "counted no output tokens in 9 answers: each chunk counts as one" in " ".join(kept.doubts)


async def test_a_level_that_is_interrupted_while_it_is_counted_is_kept(
    virtual_clock: VirtualClock, tmp_path: Path
) -> None:
    recorder = Recorder("load", RecordStore(tmp_path), models={}, seed=1, listen=lambda _event: None)
    plan = LoadPlan(model="m", input_tokens=40, output_tokens=4, requests=9, concurrencies=(1,))
    target = UncountingTarget(virtual_clock)
    target.asker = asyncio.create_task(measure_load(plan, target, recorder, virtual_clock))

    with pytest.raises(asyncio.CancelledError):
        await target.asker

    assert recorder.records[0].facts["partial"] == "partial: interrupted after 9 of 9 requests"


async def test_an_answer_that_is_interrupted_while_it_is_counted_is_in_the_record(
    virtual_clock: VirtualClock, tmp_path: Path
) -> None:
    recorder = Recorder("latency", RecordStore(tmp_path), models={}, seed=1, listen=lambda _event: None)
    plan = LatencyPlan(model="m", states=("warm",), input_tokens=(40,), output_tokens=(4,), rounds=2)
    target = UncountingTarget(virtual_clock)
    target.asker = asyncio.create_task(measure_latency(plan, target, recorder, None))

    with pytest.raises(asyncio.CancelledError):
        await target.asker

    assert recorder.records[0].facts["requests"] == 1


async def test_a_level_whose_time_is_used_up_is_recorded_as_partial(
    virtual_clock: VirtualClock, tmp_path: Path
) -> None:
    recorder = Recorder("load", RecordStore(tmp_path), models={}, seed=1, listen=lambda _event: None)
    plan = LoadPlan(model="m", input_tokens=40, output_tokens=4, requests=9, concurrencies=(1,), limit_s=2.5)

    await measure_load(plan, SteadyTarget(virtual_clock), recorder, virtual_clock)

    assert recorder.records[0].facts["partial"] == "partial: the time was used up after 3 of 9 requests"
