"""An answer's Markdown as one widget that draws lines: what is not seen is never drawn, what is settled never again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.events import Click
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual
from textual.widget import Widget

from tui.widgets.answer_parts import Part, grown, parts_of
from tui.widgets.copy_code import CodeWanted
from tui.widgets.markdown_rows import Laid, lay_out
from tui.widgets.rows import BLANK, Row

# A search for garbage looks at every object that is kept.
_KEPT_STRIPS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A row with the line of the text it stands in, and where in that line it begins."""

    row: Row
    line: int
    column: int


class AnswerText(Widget):
    """An answer that may grow. The text given must be clean."""

    DEFAULT_CSS = "AnswerText { height: auto; text-wrap: nowrap; text-overflow: clip; }"
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"h{level}" for level in range(1, 7)),
        *("strong", "em", "s", "code_inline", "bullet", "quote_bar", "rule", "table_head", "table_line"),
        *("code", "code_copy", "code_note"),
    }

    def __init__(self, text: str = "") -> None:
        super().__init__(classes="answer-text")
        self.auto_links = False
        self._parts = parts_of(text)
        self._laid: list[Laid] = []
        self._laid_width = 0
        self._places: list[_Place] = []
        self._part_tops: list[int] = []
        self._lines: list[str] = []
        self._strips: dict[int, Strip] = {}
        self._strips_style: Style | None = None

    def append(self, text: str) -> None:
        """Write more at the end."""
        last = self._parts.pop()
        more = grown(last, text)
        self._parts += more
        if not self._laid_width:
            return
        top = self._part_tops[-1]
        before = self._places[top:]
        self._take_back_last()
        for part in more:
            self._lay_out_part(part)
        self._draw_anew(top, before)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return how many rows it has at a width."""
        self._lay_out(width)
        return len(self._places)

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        width = self.size.width
        if y >= len(self._places) or width != self._laid_width:
            return Strip.blank(width, self.visual_style.rich_style)
        if self.text_selection is not None:
            return self._drawn(self._places[y], self.text_selection)
        if y not in self._strips:
            self._strips[y] = self._drawn(self._places[y], None)
        return self._strips[y]

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows; there are no borders to draw around them."""
        if self._strips_style != self.visual_style:
            self._strips_style = self.visual_style
            self._strips.clear()
        if len(self._strips) > crop.height + _KEPT_STRIPS:
            self._strips = {y: strip for y, strip in self._strips.items() if y in crop.line_range}
        strips = [self.render_line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.column_span != (0, self.size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return what is selected as it was written, not as it is broken into rows."""
        start, end = selection
        last = len(self._lines) if end is None else end.y + 1
        lines = self._lines[0 if start is None else start.y : last]
        if lines and end is not None:
            lines[-1] = lines[-1][: end.x]
        if lines and start is not None:
            lines[0] = lines[0][start.x :]
        return "\n".join(lines), "\n"

    def notify_style_update(self) -> None:
        """Draw anew in other colours."""
        self._strips.clear()
        super().notify_style_update()

    def on_click(self, event: Click) -> None:
        """Copy the code below its head."""
        y = event.y
        if 0 <= y < len(self._places) and self._places[y].row.kind == "code_head":
            self.post_message(CodeWanted(self._code_below(y)))

    def _lay_out(self, width: int) -> None:
        if width == self._laid_width or not width:
            return
        self._laid_width = width
        for kept in (self._laid, self._places, self._part_tops, self._lines):
            kept.clear()
        self._strips.clear()
        for part in self._parts:
            self._lay_out_part(part)

    def _draw_anew(self, top: int, before: Sequence[_Place]) -> None:
        """Draw the rows from `top` on that are not what they were."""
        after = self._places[top:]
        pairs = zip(before, after, strict=False)
        changed = (place for place, (old, new) in enumerate(pairs) if not _looks_same(old, new))
        same = next(changed, min(len(before), len(after)))
        for y in range(top + same, top + len(before)):
            self._strips.pop(y, None)
        if len(after) != len(before):
            self.refresh(layout=True)
        elif same < len(after):
            self.refresh(Region(0, top + same, self.size.width, len(after) - same))

    def _lay_out_part(self, part: Part) -> None:
        columns: Sequence[int] = self._laid[-1].columns if self._laid else ()
        laid = lay_out(part, self._laid_width, columns)
        self._laid.append(laid)
        self._part_tops.append(len(self._places))
        is_apart = bool(laid.rows) and bool(self._places) and not part.is_continued
        for row in (*((BLANK,) if is_apart else ()), *laid.rows):
            self._places.append(self._place(row))

    def _place(self, row: Row) -> _Place:
        if row.joins is None or not self._lines:
            self._lines.append(row.text)
            return _Place(row=row, line=len(self._lines) - 1, column=0)
        column = len(self._lines[-1]) + len(row.joins)
        self._lines[-1] += row.joins + row.text
        return _Place(row=row, line=len(self._lines) - 1, column=column)

    def _take_back_last(self) -> None:
        self._laid.pop()
        top = self._part_tops.pop()
        if top < len(self._places):
            self._take_back_lines(self._places[top])
        del self._places[top:]

    def _take_back_lines(self, place: _Place) -> None:
        begun = self._lines[place.line][: max(0, place.column - len(place.row.joins or ""))]
        self._lines[place.line :] = [begun] if begun else []

    def _drawn(self, place: _Place, selection: Selection | None) -> Strip:
        row, width = place.row, self._laid_width
        style = self.visual_style
        if row.style:
            style += self.get_visual_style(row.style[1:], partial=True)
        content = row.content
        if selection is not None and (span := selection.get_span(place.line)) is not None:
            start, end = span
            shift = row.unsaid - place.column
            last = len(content.plain) if end < 0 else min(len(content.plain), end + shift)
            first = max(row.unsaid, start + shift)
            if first < last:
                content = content.stylize(
                    "$screen-selection-foreground on $screen-selection-background", first, last
                )
        strip = Visual.to_strips(self, content, width, 1, style, apply_selection=False)[0]
        return _with_offsets(strip, place).extend_cell_length(width, style.rich_style)

    def _code_below(self, y: int) -> str:
        code = []
        for place in self._places[y + 1 :]:
            if place.row.kind != "code":
                break
            code.append(("\n" if place.row.joins is None else "") + place.row.text)
        return "".join(code).removeprefix("\n")


def _with_offsets(strip: Strip, place: _Place) -> Strip:
    """Tell for each cell which character of the text is chosen there; decoration is where the text begins."""
    row = place.row
    offset = RichStyle.from_meta({"offset": (place.column, place.line)})
    if not row.content:
        return Strip([Segment(" ", offset)])
    if not row.text:
        return strip.apply_offsets(place.column, place.line)
    cells = row.content[: row.unsaid].cell_length
    decoration = Strip(
        Segment(character, style + offset if style else offset)
        for text, style, _ in strip.crop(0, cells)
        for character in text
    )
    said = strip.crop(cells, strip.cell_length).apply_offsets(place.column, place.line)
    return Strip.join([decoration, said])


def _looks_same(old: _Place, new: _Place) -> bool:
    # Contents are equal for `==` when only their texts are.
    return old == new and old.row.content.is_same(new.row.content)
