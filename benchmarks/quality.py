"""The suite `quality`: a small evaluation of each model beside its speed, and quantisations against a reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from benchmarks.pareto import candidates, unplaced
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
    """Evaluate each model; every part is a record as soon as it is done. Returns what could not be measured.

    Each model has an equal share of the time, and what an earlier one leaves of its own.
    """
    recorder.expect(len(plan.models) * (len(FACTS) + len(CASES) + len(DEPTHS) + 1))
    ends_s = perf_counter() + plan.limit_s
    missing = []
    for number, local in enumerate(plan.models):
        now_s = perf_counter()
        share_s = (ends_s - now_s) / (len(plan.models) - number)
        missing += await _evaluate(plan, local, gateway, recorder, until_s=now_s + share_s)
        await gateway.unload(local.id)
    return missing


async def _evaluate(
    plan: QualityPlan, local: LocalModel, gateway: Gateway, recorder: Recorder, *, until_s: float
) -> list[str]:
    asked = _Asked(local, gateway, recorder, until_s)
    parts = {
        "exact match": partial(_exact_match, asked),
        "JSON validity": partial(_json_validity, asked),
        "needle retrieval": partial(_needles, plan, asked),
        "perplexity": partial(_perplexity, plan, local, recorder),
    }
    missing, left_out = [], []
    for name, part in parts.items():
        if asked.is_over():
            left_out.append(name)
            continue
        try:
            await part()
        except ApplianceError as error:
            missing.append(f"{local.id}, {name}: {error.message}")
    left_out = [*asked.cut_short, *left_out]
    if left_out:
        missing.append(
            f"{local.id}: the time was used up, left out: {', '.join(left_out)} (give a larger --budget)"
        )
    return missing


@dataclass(slots=True)
class _Asked:
    """Who is asked, until when, and which parts were cut short by that."""

    local: LocalModel
    gateway: Gateway
    recorder: Recorder
    until_s: float
    cut_short: list[str] = field(default_factory=list)

    def is_over(self) -> bool:
        return perf_counter() >= self.until_s


def pareto_lines(recorder: Recorder) -> list[str]:
    """The models by speed, which of them nothing beats, and which have no place because a part is missing."""
    found = sorted(candidates(recorder.records), key=lambda one: -one.tokens_per_s)
    lines = [
        f"{'*' if one.is_on_frontier else ' '} {one.model}: {one.tokens_per_s:.1f} tokens/s, score {one.score:.0%}"
        for one in found
    ] + (["* nothing here is at least as fast and as good"] if found else [])
    return [*lines, *(f"  {model}: no score, {why}" for model, why in unplaced(recorder.records).items())]


async def _exact_match(asked: _Asked) -> None:
    questions = [
        (_request(asked.local, SYSTEM, fact.question, _FACT_TOKENS, EXAMPLES), partial(is_match, fact=fact))
        for fact in FACTS
    ]
    await _ask_all(asked, "exact match", {"max_tokens": _FACT_TOKENS}, questions)


async def _json_validity(asked: _Asked) -> None:
    """Free answers, told their schema in the prompt: what the model can do without being held to it."""
    questions = []
    for case in CASES:
        schema = json.dumps(case.schema)
        admitted = admit(JsonSchemaFormat(schema_json=schema))
        system = f"Answer with JSON alone that follows this JSON Schema, and nothing else:\n{schema}"
        request = _request(asked.local, system, case.question, _JSON_TOKENS)
        questions.append((request, partial(_is_valid, admitted=admitted)))
    await _ask_all(asked, "JSON validity", {"max_tokens": _JSON_TOKENS}, questions)


async def _needles(plan: QualityPlan, asked: _Asked) -> None:
    questions = [
        (
            _request(asked.local, needle.text, f"{needle.question} {SYSTEM}", _NEEDLE_TOKENS),
            partial(_holds, answer=needle.answer),
        )
        for needle in needles(plan.needle_words, DEPTHS, seed=asked.recorder.seed)
    ]
    await _ask_all(asked, "needle retrieval", {"needle_words": plan.needle_words}, questions)


async def _ask_all(
    asked: _Asked,
    test: str,
    configuration: Mapping[str, Scalar],
    questions: Sequence[tuple[GenerateRequest, Callable[[str], bool]]],
) -> None:
    """Ask as many questions as the time allows, at least one."""
    with _part(asked.recorder, test, asked.local, len(questions), configuration) as graded:
        for request, is_right in questions:
            if graded and asked.is_over():
                asked.cut_short.append(f"{test} after {len(graded)} of {len(questions)}")
                return
            graded.append(await _grade(asked.gateway, request, is_right))
            asked.recorder.advance(f"{asked.local.id} {test}")


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
