"""Bars in block characters."""

from __future__ import annotations

from tui.widgets.plot import plot_lines


def test_the_highest_figure_fills_all_rows_and_half_of_it_half() -> None:
    assert plot_lines([8.0, 4.0, 0.0], rows=2) == ["█  ", "██ "]


def test_eighths_are_told_apart() -> None:
    assert plot_lines([8.0, 1.0], rows=1) == ["█▁"]


def test_nothing_but_zeros_is_an_empty_plot() -> None:
    assert plot_lines([0.0, 0.0], rows=2) == ["  ", "  "]
