"""The suite `structured`: the benchmark of constrained answers as records."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from benchmarks.recorder import Recorder
from benchmarks.records import Metric
from benchmarks.structured import Round, measure_rounds
from benchmarks.structured_cases import Style


async def measure_structured(
    model: str, *, rounds: int, threads: int, cases_each: int, with_server: bool, recorder: Recorder
) -> None:
    """Run the rounds; each style becomes a record."""
    began_s = perf_counter()
    recorder.expect(rounds * 2 + 1)
    found, _, use = await measure_rounds(
        model, rounds, threads, cases_each, with_server=with_server, say=recorder.advance
    )
    styles: tuple[Style, ...] = ("function call", "extraction")
    for style in styles:
        mine = [one for one in found if one.style == style]
        doubts = recorder.doubts()
        doubts.uses.append(use)
        metrics = _metrics(mine, cases_each)
        recorder.record(
            style,
            configuration={"model": model, "threads": threads, "schemas": cases_each},
            metrics=metrics,
            began_s=began_s,
            facts={"answers": len(mine) * cases_each},
            doubts=doubts.reasons(metrics),
        )


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
