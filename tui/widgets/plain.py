"""Text as it is: cleaned, and never read as markup."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content
from textual.widgets import Static

from tui.clean import shown

Styled = tuple[str, str]
"""A text and the style it is shown in; an empty style is the widget's own."""


def line_of(parts: Iterable[Styled]) -> Content:
    """Join styled texts to one line of content."""
    return Content.assemble(*((shown(text).replace("\n", " "), style) for text, style in parts))


class Plain(Static):
    """A static text of any origin."""

    def __init__(self, text: str = "", *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(Content(shown(text)), id=id, classes=classes, markup=False)

    def show(self, text: str) -> None:
        """Replace the text."""
        self.update(Content(shown(text)))

    def show_parts(self, parts: Iterable[Styled]) -> None:
        """Replace the text by one line of styled parts."""
        self.update(line_of(parts))
