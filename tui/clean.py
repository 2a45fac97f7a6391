"""The one boundary between foreign text and a widget: what comes out has nothing a terminal would obey."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

from appliance.core.terminal_text import clean_for_terminal

_MOST_COMBINING_MARKS = 4
_COMBINING = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_STACKED = re.compile(f"([{_COMBINING}]{{{_MOST_COMBINING_MARKS}}})[{_COMBINING}]+")
_LINE_SEPARATORS = re.compile("[\u2028\u2029]")
_INVISIBLE = re.compile("[\u200b\u2060-\u2064\ufeff\u00ad\u180e]")
_TAB = "    "


def shown(text: str) -> str:
    r"""Return text as a widget may show it: no control but `\n`, tabs as spaces, marks stacked four high."""
    cleaned = _LINE_SEPARATORS.sub("\n", clean_for_terminal(text))
    cleaned = _INVISIBLE.sub("", cleaned)
    return _STACKED.sub(r"\1", cleaned).replace("\t", _TAB)


def shown_line(text: str, most: int = 500) -> str:
    """Return text as one line; a cut is marked with an ellipsis."""
    line = " ".join(shown(text[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def shown_cell(text: str, cells: int) -> str:
    """Return text as one line of exactly so many cells; wide characters take two."""
    line = shown_line(text, cells)
    if cell_len(line) > cells:
        line = set_cell_size(line, cells - 1).rstrip() + "…"
    return line + " " * (cells - cell_len(line))


def typed(text: str) -> str:
    r"""Return text as it may be edited: line ends are `\n`, tabs stay, other controls are gone."""
    return clean_for_terminal(_LINE_SEPARATORS.sub("\n", text.replace("\r\n", "\n").replace("\r", "\n")))
