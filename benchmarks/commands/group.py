"""The group of bench commands: a command's module is imported when that command runs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import click


@dataclass(frozen=True, slots=True)
class BenchEntry:
    """Where a command lives: the attribute `<name>_command` of a module."""

    section: str
    module: str
    summary: str


ENTRIES: dict[str, BenchEntry] = {
    "engine": BenchEntry("Measure", "engine", "Prompt processing and generation, in llama-bench's terms."),
    "latency": BenchEntry("Measure", "load", "Time to first token and between tokens, cold, warm, cached."),
    "load": BenchEntry("Measure", "load", "Many requests at once, against this appliance or any URL."),
    "structured": BenchEntry("Measure", "structured", "Constrained answers against free ones."),
    "rag": BenchEntry("Measure", "rag", "Documents: ingest, search, ranking, citations."),
    "quality": BenchEntry("Measure", "quality", "How good models are, beside how fast: a Pareto plot."),
    "memory": BenchEntry("Measure", "memory", "Predicted and real peak of memory by context size."),
    "energy": BenchEntry("Measure", "engine", "Joules a token, where the machine can say it."),
    "sweep": BenchEntry("Measure", "sweep", "Find the fastest settings for a model here."),
    "history": BenchEntry("Records", "records", "List the runs that are kept."),
    "compare": BenchEntry("Records", "records", "Compare two runs, with intervals."),
    "report": BenchEntry("Records", "records", "Write a run as Markdown, CSV, JSON or HTML."),
    "selfcheck": BenchEntry("Trust", "selfcheck", "Check the client against a server of known times."),
    "gpus": BenchEntry("Trust", "gpus", "List NVIDIA GPUs as their driver describes them."),
}


class BenchGroup(click.Group):
    """Imports a command's module only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = ENTRIES.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(f"benchmarks.commands.{entry.module}"), f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in ENTRIES and not args[0].startswith("-"):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=ENTRIES, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for section in dict.fromkeys(entry.section for entry in ENTRIES.values()):
            rows = [(name, entry.summary) for name, entry in ENTRIES.items() if entry.section == section]
            with formatter.section(section):
                formatter.write_dl(rows, col_max=12)


@click.group(
    "bench",
    cls=BenchGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every run is kept as JSON lines in the state folder. With `--json --progress json` each step and "
    "each record is printed as one JSON line the moment it is known.",
)
def bench_command() -> None:
    """How fast is a model on this machine, is it good enough, which one to take, and did something change?"""
