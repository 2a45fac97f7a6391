"""Holds answers against what was asked for: counts, early ends, prompts of other lengths, and what was cached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from appliance.core.errors import ApplianceError, ProviderUnavailableError
from benchmarks.answers import Answer, LoadRequest, Target
from benchmarks.recorder import Recorder
from benchmarks.records import Scalar

_NOTED_CACHED_SHARE = 0.1
_CACHED_SHARE = 0.5
_GROUPED = 1.5


async def warm_up(model: str, target: Target, recorder: Recorder) -> None:
    """Load the model and make sure that the target answers at all."""
    recorder.step(f"{model}: waiting for a first answer, which is not counted")
    answer = await target.answer(
        LoadRequest(number=-1, text="Say hello.", input_tokens=0, output_tokens=4, key="warm-up")
    )
    if answer.failure:
        raise ProviderUnavailableError(
            f"{target.name} does not answer: {answer.failure}", hint=way_out(answer.failure)
        )


def way_out(failure: str) -> str:
    """What a user can do about a failed request."""
    if failure.startswith(("HTTP 401", "HTTP 403")):
        return "name the environment variable that holds the server's token: --token-env NAME"
    if failure.startswith("HTTP 429"):
        return "the server limits its clients: wait, or raise its limits; no request is sent twice"
    return "check the URL and the model"


async def count_outputs(answers: Sequence[Answer], target: Target) -> list[Answer]:
    """Count the texts of answers whose tokens the target did not count, as long as something here can."""
    counted = list(answers)
    for place, answer in enumerate(answers):
        if answer.does_target_count or not answer.text:
            continue
        tokens = await _count(answer.text, target)
        if tokens is None:
            break
        trace = replace(answer.trace, output_tokens=tokens)
        counted[place] = replace(answer, trace=trace, is_counted_here=True, text="")
    return counted


async def _count(text: str, target: Target) -> int | None:
    """What was measured is kept where its counting fails; then each chunk counts as one, which a doubt says."""
    try:
        return await target.count_output(text)
    except ApplianceError:
        return None


def answer_facts(answers: Sequence[Answer]) -> Mapping[str, Scalar]:
    """Counts that say whether what was sent and received is what was asked for."""
    failed = [answer for answer in answers if not answer.has_succeeded]
    good = [answer for answer in answers if answer.has_succeeded]
    cached = [answer.cached_tokens for answer in good if answer.cached_tokens is not None]
    return {
        "requests": len(answers),
        "failed": len(failed),
        "first_failure": failed[0].failure if failed else "",
        "prompts_off": len(_off(good)),
        "early_ends": sum(map(_ended_early, good)),
        "cached_tokens": sum(cached) if cached else None,
        "input_tokens": sum(answer.input_tokens or 0 for answer in good),
        "output_tokens": sum(answer.trace.output_tokens for answer in good),
        "note": _grouping_note(good),
    }


def _ended_early(answer: Answer) -> bool:
    """Whether fewer tokens came than asked for; where the target counts none, its word counts."""
    if not answer.does_target_count:
        return answer.finish_reason == "stop"
    return answer.trace.output_tokens < answer.request.output_tokens


def _grouping_note(good: Sequence[Answer]) -> str:
    """Warn where the gaps between chunks are not the times of tokens."""
    sizes = [size for answer in good if (size := answer.trace.tokens_per_burst) is not None]
    if not sizes or statistics.median(sizes) < _GROUPED:
        return ""
    return (
        f"about {statistics.median(sizes):.2g} tokens arrive with one write, so itl is no time of a token: "
        "tpot is that, and burst_gap is how long a reader sees nothing new"
    )


def answer_doubts(answers: Sequence[Answer], *, is_cached: bool) -> list[str]:
    """Say where answers were not what the test states."""
    good = [answer for answer in answers if answer.has_succeeded]
    facts = answer_facts(answers)
    doubts = []
    if facts["failed"]:
        doubts.append(f"{facts['failed']} of {len(answers)} requests failed: {facts['first_failure']}")
    if off := _off(good):
        doubts.append(
            f"the target counted other prompt lengths than asked for in {len(off)} requests, for instance "
            f"{off[0].input_tokens} for {off[0].request.input_tokens}"
        )
    silent = [answer for answer in good if not answer.does_target_count]
    if counted := sum(answer.is_counted_here for answer in silent):
        doubts.append(
            f"the target counted no output tokens in {counted} answers: their texts were counted here"
        )
    if counted < len(silent):
        doubts.append(
            f"the target counted no output tokens in {len(silent) - counted} answers: each chunk counts as one, which "
            "is too few where a chunk holds several (--tokenizer MODEL counts them)"
        )
    if facts["early_ends"]:
        doubts.append(f"{facts['early_ends']} answers ended before the tokens asked for")
    return doubts + _cache_doubts(good, is_cached=is_cached)


def _cache_doubts(good: Sequence[Answer], *, is_cached: bool) -> list[str]:
    known = [answer for answer in good if answer.cached_tokens is not None and answer.input_tokens]
    if not known:
        return ["the target does not say how much of a prompt it had cached"] if good else []
    shares = [(answer.cached_tokens or 0) / (answer.input_tokens or 1) for answer in known]
    if is_cached and min(shares) < _CACHED_SHARE:
        return [f"the target had only {min(shares):.0%} of a repeated prompt cached"]
    if not is_cached and max(shares) > _NOTED_CACHED_SHARE:
        return [f"the target had up to {max(shares):.0%} of a new prompt cached, its template for instance"]
    return []


def _off(answers: Sequence[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.input_tokens not in (None, answer.request.input_tokens)]
