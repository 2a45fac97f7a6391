"""`bench quality`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from benchmarks.commands.options import OutputFlags, SettingsSource, budget_option, output_options

if TYPE_CHECKING:
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.recorder import Recorder


class QualityFlags(OutputFlags):
    """Every option of `quality`."""

    models: tuple[str, ...]
    reference: str | None
    text_file: Path | None
    window_tokens: int
    needle_words: int
    budget_s: float


@click.command("quality")
@click.option(
    "-m", "--model", "models", multiple=True, help="A model; give several to see which is worth it."
)
@click.option("--reference", metavar="MODEL", help="The same model in a finer quantisation, or a GGUF file: adds "
              "the divergence from it.")  # fmt: skip
@click.option("--text", "text_file", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="A text for the perplexity, instead of the built-in 600 words.")  # fmt: skip
@click.option("--window", "window_tokens", default=256, show_default=True, type=click.IntRange(64, 1024),
              help="Tokens of a window; the second half of each is scored.")  # fmt: skip
@click.option("--needle-words", default=300, show_default=True, type=click.IntRange(10, 1_000_000))
@budget_option("Begin nothing after so long.")
@output_options
@click.pass_obj
def quality_command(source: SettingsSource, **flags: Unpack[QualityFlags]) -> int:
    """Evaluate models beside their speed: exact match, JSON validity, a needle in a text, perplexity.

    The evaluation is small: 20 facts, 8 schemas, 5 depths. It tells a broken quantisation from a good one, and a
    model that knows nothing from one that does; the intervals say how little it tells of near ones. Perplexities of
    models with unlike vocabularies cannot be compared. The speed is that of the evaluation's own answers.

    \b
    appliance bench quality -m smollm2 -m gemma3
    appliance bench quality -m model-q4.gguf --reference model-f16.gguf --text book.txt
    """
    from appliance.app import build_appliance
    from appliance.core.errors import InvalidRequestError
    from benchmarks.commands.running import SuiteEnd, digests_of, local_models, run_suite
    from benchmarks.pareto import candidates
    from benchmarks.quality import QualityPlan, measure_quality, pareto_lines
    from benchmarks.quality_cases import TEXT

    settings = source.settings({"prefix_disk_bytes": 0})
    models = local_models(settings, flags["models"])
    reference = local_models(settings, (flags["reference"],))[0] if flags["reference"] else None
    for local in (*models, *((reference,) if reference else ())):
        if not local.is_gguf:
            raise InvalidRequestError(f"{local.id} is no GGUF file, so it cannot be evaluated")
    plan = QualityPlan(
        models=tuple(models),
        text=_text(flags["text_file"]) if flags["text_file"] else TEXT,
        window_tokens=flags["window_tokens"],
        needle_words=flags["needle_words"],
        threads=settings.threads,
        reference=reference,
        limit_s=flags["budget_s"],
    )

    async def measure(recorder: Recorder) -> SuiteEnd:
        async with build_appliance(settings) as appliance:
            missing = await measure_quality(plan, appliance.gateway, recorder)
        found = [asdict(one) for one in candidates(recorder.records)]
        return SuiteEnd(missing=missing, lines=pareto_lines(recorder), extra={"pareto": found})

    every = [*models, *((reference,) if reference else ())]
    return run_suite("quality", settings, flags, measure, models=digests_of(every))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"{path} is no UTF-8 text") from exc
