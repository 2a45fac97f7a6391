"""Bars in block characters."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from tests.screen_text import screen_text
from tui.widgets.plot import Plot, figure_text, plot_lines


def test_the_highest_figure_fills_all_rows_and_half_of_it_half() -> None:
    assert plot_lines([8.0, 4.0, 0.0], rows=2) == ["█  ", "██ "]


def test_eighths_are_told_apart() -> None:
    assert plot_lines([8.0, 1.0], rows=1) == ["█▁"]


def test_nothing_but_zeros_is_an_empty_plot() -> None:
    assert plot_lines([0.0, 0.0], rows=2) == ["  ", "  "]


@pytest.mark.parametrize(
    ("figure", "text"),
    [(0.00001234, "0.00001234"), (-0.0, "0"), (12.3456, "12.35"), (999.96, "1000"), (1234.5, "1,234")],
)
def test_a_figure_has_four_digits_that_count_and_no_exponent(figure: float, text: str) -> None:
    assert figure_text(figure) == text


class OnePlot(App[None]):
    """Shows a plot of two rows."""

    def compose(self) -> ComposeResult:
        yield Plot(rows=2)


async def test_measurements_that_take_turns_keep_their_earlier_figures() -> None:
    app = OnePlot()
    async with app.run_test() as pilot:
        for title, figure in (("cold", 4.0), ("cached", 1.0), ("cold", 2.0)):
            app.query_one(Plot).add(title, figure, "s")
        await pilot.pause()

        lines = screen_text(app).splitlines()
        assert lines[0] == "cold · now 2 s"
        assert lines[1].split() == ["4", "█"]
        assert lines[2].split() == ["0", "██"]
