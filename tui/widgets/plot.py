"""A plot of the newest figures of one measurement, in block characters."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from decimal import Decimal

from tui.widgets.plain import Plain

_BLOCKS = " ▁▂▃▄▅▆▇█"
_KEPT_FIGURES = 400
_LABEL_CELLS = 11
_TALL_ROWS = 40


class Plot(Plain):
    """Bars, newest at the right; the scale begins at zero, so that small changes look small."""

    def __init__(self, *, rows: int = 5) -> None:
        super().__init__(classes="plot")
        self._rows = rows
        # Measurements take turns, so that each needs its earlier figures again.
        self._series: defaultdict[tuple[str, str], deque[float]] = defaultdict(
            lambda: deque(maxlen=_KEPT_FIGURES)
        )
        self._title = ""
        self._unit = ""

    def add(self, title: str, figure: float, unit: str) -> None:
        """Take one more figure and show all of its title and unit."""
        self._title, self._unit = title, unit
        self._series[title, unit].append(figure)
        self.redraw()

    def clear_figures(self) -> None:
        """Begin anew."""
        self._series.clear()
        self.redraw()

    def on_resize(self) -> None:
        """Fit the plot to the width."""
        self.redraw()

    def redraw(self) -> None:
        """Draw what there is; nothing takes no room."""
        figures = self._series[self._title, self._unit]
        self.set_class(bool(figures), "shown")
        if not figures:
            self.show("")
            return
        columns = max(8, (self.size.width or 80) - _LABEL_CELLS - 2)
        newest = f"{figure_text(figures[-1])} {self._unit}"
        rows = self._rows if self.app.size.height < _TALL_ROWS else 2 * self._rows
        lines = plot_lines(list(figures)[-columns:], rows=rows)
        top = max(figures)
        labels = [figure_text(top), *([""] * (rows - 2)), "0"]
        drawn = [f"{label:>{_LABEL_CELLS - 1}} {line}" for label, line in zip(labels, lines, strict=True)]
        self.show("\n".join([f"{self._title} · now {newest}", *drawn]))


def figure_text(figure: float) -> str:
    """Write a figure with four digits that count, and never with an exponent."""
    if abs(figure) >= 1000:
        return f"{figure:,.0f}"
    # Zero may have a sign, which adding zero takes away.
    return f"{Decimal(f'{figure + 0.0:.4g}'):f}"


def plot_lines(figures: Sequence[float], *, rows: int) -> list[str]:
    """Return bars as lines, from the top down."""
    top = max(figures, default=0.0)
    steps = [round(max(0.0, figure) / top * rows * 8) if top > 0 else 0 for figure in figures]
    return [
        "".join(_BLOCKS[max(0, min(8, step - 8 * row))] for step in steps) for row in range(rows - 1, -1, -1)
    ]
