"""The whole side-by-side run: prepare, warm up, rounds in turn, and what is known so far written after each step."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from appliance.catalog.catalog import Catalog, LocalModel
from appliance.core.errors import ApplianceError
from appliance.engine.params import EngineParams
from benchmarks.fingerprint import Fingerprint
from benchmarks.noise import watch_cpu
from benchmarks.peers.comparison import Pair
from benchmarks.peers.engine_side import ask
from benchmarks.peers.llama_bench import LlamaBench
from benchmarks.peers.llama_server import LlamaServer
from benchmarks.peers.measurements import (
    PREFILL_TOKENS,
    SHORT_PROMPT_TOKENS,
    TOGETHER,
    Subject,
    find_long_answers,
    fresh_owners,
    measure_decode,
    measure_delivery,
    measure_prefill,
    measure_restart,
    measure_second_turn,
    measure_together,
    open_engine,
)
from benchmarks.peers.programs import PeerPrograms
from benchmarks.peers.workload import request_of, sized_messages

CONTEXT_WINDOW = 4096
KV_CELLS = 8192

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What to run. The first model is compared in every row, the others with llama-bench alone."""

    models: tuple[str, ...]
    rounds: int
    threads: int
    limit_s: float
    peer_openmp: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class RunRecord:
    """Everything a run has found so far."""

    plan: RunPlan
    fingerprint: Fingerprint
    programs: PeerPrograms
    pairs: list[Pair] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    foreign_shares: list[float] = field(default_factory=list)
    elapsed_s: float = 0.0
    is_complete: bool = False


Measure = Callable[[int, bool], Awaitable[Sequence[Pair]]]


async def run_rounds(
    record: RunRecord, catalog: Catalog, save: Callable[[RunRecord], None], say: Say
) -> None:
    """Fill the record round by round; a row that fails is noted and the others go on.

    Raises:
        ApplianceError: nothing can be measured at all.
    """
    began_s = monotonic()
    async with AsyncExitStack() as stack:
        subjects = [
            await _prepare(
                stack, record, catalog.local(model), with_server=model == record.plan.models[0], say=say
            )
            for model in record.plan.models
        ]
        for round_number in range(1, record.plan.rounds + 1):
            for name, measure in _measures(subjects):
                record.elapsed_s = monotonic() - began_s
                if record.elapsed_s > record.plan.limit_s:
                    record.failures.append(
                        f"the time limit of {record.plan.limit_s:g} s ended round {round_number}"
                    )
                    save(record)
                    return
                say(f"round {round_number} of {record.plan.rounds}: {name}")
                await _measure(record, name, measure, round_number)
                save(record)
    record.elapsed_s = monotonic() - began_s
    record.is_complete = True
    save(record)


async def _measure(record: RunRecord, name: str, measure: Measure, round_number: int) -> None:
    try:
        with watch_cpu() as use:
            pairs = await measure(round_number, round_number % 2 == 1)
    except ApplianceError as error:
        record.failures.append(f"round {round_number}, {name}: {error.message}")
        return
    record.foreign_shares.append(use.foreign_share)
    record.pairs += [dataclasses.replace(pair, foreign_share=use.foreign_share) for pair in pairs]


def _measures(subjects: Sequence[Subject]) -> list[tuple[str, Measure]]:
    measures: list[tuple[str, Measure]] = []
    for subject in subjects:
        measures.append((f"{subject.model} decode", _decode_of(subject)))
        measures.append((f"{subject.model} prefill", _prefill_of(subject)))
    first = subjects[0]
    measures += [
        (
            "sequences together",
            lambda number, ours_first: measure_together(first, number, ours_first=ours_first),
        ),
        ("second turn", lambda number, ours_first: measure_second_turn(first, number, ours_first=ours_first)),
        ("restart", lambda number, _ours_first: measure_restart(first, number)),
        ("delivery", lambda number, _ours_first: measure_delivery(first, number)),
    ]
    return measures


def _decode_of(subject: Subject) -> Measure:
    return lambda number, ours_first: measure_decode(subject, number, ours_first=ours_first)


def _prefill_of(subject: Subject) -> Measure:
    return lambda number, ours_first: measure_prefill(subject, number, ours_first=ours_first)


def engine_params(local: LocalModel, *, threads: int) -> EngineParams:
    """How the engine is loaded: as the appliance does, with room for all sequences and no saving of prefixes."""
    return EngineParams(
        model_path=local.path,
        model_name=local.id,
        model_digest=local.digest,
        context_window=CONTEXT_WINDOW,
        parallel=TOGETHER,
        kv_cells=KV_CELLS,
        threads=threads,
        chat_template=local.card.chat_template,
        reasoning_tags=local.card.reasoning_tags,
    )


async def _prepare(
    stack: AsyncExitStack, record: RunRecord, local: LocalModel, *, with_server: bool, say: Say
) -> Subject:
    plan = record.plan
    say(f"preparing {local.id}: loading, finding prompts, warming up")
    engine = await stack.enter_async_context(open_engine(engine_params(local, threads=plan.threads)))
    bench = LlamaBench(
        programs=record.programs, model_path=local.path, threads=plan.threads, openmp=plan.peer_openmp
    )
    server = None
    if with_server:
        server = await LlamaServer.start(
            record.programs,
            local.path,
            threads=plan.threads,
            parallel=TOGETHER,
            context_tokens=KV_CELLS,
            openmp=plan.peer_openmp,
        )
        stack.push_async_callback(server.stop)
    prefill = await sized_messages(engine, model=local.id, tokens=PREFILL_TOKENS, seed="prefill")
    long_answers = await find_long_answers(engine, model=local.id, count=TOGETHER if server else 1)
    async with fresh_owners(engine, "warm-up"):
        await ask(engine, request_of(prefill, model=local.id, owner="warm-up", output_tokens=2))
    start_decode = await asyncio.to_thread(bench.generate, 1, depth_tokens=SHORT_PROMPT_TOKENS)
    start_prefill = await asyncio.to_thread(bench.prompt, 1)
    return Subject(
        model=local.id,
        engine=engine,
        bench=bench,
        server=server,
        decode_messages=long_answers[0],
        prefill_messages=prefill,
        together_messages=long_answers,
        decode_start_cpu_s=start_decode.cpu_s,
        prefill_start_cpu_s=start_prefill.cpu_s,
    )


def write_atomically(path: Path, text: str) -> None:
    """Write so that a reader, or an interrupted run, finds the old or the new text and never half of it."""
    draft = path.with_name(f"{path.name}.part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
