"""`python -m benchmarks.screens`: measure the terminal interface in a terminal of its own; prints JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import click

from appliance.core.errors import ApplianceError
from benchmarks.screens.measurements import (
    Figures,
    Report,
    Wanted,
    measure_answer,
    measure_code,
    measure_scrolling,
    measure_start,
    measure_table,
)

PARTS: dict[str, Callable[[Wanted], Report]] = {
    "start": measure_start,
    "answer": measure_answer,
    "table": measure_table,
    "code": measure_code,
    "scrolling": measure_scrolling,
}


@click.command()
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Measure only this part."
)
@click.option("--tokens", default=10_000, show_default=True, help="Length of the answer.")
@click.option(
    "--block-tokens", default=4_000, show_default=True, help="Length of the one table, and of the code."
)
@click.option("--token-s", default=0.009, show_default=True, help="Pause of the model before each token.")
@click.option("--turns", default=1_000, show_default=True, help="Length of the chat that is scrolled.")
@click.option("--columns", default=100, show_default=True, help="Width of the terminal.")
@click.option("--rows", default=30, show_default=True, help="Height of the terminal.")
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Other sources, measured in turn with these; figures are then divided.",
)
def main(*, parts: tuple[str, ...], against: Path | None, **sizes: int) -> None:
    """Measure how smooth the terminal interface is."""
    here = Wanted(source=Path.cwd(), **sizes)
    report: dict[str, object] = {"conditions": _conditions(here)}
    for part in parts or tuple(PARTS):
        measured = report[part] = PARTS[part](here)
        if against is not None:
            other = PARTS[part](Wanted(source=against.resolve(), **sizes))
            report[f"{part}_against"] = other
            report[f"{part}_ratio"] = _ratios(measured, other)
    report["load_at_end"] = os.getloadavg()[0]
    click.echo(json.dumps(report, indent=2))


def _conditions(wanted: Wanted) -> dict[str, object]:
    return {
        "terminal": f"{wanted.columns}x{wanted.rows}",
        "tokens": wanted.tokens,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "textual": version("textual"),
    }


def _ratios(figures: Report, others: Report) -> dict[str, object]:
    return {name: _ratio(figures[name], others[name]) for name in figures if name in others}


def _ratio(figure: Figures | float, other: Figures | float) -> object:
    if isinstance(figure, dict):
        assert isinstance(other, dict)
        return {name: _ratio(figure[name], other[name]) for name in figure if name in other}
    assert isinstance(other, float | int)
    return round(figure / other, 3) if other else None


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as exc:
        click.echo(f"error: {exc.message}", err=True)
        sys.exit(1)
