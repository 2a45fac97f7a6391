"""Markdown as rows of a width: everything stands as it was written, and nothing is cut at the edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from textual.content import Content, Span

from tui.widgets.answer_parts import MOST_LEVELS, MOST_LINES, Part, plain_parser
from tui.widgets.rows import BLANK, Row, folded, prefixed, wrapped
from tui.widgets.table_rows import Table, table_rows, widths_of

_BULLETS = "•◦▪"
_STYLES = {"strong": ".strong", "em": ".em", "s": ".s"}
_CODE_PADDING = 2
_NARROWEST = 8
_BAR = Content.styled("▌ ", ".quote_bar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A part as rows. `columns` are the widths of the table it ends with, for the part that goes on with it."""

    rows: tuple[Row, ...]
    columns: tuple[int, ...] = ()


def lay_out(part: Part, width: int, columns: Sequence[int] = ()) -> Laid:
    """Lay a part out; `columns` are those of the table that it continues."""
    width = max(1, width)
    tokens = plain_parser().parse(part.opener + part.source)
    if any(token.level >= MOST_LEVELS - 2 for token in tokens):
        # What is deeper the parser leaves out.
        return Laid(rows=tuple(wrapped(Content(part.source.rstrip("\n")), width)))
    blocks = SyntaxTreeNode(tokens).children
    layout = _Layout(part, blocks[0].type if blocks else "", tuple(columns))
    rows = layout.stacked(blocks, width)
    if part.is_continued and rows:
        rows = _going_on(rows, blocks[0].type, part)
    return Laid(rows=tuple(rows), columns=layout.columns)


def _going_on(rows: list[Row], kind: str, part: Part) -> list[Row]:
    match kind:
        case "paragraph":
            return [replace(rows[0], joins=part.joins), *rows[1:]]
        case "blockquote":
            return [Row(content=_BAR, unsaid=len(_BAR.plain)), *rows]
        case _:
            return rows


class _Layout:
    """The rows of one part."""

    def __init__(self, part: Part, first_kind: str, columns: tuple[int, ...]) -> None:
        self._is_continued = part.is_continued and first_kind in ("fence", "code_block", "table")
        self._first_number = part.first_number if first_kind == "ordered_list" else None
        self.columns = columns

    def stacked(self, blocks: Sequence[SyntaxTreeNode], width: int) -> list[Row]:
        """Put blocks below each other."""
        rows: list[Row] = []
        for block in blocks:
            rows += [BLANK] if rows else []
            rows += self._block(block, width)
        return rows

    def _block(self, block: SyntaxTreeNode, width: int, level: int = 0) -> list[Row]:
        match block.type:
            case "paragraph":
                return wrapped(_inline(block), width)
            case "heading":
                return wrapped(_inline(block).stylize_before(f".{block.tag}"), width)
            case "fence" | "code_block":
                return self._code(block, width)
            case "bullet_list" | "ordered_list":
                return self._list(block, width, level)
            case "blockquote":
                return self._quote(block, width)
            case "table":
                return self._table(block, width)
            case "hr":
                return [Row(content=Content.styled("─" * width, ".rule"), unsaid=width)]
            case _:
                return wrapped(_inline(block), width)

    def _quote(self, block: SyntaxTreeNode, width: int) -> list[Row]:
        inside = width - len(_BAR.plain)
        if inside < _NARROWEST:
            return self.stacked(block.children, width)
        return prefixed(self.stacked(block.children, inside), _BAR, _BAR)

    def _list(self, block: SyntaxTreeNode, width: int, level: int) -> list[Row]:
        number, self._first_number = self._first_number, None
        first = (number or int(block.attrs.get("start", 1))) if block.type == "ordered_list" else None
        marks = [
            f"{_BULLETS[level % len(_BULLETS)]} " if first is None else f"{first + place}. "
            for place in range(len(block.children))
        ]
        indent = max(map(len, marks), default=0)
        rows: list[Row] = []
        for item, mark in zip(block.children, marks, strict=True):
            if width - indent < _NARROWEST:
                rows += wrapped(Content.styled(mark.strip(), ".bullet"), width)
                rows += self._item(item, width, level)
                continue
            said = Content.styled(mark.rjust(indent), ".bullet")
            rows += prefixed(
                self._item(item, width - indent, level) or [BLANK],
                said,
                Content(" " * indent),
                is_said=True,
            )
        return rows

    def _item(self, item: SyntaxTreeNode, width: int, level: int) -> list[Row]:
        rows: list[Row] = []
        before = ""
        for block in item.children:
            rows += [BLANK] if before == block.type == "paragraph" else []
            rows += self._block(block, width, level + 1)
            before = block.type
        return rows

    def _table(self, block: SyntaxTreeNode, width: int) -> list[Row]:
        head, *bodies = block.children
        cells = head.children[0].children
        table = Table(
            head=[_inline(cell) for cell in cells],
            body=[[_inline(cell) for cell in row.children] for body in bodies for row in body.children],
            aligns=[str(cell.attrs.get("style", "")).removeprefix("text-align:") for cell in cells],
        )
        is_continued, self._is_continued = self._is_continued, False
        if not (is_continued and self.columns):
            self.columns = widths_of(table, width)
        return table_rows(table, width, self.columns, is_continued=is_continued)

    def _code(self, block: SyntaxTreeNode, width: int) -> list[Row]:
        is_continued, self._is_continued = self._is_continued, False
        info = block.info.strip()
        padded = _CODE_PADDING if width - 2 * _CODE_PADDING >= _NARROWEST else 0
        padding = Content(" " * padded)
        lines = block.content.removesuffix("\n").split("\n")
        rows: list[Row] = []
        for start in range(0, len(lines), MOST_LINES):
            code = "\n".join(lines[start : start + MOST_LINES])
            rows += _code_rows(code, info, width - 2 * padded)
        rows = prefixed(rows, padding, padding)
        return rows if is_continued else [_code_head(info, width), *rows]


def _code_head(info: str, width: int) -> Row:
    parts = [("  ⧉ copy", ".code_copy")]
    if info:
        parts.append((f"  {info}", ".code_note"))
    content = Content.assemble(*parts)
    if content.cell_length > width:
        content = folded(content, width - 1)[0] + Content.styled("…", ".code_note")
    return Row(content=content, unsaid=len(content.plain), kind="code_head", style=".code")


@lru_cache(maxsize=64)
def _code_rows(code: str, info: str, width: int) -> Sequence[Row]:
    """Colour some lines. Kept, since code inside a list or a quote is laid out anew with each word."""
    return [
        Row(content=piece, joins="" if place else None, kind="code", style=".code")
        for line in _highlighted(code, info).split("\n", allow_blank=True)
        for place, piece in enumerate(folded(line, width))
    ]


def _highlighted(code: str, info: str) -> Content:
    language = info.split()[0] if info else ""
    if not language:
        return Content(code)
    from textual.highlight import highlight

    coloured = highlight(code, language=language)
    # It leaves out blank lines at the end, and reads other characters as ends of lines.
    return coloured if coloured.plain == code else Content(code)


def _inline(block: SyntaxTreeNode) -> Content:
    tokens = [token for token in block.to_tokens() if token.type == "inline"]
    return Content("\n").join([_inline_content(token.children or []) for token in tokens])


def _inline_content(tokens: Sequence[Token]) -> Content:
    texts: list[str] = []
    spans: list[Span] = []
    opened: list[tuple[str, int]] = []
    position = 0
    for token in tokens:
        kind = token.type.removesuffix("_open").removesuffix("_close")
        if token.nesting == 1:
            opened.append((_STYLES.get(kind, ""), position))
            continue
        if token.nesting == -1:
            style, start = opened.pop()
            spans.append(Span(start, position, style))
            continue
        text = {"softbreak": " ", "hardbreak": "\n"}.get(token.type, token.content)
        if token.type == "code_inline":
            spans.append(Span(position, position + len(text), ".code_inline"))
        texts.append(text)
        position += len(text)
    return Content("".join(texts), spans=spans)
