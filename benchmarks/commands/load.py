"""`bench load` and `bench latency`."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

import click

from benchmarks.commands.options import (
    F,
    Numbers,
    OutputFlags,
    SettingsSource,
    Words,
    budget_option,
    output_options,
)

if TYPE_CHECKING:
    from appliance.config import Settings
    from benchmarks.answers import Target
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.exact_text import CountTokens
    from benchmarks.http_target import HttpTarget
    from benchmarks.latency_suite import State
    from benchmarks.recorder import Recorder
    from benchmarks.records import Scalar

_SIZE = Numbers(1, 1 << 20)


class TargetFlags(TypedDict):
    """What `target_options` adds."""

    model: str | None
    url: str | None
    token_env: str | None
    tokenizer: str | None
    body: str | None
    ignore_eos: bool


def target_options(function: F) -> F:
    """Add the options that say what is measured."""
    for option in (
        click.option("--ignore-eos", is_flag=True,
                     help="Send ignore_eos, which llama-server, vLLM and SGLang know, so that no answer ends early."),
        click.option("--body", metavar="JSON", help="More fields of each request's body."),
        click.option("--tokenizer", metavar="MODEL",
                     help="A model here that counts prompts for a server without /tokenize."),
        click.option("--token-env", metavar="NAME", help="The environment variable that holds the server's token."),
        click.option("--url", help="Measure this OpenAI-compatible server instead of a model in this process."),
        click.option("-m", "--model", help="The model; for a server the only one it offers by default."),
    ):  # fmt: skip
        function = option(function)
    return function


class LoadFlags(OutputFlags, TargetFlags):
    """Every option of `load`."""

    concurrencies: tuple[int, ...] | None
    rates: tuple[float, ...]
    trace: Path | None
    requests: int
    input_tokens: int
    output_tokens: int
    goodput: tuple[str, ...]
    budget_s: float


@click.command("load")
@target_options
@click.option("-c", "--concurrency", "concurrencies", type=Numbers(1, 1000),
              help="Closed loop: so many requests run at all times. Several with commas.")  # fmt: skip
@click.option("--rate", "rates", multiple=True, type=click.FloatRange(0, 100_000, min_open=True),
              help="Open loop: Poisson arrivals a second, whether earlier ones are answered or not.")  # fmt: skip
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help='Open loop, a line each: {"at_s": 0.5, "input_tokens": 128, "output_tokens": 64}.')  # fmt: skip
@click.option(
    "--requests", default=32, show_default=True, type=click.IntRange(1, 1_000_000), help="For each level."
)
@click.option("--input-tokens", default=128, show_default=True, type=click.IntRange(1, 1 << 20))
@click.option("--output-tokens", default=64, show_default=True, type=click.IntRange(1, 1 << 20))
@click.option("--goodput", multiple=True, metavar="LIMITS",
              help="Count only requests within limits in ms: --goodput 'ttft:500 tpot:50'.")  # fmt: skip
@budget_option("Send nothing after so long; the time to make prompts is not counted.")
@output_options
@click.pass_obj
def load_command(source: SettingsSource, **flags: Unpack[LoadFlags]) -> int:
    """Send many requests and measure latencies, throughput and goodput in the steady state.

    Prompts have exactly the tokens asked for, template included, and begin all differently. Figures are of the span
    in which the load was what it should be; requests are counted there by when they were sent. Without --url a model
    of this appliance answers in this process.

    \b
    appliance bench load -c 1,4,8 --goodput "ttft:500 tpot:50"
    appliance bench load --url http://127.0.0.1:8080 --rate 0.5 --rate 2 --ignore-eos
    """
    from appliance.core.clock import SystemClock
    from benchmarks.commands.running import SuiteEnd, run_suite
    from benchmarks.load_suite import LoadPlan, measure_load, parse_limits

    limits = parse_limits(flags["goodput"])
    settings = _settings(source, flags["concurrencies"], flags["url"])
    is_stated = flags["concurrencies"] or flags["rates"] or flags["trace"]

    async def measure(recorder: Recorder) -> SuiteEnd:
        async with open_target(settings, cast("TargetFlags", flags), recorder) as (target, model, _):
            plan = LoadPlan(
                model=model,
                input_tokens=flags["input_tokens"],
                output_tokens=flags["output_tokens"],
                requests=flags["requests"],
                concurrencies=flags["concurrencies"] or (() if is_stated else (1, settings.parallel)),
                rates=flags["rates"],
                trace=flags["trace"],
                limits=limits,
                settings=_loading(settings, flags["url"]),
                limit_s=flags["budget_s"],
            )
            return SuiteEnd(missing=await measure_load(plan, target, recorder, SystemClock()))

    return run_suite("load", settings, flags, measure, models=_digests(settings, cast("TargetFlags", flags)))


class LatencyFlags(OutputFlags, TargetFlags):
    """Every option of `latency`."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[str, ...] | None
    repetitions: int
    budget_s: float


@click.command("latency")
@target_options
@click.option("-p", "--input-tokens", "inputs", type=_SIZE, default="128,512", show_default=True)
@click.option("-n", "--output-tokens", "outputs", type=_SIZE, default="32", show_default=True)
@click.option("--states", type=Words("cold", "warm", "cached"),
              help="Default: all three, for a server warm and cached.")  # fmt: skip
@click.option("-r", "--repetitions", default=5, show_default=True, type=click.IntRange(1, 1000))
@budget_option("Begin nothing after so long.")
@output_options
@click.pass_obj
def latency_command(source: SettingsSource, **flags: Unpack[LatencyFlags]) -> int:
    """Measure one request at a time: time to first token, between tokens, end to end.

    Every prompt length is combined with every output length, cold (model not loaded), warm (loaded, the prompt is
    new) and cached (the same prompt was just answered), each a record of its own. The time to the first token is
    split into queue, load, retrieve and prefill as far as the target says it.

    \b
    appliance bench latency -p 128,512,2048 -n 32,128
    """
    from benchmarks.commands.running import SuiteEnd, run_suite
    from benchmarks.latency_suite import LatencyPlan, measure_latency

    settings = _settings(source, None, flags["url"])
    states = flags["states"] or (("warm", "cached") if flags["url"] else ("cold", "warm", "cached"))

    async def measure(recorder: Recorder) -> SuiteEnd:
        async with open_target(settings, cast("TargetFlags", flags), recorder) as (target, model, unload):
            plan = LatencyPlan(
                model=model,
                states=cast("tuple[State, ...]", states),
                input_tokens=flags["inputs"],
                output_tokens=flags["outputs"],
                rounds=flags["repetitions"],
                settings=_loading(settings, flags["url"]),
                limit_s=flags["budget_s"],
            )
            return SuiteEnd(missing=await measure_latency(plan, target, recorder, unload))

    return run_suite(
        "latency", settings, flags, measure, models=_digests(settings, cast("TargetFlags", flags))
    )


@asynccontextmanager
async def open_target(
    settings: Settings, flags: TargetFlags, recorder: Recorder
) -> AsyncIterator[tuple[Target, str, Callable[[], Awaitable[None]] | None]]:
    """Open what is to be measured: the target, the model's name there, and how to unload it."""
    async with AsyncExitStack() as stack:
        if flags["url"]:
            server, served = await _open_server(settings, flags, stack)
            recorder.measured_pid = server.server_pid()
            yield server, served, None
            return
        if flags["body"] or flags["token_env"] or flags["tokenizer"]:
            raise click.UsageError("--body, --token-env and --tokenizer are for --url")
        recorder.step("reading the vocabulary")
        target, model, unload = await _open_gateway(settings, flags, stack)
        yield target, model, unload


async def _open_server(
    settings: Settings, flags: TargetFlags, stack: AsyncExitStack
) -> tuple[HttpTarget, str]:
    from appliance.core.errors import InvalidRequestError
    from benchmarks.http_target import HttpTarget, refuse_when_offline

    url = flags["url"] or ""
    refuse_when_offline(url, is_offline=settings.offline)
    count = await _counter(settings, flags["tokenizer"], stack) if flags["tokenizer"] else None
    target = HttpTarget(
        url, flags["model"] or "", token=_token(flags["token_env"]), extra=_extra(flags), count=count
    )
    await stack.enter_async_context(target)
    if not target.model:
        names = await target.model_names()
        if len(names) != 1:
            raise InvalidRequestError(
                f"{target.base} offers {len(names)} models: {', '.join(names[:8])}", hint="name one with -m"
            )
        target.model = names[0]
    return target, target.model


async def _counter(settings: Settings, model: str, stack: AsyncExitStack) -> CountTokens:
    """Count prompts with a model of this machine, its own template included."""
    target, _, _ = await _open_gateway(settings, {**_NO_FLAGS, "model": model}, stack)
    return target.count_tokens


_NO_FLAGS: TargetFlags = {
    "model": None, "url": None, "token_env": None, "tokenizer": None, "body": None, "ignore_eos": False
}  # fmt: skip


async def _open_gateway(
    settings: Settings, flags: TargetFlags, stack: AsyncExitStack
) -> tuple[Target, str, Callable[[], Awaitable[None]]]:
    from appliance.app import build_appliance
    from appliance.engine.evaluation import EvaluationJob, evaluate
    from benchmarks.commands.running import local_models
    from benchmarks.gateway_target import NEVER, GatewayTarget

    (local,) = local_models(settings, (flags["model"],) if flags["model"] else ())
    found = await evaluate(EvaluationJob(kind="end_tokens", model_path=local.path))
    appliance = await stack.enter_async_context(build_appliance(settings))
    target = GatewayTarget(
        gateway=appliance.gateway,
        model=local.id,
        clock=appliance.clock,
        never=dict.fromkeys(found.end_tokens, NEVER),
    )

    async def unload() -> None:
        await appliance.gateway.unload(local.id)

    return target, local.id, unload


def _settings(source: SettingsSource, concurrencies: tuple[int, ...] | None, url: str | None) -> Settings:
    """No prefix of a benchmark is saved, and as many slots as requests are to run at once."""
    flags: dict[str, str | int | float | bool | None] = {"prefix_disk_bytes": 0}
    if concurrencies and not url:
        flags["parallel"] = min(max(max(concurrencies), source.settings().parallel), 64)
    return source.settings(flags)


def _loading(settings: Settings, url: str | None) -> dict[str, Scalar]:
    """How the model is loaded here; of a server nobody knows."""
    if url:
        return {}
    return {
        "context_window": settings.context_window,
        "parallel": settings.parallel,
        "threads": settings.threads,
        "kv_type": settings.kv_type,
        "flash_attention": settings.flash_attention,
        "gpu_layers": settings.gpu_layers,
        **{
            name: value
            for name, value in (
                ("batch_tokens", settings.batch_tokens),
                ("ubatch_tokens", settings.ubatch_tokens),
                ("prefill_chunk_tokens", settings.prefill_chunk_tokens),
            )
            if settings.source_of(name) != "default"
        },
    }


def _digests(settings: Settings, flags: TargetFlags) -> dict[str, str]:
    from benchmarks.commands.running import digests_of, local_models

    if flags["url"]:
        return {}
    return digests_of(local_models(settings, (flags["model"],) if flags["model"] else ()))


def _token(variable: str | None) -> str:
    if not variable:
        return ""
    token = os.environ.get(variable, "")
    if not token:
        raise click.UsageError(f"the environment variable {variable} is empty")
    return token


def _extra(flags: TargetFlags) -> dict[str, object]:
    extra: dict[str, object] = {"ignore_eos": True} if flags["ignore_eos"] else {}
    if not flags["body"]:
        return extra
    try:
        stated = json.loads(flags["body"])
    except ValueError as exc:
        raise click.UsageError(f"--body is no JSON: {exc}") from exc
    if not isinstance(stated, dict):
        raise click.UsageError("--body is no JSON object")
    return {**extra, **stated}
