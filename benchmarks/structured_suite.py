"""The suite `structured`: the benchmark of constrained answers as records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from benchmarks.recorder import Doubts, Recorder
from benchmarks.records import Metric, Scalar
from benchmarks.structured import Round, measure_rounds
from benchmarks.structured_cases import Style
from benchmarks.structured_together import Together

_STYLES: tuple[Style, ...] = ("function call", "extraction")


async def measure_structured(
    model: str, *, rounds: int, threads: int, cases_each: int, with_server: bool, recorder: Recorder
) -> None:
    """Run the rounds; each style becomes a record, and both at once another. An interrupted run keeps whole rounds."""
    began_s = perf_counter()
    recorder.expect(rounds * 2 + 1)
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
            )
    finally:
        for style in _STYLES:
            mine = [one for one in found if one.style == style]
            if mine:
                _record(style, mine, rounds, configuration, recorder, began_s, doubts)
    recorder.record(
        "together",
        configuration=configuration,
        metrics=_together_metrics(together),
        began_s=began_s,
        facts={"same_as_alone": together.same_as_alone, "note": together.line},
        doubts=doubts.reasons(()),
    )


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
    valid = tuple(float(number < together.valid) for number in range(together.constrained))
    rates = {
        "mixed_rate": together.mixed_tokens / together.mixed_s,
        "all_free_rate": together.all_free_tokens / together.all_free_s,
    }
    return [
        *(
            Metric(name=name, unit="tokens/s", better="higher", samples=(rate,))
            for name, rate in rates.items()
        ),
        Metric(name="valid", unit="share", better="higher", samples=valid, statistic="mean"),
    ]


def _metrics(rounds: Sequence[Round], cases: int) -> list[Metric]:
    held = tuple(one.constrained_tokens / one.constrained_s for one in rounds)
    free = tuple(one.free_tokens / one.free_s for one in rounds)
    valid = tuple(float(number < one.valid) for one in rounds for number in range(cases))
    metrics = [
        Metric(name="constrained_rate", unit="tokens/s", better="higher", samples=held),
        Metric(name="free_rate", unit="tokens/s", better="higher", samples=free),
        Metric(
            name="constrained_over_free",
            unit="",
            better="higher",
            samples=tuple(one / other for one, other in zip(held, free, strict=True)),
        ),
        Metric(
            name="passes_per_token",
            unit="",
            better="lower",
            samples=tuple(one.forward_passes / one.constrained_tokens for one in rounds),
        ),
        Metric(name="valid", unit="share", better="higher", samples=valid, statistic="mean"),
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
