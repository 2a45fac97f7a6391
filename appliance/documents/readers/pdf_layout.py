"""Lines of a PDF page to headings, paragraphs, lists and tables, by what their places and sizes show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from appliance.documents.builder import DocumentBuilder
from appliance.documents.readers.delimited import looks_like_header
from appliance.documents.readers.pdf_lines import SOFT_HYPHENS, Line
from appliance.documents.readers.pdf_tables import find_tables, table_rows

_HEADING_RATIO = 1.15
_MAX_HEADING_CHARS = 200
_MAX_BOLD_WORDS = 14
_BULLET = re.compile(r"(?:[•●○▪■◦‣∙·–—*-]|\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)])\s+\S")
# A page number stands at an end of its line; numbers inside a line tell two lines apart.
_PAGE_NUMBER = re.compile(r"^\d+\b|\b\d+$")
_YEAR = re.compile(r"(?:19|20)\d\d")
_MAX_LEVELS = 5


@dataclass(slots=True, kw_only=True)
class Style:
    """What is usual in a document: the size of running text, the sizes of headings, the running lines."""

    body_size: float = 0.0
    heading_sizes: list[float] = field(default_factory=list)
    running_lines: frozenset[str] = frozenset()
    outline: dict[int, dict[str, int]] = field(default_factory=dict)


def learn_style(pages: Sequence[Sequence[Line]], outline: dict[int, dict[str, int]]) -> Style:
    """Learn the style of a document from some of its pages."""
    weights: Counter[float] = Counter()
    for line in (line for page in pages for line in page):
        weights[_rounded(line.size)] += len(line.text)
    if not weights:
        return Style(outline=outline)
    body = weights.most_common(1)[0][0]
    larger = sorted((size for size in weights if size > _HEADING_RATIO * body), reverse=True)
    return Style(
        body_size=body,
        heading_sizes=_merged(larger)[:_MAX_LEVELS],
        running_lines=_running_lines(pages),
        outline=outline,
    )


def append_page(lines: Sequence[Line], style: Style, page: int, builder: DocumentBuilder) -> None:
    """Append the blocks of one page."""
    titles = style.outline.get(page, {})
    position = 0
    tables = find_tables(lines)
    if all(_is_running(lines, index, style) for index in range(len(lines))):
        style = replace(style, running_lines=frozenset())
    while position < len(lines):
        if position in tables:
            end = tables[position]
            _append_table(lines[position:end], builder)
        elif _is_running(lines, position, style):
            builder.furniture(lines[position].text)
            end = position + 1
        else:
            end = _append_text(lines, position, tables, titles, style, builder)
        position = end


def _append_text(
    lines: Sequence[Line],
    start: int,
    tables: dict[int, int],
    titles: dict[str, int],
    style: Style,
    builder: DocumentBuilder,
) -> int:
    level = _heading_level(lines, start, titles, style)
    end = start + 1
    while end < len(lines) and end not in tables and not _is_running(lines, end, style):
        if _starts_block(lines, end, level, titles, style):
            break
        end += 1
    text = joined(lines[start:end])
    if level and len(text) <= _MAX_HEADING_CHARS:
        builder.heading(text, level)
    elif _BULLET.match(lines[start].text):
        builder.list_item(text)
    else:
        builder.paragraph(text)
    return end


def joined(lines: Sequence[Line]) -> str:
    """The text of lines that run on; a line that stops early keeps its end, a parted word is made whole."""
    right = max(line.right for line in lines)
    pieces: list[str] = []
    for index, line in enumerate(lines):
        text = line.text
        is_last = index + 1 == len(lines)
        if text.endswith(SOFT_HYPHENS):
            follows = lines[index + 1].text[:1] if not is_last else ""
            pieces.append(text[:-1] if follows.islower() else text[:-1] + "-")
            continue
        is_short = line.right < right - 0.25 * max(1.0, right - line.left)
        pieces.append(text if is_last else text + ("\n" if is_short else " "))
    return "".join(pieces).replace("\x02", "-").replace("\ufffe", "-")


def _starts_block(
    lines: Sequence[Line], index: int, level: int, titles: dict[str, int], style: Style
) -> bool:
    line, before = lines[index], lines[index - 1]
    if _heading_level(lines, index, titles, style) != level or _BULLET.match(line.text):
        return True
    if line.top > before.top + before.size or abs(line.size - before.size) > 0.2 * max(
        line.size, before.size
    ):
        return True
    gap = before.bottom - line.top
    return gap > 0.45 * line.size or gap < -2 * line.size


def _heading_level(lines: Sequence[Line], index: int, titles: dict[str, int], style: Style) -> int:
    line = lines[index]
    if len(line.text) > _MAX_HEADING_CHARS or sum(map(str.isalpha, line.text)) < 2:
        return 0
    from_outline = titles.get(normal(line.text), 0)
    if from_outline:
        return from_outline
    if style.body_size and line.size > _HEADING_RATIO * style.body_size:
        return 1 + sum(size > line.size * 1.04 for size in style.heading_sizes)
    return len(style.heading_sizes) + 1 if _is_bold_heading(lines, index) else 0


def _is_bold_heading(lines: Sequence[Line], index: int) -> bool:
    line = lines[index]
    is_alone = (index == 0 or not lines[index - 1].is_bold) and (
        index + 1 < len(lines) and not lines[index + 1].is_bold
    )
    if not line.is_bold or not is_alone or len(line.cells) > 1:
        return False
    is_short = len(line.text.split()) <= _MAX_BOLD_WORDS
    has_room = index == 0 or lines[index - 1].bottom - line.top > 0.25 * line.size
    return is_short and has_room and not line.text.endswith((".", ",", ";"))


def _append_table(lines: Sequence[Line], builder: DocumentBuilder) -> None:
    rows = table_rows(lines)
    numbers = [cell for cell in rows[0] if cell and cell[0].isdigit()]
    has_header = looks_like_header([[cell for cell in rows[0] if cell], rows[-1]]) and len(rows) > 1
    has_years = bool(numbers) and all(_YEAR.fullmatch(number) for number in numbers)
    builder.table(rows, header_rows=int(has_header or has_years))


def _is_running(lines: Sequence[Line], index: int, style: Style) -> bool:
    if 3 <= index < len(lines) - 3 or not style.running_lines:
        return False
    return _running_key(lines[index].text) in style.running_lines


def _running_lines(pages: Sequence[Sequence[Line]]) -> frozenset[str]:
    """Lines at the top or foot of at least half of the pages, page numbers left out of the comparison."""
    counts = Counter(key for page in pages for key in {_running_key(line.text) for line in _edges(page)})
    needed = max(3, len(pages) / 2)
    return frozenset(key for key, count in counts.items() if count >= needed and key)


def _edges(page: Sequence[Line]) -> Iterable[Line]:
    return [*page[:3], *page[3:][-3:]]


def _running_key(text: str) -> str:
    return _PAGE_NUMBER.sub("#", normal(text))


def normal(text: str) -> str:
    """Text as it is compared: letters in lower case, white space single."""
    return " ".join(text.lower().split())


def _rounded(size: float) -> float:
    return round(size * 2) / 2


def _merged(sizes: list[float]) -> list[float]:
    """Sizes that the eye takes for one count once."""
    found: list[float] = []
    for size in sizes:
        if not found or size < found[-1] * 0.94:
            found.append(size)
    return found
