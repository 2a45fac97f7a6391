"""The lines of a PDF page with their places, sizes and gaps, from PDFium."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from itertools import pairwise

import pypdfium2.raw as pdfium

from appliance.documents.model import HiddenCause
from appliance.documents.readers.pdf_hidden import Bounds, hidden_characters

# PDFium writes this for a hyphen that only parts a word at the end of a line.
SOFT_HYPHENS = ("\x02", "\ufffe")
_TINY_POINTS = 1.0
_BOLD_WEIGHT = 600
# A gap wider than this many character heights parts two cells.
_CELL_GAP = 1.1
_MAX_RECTANGLES = 60


@dataclass(slots=True, kw_only=True)
class Line:
    """One line of a page; `size` is the height of its characters, `cells` its text cut at wide gaps."""

    text: str
    left: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    top: float = 0.0
    size: float = 0.0
    is_bold: bool = False
    cells: list[str] = field(default_factory=list)
    lefts: list[float] = field(default_factory=list)
    rights: list[float] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class PageText:
    """What a page says: lines a reader sees, and text a reader does not see."""

    lines: list[Line]
    hidden: dict[HiddenCause, str]
    is_ocr_layer: bool = False


def page_text(page: pdfium.FPDF_PAGE, text_page: pdfium.FPDF_TEXTPAGE, bounds: Bounds) -> PageText:
    """Read the lines of a page."""
    raw = _raw_text(text_page)
    concealed = hidden_characters(page, text_page)
    hidden: dict[HiddenCause, list[str]] = {}
    lines: list[Line] = []
    position = 0
    for piece in raw.split("\r\n"):
        start, position = position, position + len(piece) + 2
        if not piece.strip():
            continue
        if concealed.characters:
            piece = _without_hidden(piece, start, text_page, concealed.characters, hidden)
            if not piece.strip():
                continue
        line = _measure(piece, start, text_page)
        cause = _misplaced(line, bounds)
        if cause is None:
            lines.append(line)
        else:
            hidden.setdefault(cause, []).append(piece + "\n")
    return PageText(
        lines=lines,
        hidden={cause: "".join(pieces) for cause, pieces in hidden.items()},
        is_ocr_layer=concealed.is_ocr_layer,
    )


def _raw_text(text_page: pdfium.FPDF_TEXTPAGE) -> str:
    """The page's text in UTF-16 units, one character each, so that indices agree with PDFium's."""
    count = pdfium.FPDFText_CountChars(text_page)
    if count <= 0:
        return ""
    # Characters that PDFium adds, such as line ends, count here too; two units each is the worst case.
    buffer = (ctypes.c_ushort * (2 * count + 2))()
    written = pdfium.FPDFText_GetText(text_page, 0, count, buffer)
    return (
        bytes(memoryview(buffer)[: max(0, written - 1)])
        .decode("utf-16-le", "surrogatepass")
        .replace("\x00", " ")
        if written
        else ""
    )


def _without_hidden(
    piece: str,
    start: int,
    text_page: pdfium.FPDF_TEXTPAGE,
    concealed: dict[int, HiddenCause],
    hidden: dict[HiddenCause, list[str]],
) -> str:
    first = pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, start)
    # Indices of characters and of text drift apart by a few; a margin keeps the quick test safe.
    around = range(first - len(piece), first + 2 * len(piece))
    if first >= 0 and not any(index in concealed for index in around):
        return piece
    visible: list[str] = []
    before: HiddenCause | None = None
    for index, character in enumerate(piece, start=start):
        cause = concealed.get(pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, index))
        # Spaces that PDFium adds belong to no text object: they go with the word before them.
        cause = before if character == " " and cause is None else cause
        if cause is None:
            visible.append(" " + character if before and visible else character)
        else:
            hidden.setdefault(cause, []).append(character)
        before = cause
    for pieces in hidden.values():
        pieces.append("\n")
    return "".join(visible)


def _measure(piece: str, start: int, text_page: pdfium.FPDF_TEXTPAGE) -> Line:
    lead = len(piece) - len(piece.lstrip())
    first = pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, start + lead)
    last = pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, start + len(piece.rstrip()) - 1)
    line = Line(text=piece.strip())
    if first < 0:
        return line
    last = max(first, last)
    box = pdfium.FS_RECTF()
    if pdfium.FPDFText_GetLooseCharBox(text_page, first, box):
        line.left, line.top, line.bottom = box.left, box.top, box.bottom
        line.size = abs(box.top - box.bottom)
    if pdfium.FPDFText_GetLooseCharBox(text_page, last, box):
        line.right = box.right
    weights = (pdfium.FPDFText_GetFontWeight(text_page, index) for index in (first, last))
    line.is_bold = min(weights) >= _BOLD_WEIGHT
    _cut_cells(line, piece, start, first, last, text_page)
    return line


def _cut_cells(
    line: Line, piece: str, start: int, first: int, last: int, text_page: pdfium.FPDF_TEXTPAGE
) -> None:
    count = pdfium.FPDFText_CountRects(text_page, first, last - first + 1)
    line.cells, line.lefts, line.rights = [line.text], [line.left], [line.right]
    if not 1 < count <= _MAX_RECTANGLES or line.size <= 0:
        return
    rectangles = sorted(_rectangle(text_page, index) for index in range(count))
    cuts: list[int] = []
    lefts, rights = [rectangles[0][0]], [rectangles[0][2]]
    for left, top, right, bottom in rectangles[1:]:
        if left - rights[-1] > _CELL_GAP * line.size:
            cut = _text_index(text_page, left, (top + bottom) / 2, line.size) - start
            if 0 < cut < len(piece) and (not cuts or cut > cuts[-1]):
                cuts.append(cut)
                lefts.append(left)
                rights.append(right)
                continue
        rights[-1] = max(rights[-1], right)
    edges = [0, *cuts, len(piece)]
    cells = [piece[one:other].strip() for one, other in pairwise(edges)]
    if all(cells):
        line.cells, line.lefts, line.rights = cells, lefts, rights


def _rectangle(text_page: pdfium.FPDF_TEXTPAGE, index: int) -> tuple[float, float, float, float]:
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    pdfium.FPDFText_GetRect(text_page, index, left, top, right, bottom)
    return left.value, top.value, right.value, bottom.value


def _text_index(text_page: pdfium.FPDF_TEXTPAGE, left: float, middle: float, size: float) -> int:
    found = pdfium.FPDFText_GetCharIndexAtPos(text_page, left + 0.1, middle, size / 2, size / 2)
    return int(pdfium.FPDFText_GetTextIndexFromCharIndex(text_page, found)) if found >= 0 else -1


def _misplaced(line: Line, bounds: Bounds) -> HiddenCause | None:
    if 0 < line.size < _TINY_POINTS:
        return "tiny_text"
    left, bottom, right, top = bounds
    is_outside = line.right < left or line.left > right or line.top < bottom or line.bottom > top
    return "off_page" if is_outside and line.size > 0 else None
