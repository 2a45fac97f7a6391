"""The suite `structured`: the benchmark of constrained answers as records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from benchmarks.recorder import Doubts, Recorder
from benchmarks.records import Better, Metric, Scalar
from benchmarks.structured import MOST_TOGETHER, STYLES, Round, measure_rounds
from benchmarks.structured_cases import Style
from benchmarks.structured_together import Together


async def measure_structured(
    model: str,
    *,
    rounds: int,
    threads: int,
    cases_each: int,
    with_server: bool,
    recorder: Recorder,
    limit_s: float = float("inf"),
) -> list[str]:
    """Run the rounds; each style becomes a record, and both at once another. An interrupted run keeps whole rounds.

    Returns what could not be measured in time.
    """
    began_s = perf_counter()
    recorder.expect(rounds * 2 + cases_each * 4 + rounds)
    doubts = recorder.doubts()
    configuration: dict[str, Scalar] = {"model": model, "threads": threads, "schemas": cases_each}
    found: list[Round] = []
    try:
        with doubts.watching():
            together, _ = await measure_rounds(
                model,
                rounds,
                threads,
                cases_each,
                with_server=with_server,
                say=recorder.advance,
                found=found,
                limit_s=limit_s,
            )
    finally:
        for style in STYLES:
            mine = [one for one in found if one.style == style]
            if mine:
                _record(style, mine, rounds, configuration, recorder, began_s, doubts)
    if together is None:
        return [f"the time was used up after {len(found)} of {2 * rounds} rounds, before both together"]
    metrics = _together_metrics(together)
    count, wanted = len(together.rounds), min(rounds, MOST_TOGETHER)
    partial = [] if count == wanted else [f"partial: {count} of {wanted} rounds"]
    recorder.record(
        "together",
        configuration=configuration,
        metrics=metrics,
        began_s=began_s,
        facts={"note": together.line},
        doubts=[*doubts.reasons(metrics), *partial],
    )
    return [f"the time was used up after {count} of {wanted} rounds of both together"] if partial else []


def _record(
    style: Style,
    mine: Sequence[Round],
    wanted: int,
    configuration: Mapping[str, Scalar],
    recorder: Recorder,
    began_s: float,
    doubts: Doubts,
) -> None:
    cases = int(configuration["schemas"] or 0)
    metrics = _metrics(mine, cases)
    partial = [] if len(mine) == wanted else [f"partial: {len(mine)} of {wanted} rounds"]
    recorder.record(
        style,
        configuration=configuration,
        metrics=metrics,
        began_s=began_s,
        facts={"answers": len(mine) * cases},
        doubts=[*doubts.reasons(metrics), *partial],
    )


def _together_metrics(together: Together) -> list[Metric]:
    mixed = tuple(one.mixed_rate for one in together.rounds)
    free = tuple(one.all_free_rate for one in together.rounds)
    sequences = together.constrained + together.free
    return [
        Metric(name="mixed_rate", unit="tokens/s", better="higher", samples=mixed),
        Metric(name="all_free_rate", unit="tokens/s", better="higher", samples=free),
        _ratio("mixed_over_free", mixed, free),
        _share("valid", [(one.valid, together.constrained) for one in together.rounds], "higher"),
        _share("same_as_alone", [(one.same_as_alone, sequences) for one in together.rounds], "neither"),
    ]


def _ratio(name: str, ours: Sequence[float], others: Sequence[float]) -> Metric:
    """One rate over the other, round by round."""
    samples = tuple(one / other for one, other in zip(ours, others, strict=True))
    return Metric(name=name, unit="", better="higher", samples=samples)


def _share(name: str, counts: Sequence[tuple[int, int]], better: Better) -> Metric:
    """So many of so many in each round, as a share of all."""
    samples = tuple(float(number < right) for right, of in counts for number in range(of))
    return Metric(name=name, unit="share", better=better, samples=samples, statistic="mean")


def _metrics(rounds: Sequence[Round], cases: int) -> list[Metric]:
    held = tuple(one.constrained_tokens / one.constrained_s for one in rounds)
    free = tuple(one.free_tokens / one.free_s for one in rounds)
    metrics = [
        Metric(name="constrained_rate", unit="tokens/s", better="higher", samples=held),
        Metric(name="free_rate", unit="tokens/s", better="higher", samples=free),
        _ratio("constrained_over_free", held, free),
        Metric(
            name="passes_per_token",
            unit="",
            better="lower",
            samples=tuple(one.forward_passes / one.constrained_tokens for one in rounds),
        ),
        _share("valid", [(one.valid, cases) for one in rounds], "higher"),
        Metric(
            name="added_to_first_token",
            unit="s",
            better="lower",
            samples=tuple(added_ms / 1000 for one in rounds for added_ms in one.added_token_ms),
        ),
    ]
    if all(one.server_tokens for one in rounds):
        served = tuple(one.server_tokens / one.server_s for one in rounds)
        metrics.append(Metric(name="llama_server_rate", unit="tokens/s", better="higher", samples=served))
    return metrics
