"""A small plot of the newest figures in the terminal, redrawn in place while a run goes on."""

from __future__ import annotations

import shutil
from collections import deque
from typing import TextIO

_POINTS = 60
_HEIGHT = 10
_SERIES = 4
_LEAST_COLUMNS, _LEAST_ROWS = 40, 18


class LivePlot:
    """Draws the last figures of the last few measurements; a terminal too small gets the line alone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._series: dict[str, deque[float]] = {}
        self._unit = ""
        self._drawn_lines = 0

    def add(self, name: str, figure: float, unit: str) -> None:
        """Take one more figure; the series that was longest without one goes first."""
        points = self._series.pop(name, None) or deque(maxlen=_POINTS)
        points.append(figure)
        self._series[name] = points
        self._unit = unit
        while len(self._series) > _SERIES:
            self._series.pop(next(iter(self._series)))

    def draw(self, line: str, *, with_plot: bool = True) -> None:
        """Replace what was drawn before by the plot and the line, or by the line alone."""
        size = shutil.get_terminal_size()
        lines = [line[: size.columns - 1]]
        if with_plot and self._series and size.columns >= _LEAST_COLUMNS and size.lines >= _LEAST_ROWS:
            lines = [*self._plot(min(size.columns - 1, 100)), *lines]
        self._erase()
        self._stream.write("\n".join(lines))
        self._drawn_lines = len(lines)

    def close(self) -> None:
        """Remove what was drawn."""
        self._erase()
        self._stream.flush()

    def _plot(self, width: int) -> list[str]:
        import plotext

        figure = plotext.figure
        figure.clear()
        figure.theme("colorless")
        figure.plot_size(width, _HEIGHT)
        for name, points in self._series.items():
            figure.draw(figure.signal(list(points)).lines().label(f"{name}, {self._unit}"))
        lines: list[str] = plotext.uncolorize(str(figure.build())).splitlines()
        return lines

    def _erase(self) -> None:
        if self._drawn_lines:
            up = f"\x1b[{self._drawn_lines - 1}A" if self._drawn_lines > 1 else ""
            self._stream.write(f"\r{up}\x1b[J")
            self._drawn_lines = 0
