"""Text of a PDF page that no one sees: invisible, transparent, or white on white."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field

import pypdfium2.raw as pdfium

from appliance.documents.model import HiddenCause

_TEXT, _PATH, _IMAGE, _SHADING, _FORM = 1, 2, 3, 4, 5
_INVISIBLE_MODES = (3, 7)
_WHITE = 250
_MAX_DEPTH = 8
_MAX_OBJECTS = 50_000
# A scanned page with recognised text behind it: the picture covers most of the page.
_SCAN_SHARE = 0.5

Bounds = tuple[float, float, float, float]


@dataclass(slots=True, kw_only=True)
class Concealed:
    """Why characters are hidden, by PDFium's index of them."""

    characters: dict[int, HiddenCause] = field(default_factory=dict)
    is_ocr_layer: bool = False


@dataclass(slots=True, kw_only=True)
class _Survey:
    suspects: dict[int, HiddenCause] = field(default_factory=dict)
    backgrounds: list[Bounds] = field(default_factory=list)
    texts: int = 0
    invisible: int = 0
    image_area: float = 0.0


def hidden_characters(page: pdfium.FPDF_PAGE, text_page: pdfium.FPDF_TEXTPAGE) -> Concealed:
    """Find hidden characters; most pages have none and cost one look at each drawing object."""
    survey = _Survey()
    for item in _objects(page):
        _look_at(item, survey)
    if not survey.suspects:
        return Concealed()
    width, height = pdfium.FPDF_GetPageWidthF(page), pdfium.FPDF_GetPageHeightF(page)
    is_scan = survey.image_area > _SCAN_SHARE * width * height and survey.invisible * 2 > survey.texts
    if is_scan:
        return Concealed(is_ocr_layer=True)
    found = Concealed()
    page_address = _address(text_page.raw)
    for index in range(pdfium.FPDFText_CountChars(text_page)):
        cause = survey.suspects.get(_object_address(page_address, index))
        if cause is not None:
            found.characters[index] = cause
    return found


def is_picture_page(page: pdfium.FPDF_PAGE) -> bool:
    """Whether a page shows anything that text might be recognised in."""
    return next(_objects(page), None) is not None


def largest_picture(page: pdfium.FPDF_PAGE) -> int:
    """Pixels of the largest picture on a page; drawing it costs as much memory."""
    width, height = ctypes.c_uint(), ctypes.c_uint()
    largest = 0
    for item in _objects(page):
        if pdfium.FPDFPageObj_GetType(item) == _IMAGE:
            pdfium.FPDFImageObj_GetImagePixelSize(item, width, height)
            largest = max(largest, width.value * height.value)
    return largest


def _objects(page: pdfium.FPDF_PAGE) -> Iterator[pdfium.FPDF_PAGEOBJECT]:
    count = min(pdfium.FPDFPage_CountObjects(page), _MAX_OBJECTS)
    for index in range(count):
        yield from _with_inner(pdfium.FPDFPage_GetObject(page, index), 0)


def _with_inner(item: pdfium.FPDF_PAGEOBJECT, depth: int) -> Iterator[pdfium.FPDF_PAGEOBJECT]:
    yield item
    if depth < _MAX_DEPTH and pdfium.FPDFPageObj_GetType(item) == _FORM:
        for index in range(min(pdfium.FPDFFormObj_CountObjects(item), _MAX_OBJECTS)):
            yield from _with_inner(pdfium.FPDFFormObj_GetObject(item, index), depth + 1)


def _look_at(item: pdfium.FPDF_PAGEOBJECT, survey: _Survey) -> None:
    kind = pdfium.FPDFPageObj_GetType(item)
    if kind == _TEXT:
        survey.texts += 1
        cause = _text_cause(item, survey.backgrounds)
        if cause is not None:
            survey.suspects[_address(item)] = cause
            survey.invisible += cause == "invisible_text"
    elif kind in (_IMAGE, _SHADING):
        bounds = _bounds(item)
        survey.backgrounds.append(bounds)
        if kind == _IMAGE:
            survey.image_area += (bounds[2] - bounds[0]) * (bounds[3] - bounds[1])
    elif kind == _PATH and _is_coloured_area(item):
        survey.backgrounds.append(_bounds(item))


def _text_cause(item: pdfium.FPDF_PAGEOBJECT, backgrounds: list[Bounds]) -> HiddenCause | None:
    if pdfium.FPDFTextObj_GetTextRenderMode(item) in _INVISIBLE_MODES:
        return "invisible_text"
    red, green, blue, alpha = _fill_colour(item)
    if alpha == 0:
        return "invisible_text"
    if min(red, green, blue) < _WHITE:
        return None
    left, bottom, right, top = _bounds(item)
    middle_x, middle_y = (left + right) / 2, (bottom + top) / 2
    for low_x, low_y, high_x, high_y in backgrounds:
        if low_x <= middle_x <= high_x and low_y <= middle_y <= high_y:
            return None
    return "white_text"


def _is_coloured_area(item: pdfium.FPDF_PAGEOBJECT) -> bool:
    mode, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(item, mode, stroke)
    red, green, blue, alpha = _fill_colour(item)
    return bool(mode.value) and alpha > 0 and min(red, green, blue) < _WHITE


def _fill_colour(item: pdfium.FPDF_PAGEOBJECT) -> tuple[int, int, int, int]:
    parts = tuple(ctypes.c_uint() for _ in range(4))
    if not pdfium.FPDFPageObj_GetFillColor(item, *parts):
        return 0, 0, 0, 255
    red, green, blue, alpha = (part.value for part in parts)
    return red, green, blue, alpha


def _bounds(item: pdfium.FPDF_PAGEOBJECT) -> Bounds:
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    pdfium.FPDFPageObj_GetBounds(item, left, bottom, right, top)
    return left.value, bottom.value, right.value, top.value


# PDFium's function with plain addresses: it is asked for every character, and wrapped pointers are slow.
_object_address = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(
    ctypes.cast(pdfium.FPDFText_GetTextObject, ctypes.c_void_p).value or 0
)


def _address(item: pdfium.FPDF_PAGEOBJECT) -> int:
    return ctypes.cast(item, ctypes.c_void_p).value or 0
