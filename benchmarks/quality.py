"""The suite `quality`: a small evaluation of each model beside its speed, and quantisations against a reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from appliance.catalog.catalog import LocalModel
from appliance.catalog.gguf import read_gguf
from appliance.core.errors import ApplianceError
from appliance.core.messages import AssistantMessage, Conversation, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, JsonSchemaFormat, SamplingParams
from appliance.core.results import GenerateSuccess
from appliance.engine.evaluation import EvaluationJob, EvaluationResult, evaluate
from appliance.gateway import Gateway
from appliance.structured.admission import Admitted, admit
from benchmarks.pareto import candidates
from benchmarks.quality_cases import EXAMPLES, FACTS, SYSTEM, is_match, needles
from benchmarks.recorder import Recorder
from benchmarks.records import Metric, Scalar
from benchmarks.structured_cases import CASES

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_FACT_TOKENS, _JSON_TOKENS, _NEEDLE_TOKENS = 12, 160, 16
_OWNER = "benchmark/quality"


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityPlan:
    """What to evaluate. `needle_words` is the length of the text around a needle; `text` is scored for perplexity."""

    models: tuple[LocalModel, ...]
    text: str
    window_tokens: int
    needle_words: int
    threads: int
    reference: LocalModel | None = None
    limit_s: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Graded:
    """One answer: whether it is right, and its decode rate where it had more than one token."""

    is_right: bool
    rate: float | None


async def measure_quality(plan: QualityPlan, gateway: Gateway, recorder: Recorder) -> list[str]:
    """Evaluate each model; every part is a record as soon as it is done. Returns what could not be measured."""
    recorder.expect(len(plan.models) * (len(FACTS) + len(CASES) + len(DEPTHS) + 1))
    began_s = perf_counter()
    missing = []
    for local in plan.models:
        parts = (
            partial(_exact_match, local, gateway, recorder),
            partial(_json_validity, local, gateway, recorder),
            partial(_needles, plan, local, gateway, recorder),
            partial(_perplexity, plan, local, recorder),
        )
        for part in parts:
            if perf_counter() - began_s > plan.limit_s:
                missing.append(f"{local.id}: the time was used up")
                break
            try:
                await part()
            except ApplianceError as error:
                missing.append(f"{local.id}: {error.message}")
        await gateway.unload(local.id)
    return missing


def pareto_lines(recorder: Recorder) -> list[str]:
    """The models by speed, and which of them nothing beats."""
    found = sorted(candidates(recorder.records), key=lambda one: -one.tokens_per_s)
    return [
        f"{'*' if one.is_on_frontier else ' '} {one.model}: {one.tokens_per_s:.1f} tokens/s, score {one.score:.0%}"
        for one in found
    ] + (["* nothing here is at least as fast and as good"] if found else [])


async def _exact_match(local: LocalModel, gateway: Gateway, recorder: Recorder) -> None:
    with _part(recorder, "exact match", local, len(FACTS), {"max_tokens": _FACT_TOKENS}) as graded:
        for fact in FACTS:
            request = _request(local, SYSTEM, fact.question, _FACT_TOKENS, EXAMPLES)
            graded.append(await _grade(gateway, request, partial(is_match, fact=fact)))
            recorder.advance(f"{local.id} exact match")


async def _json_validity(local: LocalModel, gateway: Gateway, recorder: Recorder) -> None:
    """Free answers, told their schema in the prompt: what the model can do without being held to it."""
    with _part(recorder, "JSON validity", local, len(CASES), {"max_tokens": _JSON_TOKENS}) as graded:
        for case in CASES:
            schema = json.dumps(case.schema)
            admitted = admit(JsonSchemaFormat(schema_json=schema))
            system = f"Answer with JSON alone that follows this JSON Schema, and nothing else:\n{schema}"
            request = _request(local, system, case.question, _JSON_TOKENS)
            graded.append(await _grade(gateway, request, partial(_is_valid, admitted=admitted)))
            recorder.advance(f"{local.id} JSON validity")


async def _needles(plan: QualityPlan, local: LocalModel, gateway: Gateway, recorder: Recorder) -> None:
    settings: Mapping[str, Scalar] = {"needle_words": plan.needle_words}
    with _part(recorder, "needle retrieval", local, len(DEPTHS), settings) as graded:
        for needle in needles(plan.needle_words, DEPTHS, seed=recorder.seed):
            request = _request(local, needle.text, f"{needle.question} {SYSTEM}", _NEEDLE_TOKENS)
            graded.append(await _grade(gateway, request, partial(_holds, answer=needle.answer)))
            recorder.advance(f"{local.id} needle at {needle.depth:.0%}")


async def _perplexity(plan: QualityPlan, local: LocalModel, recorder: Recorder) -> None:
    began_s = perf_counter()
    reference = plan.reference
    result = await evaluate(
        EvaluationJob(
            kind="divergence" if reference else "perplexity",
            model_path=local.path,
            reference_path=reference.path if reference else None,
            text=plan.text,
            window_tokens=plan.window_tokens,
            threads=plan.threads,
        ),
        lambda done, total: recorder.step(f"{local.id} perplexity, window {done} of {total}"),
    )
    recorder.record(
        "perplexity",
        configuration={
            "model": local.id,
            "window_tokens": plan.window_tokens,
            **({"reference": reference.id} if reference else {}),
        },
        metrics=_perplexity_metrics(result, has_reference=reference is not None),
        began_s=began_s,
        facts={
            "scored_tokens": result.scored_tokens,
            "perplexity_error": result.perplexity_error,
            "reference_perplexity": result.reference_perplexity or None,
            "vocabulary": read_gguf(local.path).vocabulary_size,
        },
    )
    recorder.advance(f"{local.id} perplexity", figure=result.perplexity)


def _perplexity_metrics(result: EvaluationResult, *, has_reference: bool) -> list[Metric]:
    metrics = [
        Metric(name="perplexity", unit="", better="lower", samples=(result.perplexity,)),
        Metric(
            name="surprise",
            unit="nats/token",
            better="lower",
            samples=result.window_surprises,
            statistic="mean",
        ),
    ]
    if has_reference:
        metrics += [
            Metric(
                name="kl_divergence",
                unit="nats/token",
                better="lower",
                samples=result.divergences,
                statistic="mean",
            ),
            Metric(name="same_top_token", unit="", better="higher", samples=(result.agreement,)),
        ]
    return metrics


async def _grade(gateway: Gateway, request: GenerateRequest, is_right: Callable[[str], bool]) -> _Graded:
    result = await gateway.generate(request)
    if not isinstance(result, GenerateSuccess):
        raise ApplianceError(f"no answer: {result.failure.message}", hint=result.failure.hint)
    tpot_s = result.timings.tpot_s(result.usage.output_tokens)
    return _Graded(is_right=is_right(result.message.text), rate=1 / tpot_s if tpot_s else None)


def _request(
    local: LocalModel,
    system: str,
    question: str,
    max_tokens: int,
    examples: Sequence[tuple[str, str]] = (),
) -> GenerateRequest:
    shown = [
        turn for asked, said in examples for turn in (UserMessage(text=asked), AssistantMessage(text=said))
    ]
    return GenerateRequest(
        conversation=Conversation.of(SystemMessage(text=system), *shown, UserMessage(text=question)),
        model=local.id,
        sampling=SamplingParams(temperature=0.0, max_tokens=max_tokens),
        owner=_OWNER,
    )


@contextmanager
def _part(
    recorder: Recorder, test: str, local: LocalModel, wanted: int, configuration: Mapping[str, Scalar]
) -> Iterator[list[_Graded]]:
    """Record the answers that were graded in the block, also where it was left early."""
    began_s = perf_counter()
    graded: list[_Graded] = []
    try:
        yield graded
    finally:
        if graded:
            recorder.record(
                test,
                configuration={"model": local.id, **configuration},
                metrics=_graded_metrics(graded),
                began_s=began_s,
                facts=_found_at(graded) if test == "needle retrieval" else None,
                doubts=()
                if len(graded) == wanted
                else (f"partial: only {len(graded)} of {wanted} were asked",),
            )


def _found_at(graded: Sequence[_Graded]) -> Mapping[str, Scalar]:
    found = [f"{depth:.0%}" for depth, one in zip(DEPTHS, graded, strict=False) if one.is_right]
    return {"found_at": ", ".join(found)}


def _graded_metrics(graded: Sequence[_Graded]) -> list[Metric]:
    shares = tuple(float(one.is_right) for one in graded)
    metrics = [Metric(name="share", unit="share", better="higher", samples=shares, statistic="mean")]
    rates = tuple(one.rate for one in graded if one.rate is not None)
    if rates:
        metrics.append(Metric(name="rate", unit="tokens/s", better="higher", samples=rates))
    return metrics


def _holds(text: str, answer: str) -> bool:
    return answer in text


def _is_valid(text: str, admitted: Admitted) -> bool:
    return not admitted.problems(_bare(text))


def _bare(text: str) -> str:
    """Without the fence that models like to write around JSON: it is no fault of the data."""
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].startswith("```"):
        return "\n".join(lines[1:-1])
    return text.strip()
