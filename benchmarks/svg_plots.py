"""Plots as SVG text, drawn here so that a report needs nothing from anywhere: intervals, distributions, scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10

WIDTH = 720
_LEFT, _RIGHT, _TOP, _BOTTOM = 240, 30, 14, 40
_ROW_HEIGHT = 26
_PLOT_HEIGHT = 260
_TICKS = 5
_MOST_LABEL = 38
_MOST_TICKS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """One median with its interval and every sample."""

    label: str
    median: float
    low: float
    high: float
    samples: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a scatter plot; points on the frontier are joined."""

    label: str
    x: float
    y: float
    is_on_frontier: bool


def interval_plot(rows: Sequence[IntervalRow], unit: str) -> str:
    """Draw medians as dots, intervals as bars, samples as ticks; the axis begins at 0."""
    height = _TOP + _BOTTOM + _ROW_HEIGHT * len(rows)
    scale = _Scale(0.0, max((max(row.samples) for row in rows), default=1.0), _LEFT, WIDTH - _RIGHT)
    parts = _axis(scale, height - _BOTTOM, unit, top=_TOP)
    for number, row in enumerate(rows):
        y = _TOP + _ROW_HEIGHT * number + _ROW_HEIGHT // 2
        parts.append(_text(_LEFT - 10, y + 4, row.label, "end", _MOST_LABEL))
        parts += [
            f'<line class="tick" x1="{scale(value):.1f}" x2="{scale(value):.1f}" y1="{y - 6}" y2="{y + 6}"/>'
            for value in _spread_out(row.samples)
        ]
        parts.append(
            f'<line class="bar" x1="{scale(row.low):.1f}" x2="{scale(row.high):.1f}" y1="{y}" y2="{y}"/>'
        )
        parts.append(f'<circle class="dot" cx="{scale(row.median):.1f}" cy="{y}" r="4"/>')
    return _figure(parts, height)


def distribution_plot(series: Sequence[tuple[str, Sequence[float]]], unit: str) -> str:
    """Draw the share of samples at or below each value, one line a series."""
    height = _TOP + _BOTTOM + _PLOT_HEIGHT
    largest = max((max(values) for _, values in series if values), default=1.0)
    scale = _Scale(0.0, largest, 60, WIDTH - 200)
    up = _Scale(0.0, 1.0, height - _BOTTOM, _TOP)
    parts = _axis(scale, height - _BOTTOM, unit, top=_TOP)
    parts += [_text(52, up(share) + 4, f"{share:.0%}", "end") for share in (0.0, 0.5, 0.95)]
    parts.append(f'<line class="grid" x1="60" x2="{WIDTH - 200}" y1="{up(0.95):.1f}" y2="{up(0.95):.1f}"/>')
    for number, (label, values) in enumerate(series):
        ordered = sorted(values)
        points = [(scale(0.0), up(0.0))]
        for rank in _ranks(len(ordered)):
            value = scale(ordered[rank - 1])
            points += [(value, points[-1][1]), (value, up(rank / len(ordered)))]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="line s{number % 6}" points="{path}"/>')
        y = _TOP + 14 + 18 * number
        parts.append(
            f'<line class="line s{number % 6}" x1="{WIDTH - 190}" x2="{WIDTH - 170}" y1="{y}" y2="{y}"/>'
        )
        parts.append(_text(WIDTH - 164, y + 4, label, "start", 24))
    return _figure(parts, height)


def _ranks(count: int) -> list[int]:
    """Ranks to draw: all of a small sample, of a large one as many as can be told apart, the last among them."""
    every = max(1, -(-count // _MOST_TICKS))
    return [*range(every, count, every), count] if count else []


def scatter_plot(points: Sequence[Point], x_label: str, y_label: str) -> str:
    """Draw points and join those that nothing beats in both directions."""
    height = _TOP + _BOTTOM + _PLOT_HEIGHT
    across = _Scale(0.0, max((point.x for point in points), default=1.0) * 1.05, 60, WIDTH - 160)
    most = max((point.y for point in points), default=1.0) * 1.05
    up = _Scale(0.0, most, height - _BOTTOM, _TOP)
    parts = _axis(across, height - _BOTTOM, x_label, top=_TOP)
    parts += [_text(52, up(value) + 4, _tick_text(value), "end") for value in up.ticks()]
    parts.append(_text(60, _TOP, y_label, "start"))
    frontier = sorted((point for point in points if point.is_on_frontier), key=lambda point: point.x)
    path = " ".join(f"{across(point.x):.1f},{up(point.y):.1f}" for point in frontier)
    parts.append(f'<polyline class="line s0" points="{path}"/>')
    for point in points:
        kind = "dot" if point.is_on_frontier else "dot off"
        parts.append(f'<circle class="{kind}" cx="{across(point.x):.1f}" cy="{up(point.y):.1f}" r="5"/>')
        parts.append(_text(across(point.x) + 8, up(point.y) + 4, point.label, "start", _MOST_LABEL))
    return _figure(parts, height)


def _spread_out(values: Sequence[float]) -> Sequence[float]:
    """So many values that single ticks can be told apart: all of a small sample, evenly ranked ones of a large one."""
    if len(values) <= _MOST_TICKS:
        return values
    ordered = sorted(values)
    return [ordered[rank * (len(ordered) - 1) // (_MOST_TICKS - 1)] for rank in range(_MOST_TICKS)]


class _Scale:
    """Maps values to pixels."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self._low = low
        self._span = high - low if isfinite(high) and high > low else 1.0
        self._first, self._last = first, last

    def __call__(self, value: float) -> float:
        return self._first + (value - self._low) / self._span * (self._last - self._first)

    def ticks(self) -> list[float]:
        """Round values over the range."""
        rough = self._span / _TICKS
        power = 10 ** floor(log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        return [self._low + step * number for number in range(int(self._span / step) + 1)]


def _axis(scale: _Scale, y: float, label: str, *, top: float) -> list[str]:
    parts = []
    for value in scale.ticks():
        x = scale(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{y:.1f}"/>')
        parts.append(_text(x, y + 16, _tick_text(value), "middle"))
    parts.append(_text(WIDTH - _RIGHT, y + 34, label, "end"))
    return parts


def _tick_text(value: float) -> str:
    return f"{value:.4g}"


def _text(x: float, y: float, text: str, anchor: str, most: int = 0) -> str:
    """Text; one that is longer than `most` is shortened, and whole under the pointer."""
    whole = f"<title>{escape(text)}</title>" if most and len(text) > most else ""
    shown = f"{text[: most - 1]}…" if whole else text
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(shown)}{whole}</text>'


def _figure(parts: Sequence[str], height: float) -> str:
    body = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" xmlns="http://www.w3.org/2000/svg">\n{body}\n</svg>'
