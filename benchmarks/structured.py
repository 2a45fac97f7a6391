"""`python -m benchmarks.structured`: constrained answers against free ones and against llama-server, interleaved.

Free, constrained and llama-server answer the same conversations, which hold the schema in the system message, with
prompts already in the KV cache. A free answer may be as long as the constrained one was. Rates are output tokens over
the time from the first token to the end; ratios pair what was measured in the same round.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from time import perf_counter

import click

from appliance.catalog.catalog import Catalog
from appliance.catalog.store import ModelStore
from appliance.config import load_settings
from appliance.core.messages import Conversation, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, JsonSchemaFormat, SamplingParams, TextFormat
from appliance.engine.client import Engine
from appliance.engine.params import EngineParams
from appliance.gateway.judge import judge_of
from benchmarks.fingerprint import take_fingerprint
from benchmarks.noise import CpuUse, process_cpu_s, watch_cpu
from benchmarks.peers.engine_side import EngineAnswer, ask
from benchmarks.peers.llama_server import LlamaServer
from benchmarks.peers.measurements import open_engine
from benchmarks.peers.programs import ensure_programs
from benchmarks.peers.workload import wire_messages
from benchmarks.statistics import paired_ratios, percentile
from benchmarks.structured_cases import CASES, Case, Style
from benchmarks.structured_together import Together, measure_together

STARTER = "smollm2:135m-instruct-q4_1"
CONTEXT_WINDOW = 4096
MAX_TOKENS = 160
SYSTEM = "You answer with data."
STYLES: tuple[Style, ...] = ("function call", "extraction")
# Room for the prompts and answers of all sequences that are kept.
_TOGETHER_CELLS = 16_384
_TOGETHER_TOKENS = 48
MOST_TOGETHER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One pass over the cases of a style. Seconds are from the first token to the end, summed."""

    style: Style
    constrained_tokens: int
    constrained_s: float
    constrained_cpu_s: float
    forward_passes: int
    valid: int
    free_tokens: int
    free_s: float
    free_cpu_s: float
    added_token_ms: tuple[float, ...]
    added_delta_ms: tuple[float, ...]
    server_tokens: int = 0
    server_s: float = 0.0
    server_total_s: float = 0.0
    constrained_total_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A case as the engine gets it."""

    case: Case
    constrained: GenerateRequest
    free: GenerateRequest


async def prepare(case: Case, number: int, model: str) -> Prepared:
    """Tell the shape as the gateway does; each case has an owner, so that its prompt stays in the KV cache."""
    request = GenerateRequest(
        conversation=Conversation.of(SystemMessage(text=SYSTEM), UserMessage(text=case.question)),
        model=model,
        sampling=SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS),
        output=JsonSchemaFormat(schema_json=json.dumps(case.schema)),
        owner=f"case {number}",
    )
    told = (await judge_of(request)).told
    return Prepared(case=case, constrained=told, free=replace(told, output=TextFormat()))


@dataclass(slots=True)
class _Sums:
    tokens: int = 0
    decode_s: float = 0.0
    total_s: float = 0.0
    cpu_s: float = 0.0
    passes: int = 0
    valid: int = 0


async def _constrained(engine: Engine, prepared: Prepared, sums: _Sums) -> EngineAnswer:
    before_s = _cpu_s(engine)
    answer = await ask(engine, prepared.constrained)
    sums.cpu_s += _cpu_s(engine) - before_s
    sums.tokens += answer.usage.output_tokens
    sums.decode_s += answer.timings.decode_s
    sums.total_s += answer.timings.total_s
    sums.passes += answer.usage.forward_passes
    judge = await judge_of(prepared.constrained)
    sums.valid += int(judge.admitted is not None and not judge.admitted.problems(answer.text))
    return answer


async def _free(engine: Engine, prepared: Prepared, tokens: int, sums: _Sums) -> EngineAnswer:
    before_s = _cpu_s(engine)
    sampling = replace(prepared.free.sampling, max_tokens=tokens)
    answer = await ask(engine, replace(prepared.free, sampling=sampling))
    sums.cpu_s += _cpu_s(engine) - before_s
    sums.tokens += answer.usage.output_tokens
    sums.decode_s += answer.timings.decode_s
    return answer


async def _served(server: LlamaServer, prepared: Prepared, sums: _Sums) -> None:
    messages = wire_messages(prepared.constrained.conversation.messages)
    answer = await server.chat(messages, output_tokens=MAX_TOKENS, schema=prepared.case.schema)
    sums.tokens += answer.trace.output_tokens
    sums.decode_s += answer.trace.ended_s - answer.trace.chunk_times_s[0]
    sums.total_s += answer.trace.ended_s - answer.trace.sent_s


async def measure(
    engine: Engine, server: LlamaServer | None, cases: Sequence[Prepared], number: int
) -> Round:
    """Run one round over cases of one style; who goes first changes from case to case and round to round."""
    held, free, served = _Sums(), _Sums(), _Sums()
    pairs: list[tuple[EngineAnswer, EngineAnswer]] = []
    lengths: list[int] = []
    for prepared in cases:
        # The first answers fill the KV cache and the cache of grammars, and say how long the free ones may be.
        lengths.append((await _constrained(engine, prepared, _Sums())).usage.output_tokens)
        if server is not None:
            await _served(server, prepared, _Sums())
    for position, prepared in enumerate(cases):
        if (number + position) % 2:
            first = await _constrained(engine, prepared, held)
            pairs.append((first, await _free(engine, prepared, lengths[position], free)))
        else:
            first = await _free(engine, prepared, lengths[position], free)
            pairs.append((await _constrained(engine, prepared, held), first))
        if server is not None:
            await _served(server, prepared, served)
    return Round(
        style=cases[0].case.style,
        constrained_tokens=held.tokens,
        constrained_s=held.decode_s,
        constrained_total_s=held.total_s,
        constrained_cpu_s=held.cpu_s,
        forward_passes=held.passes,
        valid=held.valid,
        free_tokens=free.tokens,
        free_s=free.decode_s,
        free_cpu_s=free.cpu_s,
        added_token_ms=tuple(
            (one.timings.prefill_s - other.timings.prefill_s) * 1000 for one, other in pairs
        ),
        added_delta_ms=tuple((one.timings.ttft_s - other.timings.ttft_s) * 1000 for one, other in pairs),
        server_tokens=served.tokens,
        server_s=served.decode_s,
        server_total_s=served.total_s,
    )


def summary(style: Style, rounds: Sequence[Round], cases: int) -> list[str]:
    """Say the medians of a style in lines."""
    mine = [one for one in rounds if one.style == style]
    held = [one.constrained_tokens / one.constrained_s for one in mine]
    free = [one.free_tokens / one.free_s for one in mine]
    by_cpu = paired_ratios(
        [one.constrained_tokens / one.constrained_cpu_s for one in mine],
        [one.free_tokens / one.free_cpu_s for one in mine],
    )
    passes = sum(one.forward_passes for one in mine) / sum(one.constrained_tokens for one in mine)
    valid = sum(one.valid for one in mine)
    ratio, cpu_ratio = statistics.median(paired_ratios(held, free)), statistics.median(by_cpu)
    lines = [
        f"{style}: {len(mine)} rounds of {cases} schemas, {valid} of {len(mine) * cases} answers valid",
        f"  tokens/s constrained {statistics.median(held):.1f}, free {statistics.median(free):.1f}",
        f"  ratio {ratio:.2f}; by the worker's CPU time, the prompt's last token included, {cpu_ratio:.2f}",
        f"  forward passes per token {passes:.2f}",
        _added_line("first token", [value for one in mine for value in one.added_token_ms]),
        _added_line("first delta", [value for one in mine for value in one.added_delta_ms]),
    ]
    if all(one.server_tokens for one in mine):
        served = [one.server_tokens / one.server_s for one in mine]
        time = paired_ratios([one.server_total_s for one in mine], [one.constrained_total_s for one in mine])
        lines.append(
            f"  llama-server with the same schemas: {statistics.median(served):.1f} tokens/s; constrained here is "
            f"{statistics.median(paired_ratios(held, served)):.2f} times that, an answer takes "
            f"{1 / statistics.median(time):.2f} of its time"
        )
    return lines


def _added_line(what: str, added_ms: Sequence[float]) -> str:
    median, p99 = statistics.median(added_ms), percentile(added_ms, 99)
    return f"  added to the {what}: median {median:.1f} ms, p99 {p99:.1f} ms of {len(added_ms)}"


def _cpu_s(engine: Engine) -> float:
    return process_cpu_s(engine.pid) if engine.pid is not None else 0.0


async def measure_rounds(
    model: str,
    rounds: int,
    threads: int,
    cases_each: int,
    *,
    with_server: bool,
    say: Callable[[str], None],
    found: list[Round],
    limit_s: float = float("inf"),
) -> tuple[Together | None, CpuUse]:
    """Measure every round, then both together, and who used the processor meanwhile.

    Args:
        found: gets each round as soon as it is measured.
        limit_s: nothing begins after so long; what was not begun is None.
    """
    began_s = perf_counter()

    def must_end() -> bool:
        return perf_counter() - began_s >= limit_s

    settings = load_settings()
    local = Catalog(ModelStore(settings.models_dir)).local(model)
    params = EngineParams(
        model_path=local.path,
        model_name=model,
        model_digest=local.digest,
        context_window=CONTEXT_WINDOW,
        parallel=2,
        kept_sequences=len(CASES) + 2,
        threads=threads,
    )
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(open_engine(params))
        server = None
        if with_server:
            programs = ensure_programs(settings.cache_dir, say, sys.stderr)
            server = await LlamaServer.start(
                programs,
                local.path,
                threads=threads,
                parallel=len(CASES),
                context_tokens=CONTEXT_WINDOW * 2,
                openmp={},
            )
            stack.push_async_callback(server.stop)
        prepared = [await prepare(case, number, model) for number, case in enumerate(CASES)]
        chosen = {
            style: [one for one in prepared if one.case.style == style][:cases_each] for style in STYLES
        }
        with watch_cpu() as use:
            for number, style in product(range(rounds), STYLES):
                if not must_end():
                    say(f"round {number + 1} of {rounds}: {style}")
                    found.append(await measure(engine, server, chosen[style], number))
        if must_end():
            return None, use
        together = await _together(
            [one.constrained for style in STYLES for one in chosen[style]], params, rounds, say, must_end
        )
    return together, use


async def _together(
    requests: Sequence[GenerateRequest],
    params: EngineParams,
    rounds: int,
    say: Callable[[str], None],
    must_end: Callable[[], bool],
) -> Together | None:
    count = len(requests)
    shared = replace(params, parallel=2 * count, kept_sequences=2 * count, kv_cells=_TOGETHER_CELLS)
    async with open_engine(shared) as engine:
        return await measure_together(
            engine, requests, _TOGETHER_TOKENS, min(rounds, MOST_TOGETHER), say, must_end
        )


def _say(text: str) -> None:
    click.echo(text, err=True)


@click.command()
@click.option("--model", default=STARTER, show_default=True)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 1000))
@click.option("--cases", "cases_each", default=4, show_default=True, type=click.IntRange(1, 4))
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1, 1024))
@click.option("--peer/--no-peer", "with_server", default=True, help="Also ask llama-server.")
@click.option("--json", "json_path", type=click.Path(path_type=Path, dir_okay=False))
def main(
    model: str, rounds: int, cases_each: int, threads: int, *, with_server: bool, json_path: Path | None
) -> None:
    """Measure structured output."""
    fingerprint = take_fingerprint({})
    found: list[Round] = []
    together, use = asyncio.run(
        measure_rounds(model, rounds, threads, cases_each, with_server=with_server, say=_say, found=found)
    )
    for style in STYLES:
        click.echo("\n".join(summary(style, found, cases_each)))
    click.echo(together.line if together else "together: not measured")
    click.echo(
        f"others used {use.foreign_share:.0%} of the machine; load before {fingerprint.load_before:.1f}"
    )
    if json_path:
        record = {
            "fingerprint": json.loads(fingerprint.to_json()),
            "rounds": [asdict(one) for one in found],
            "together": asdict(together) if together else None,
        }
        json_path.write_text(json.dumps(record, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
