"""PDF: the text of each page by PDFium, its layout, what is hidden in it, and scanned pages recognised."""

from __future__ import annotations

import ctypes
import stringprep
import unicodedata
from collections.abc import Iterator, Sequence

import pypdfium2
import pypdfium2.raw as pdfium

from appliance.documents.builder import DocumentBuilder
from appliance.documents.readers.attachments import ReadAttached
from appliance.documents.readers.ocr import append_recognised
from appliance.documents.readers.pdf_extras import (
    append_annotations,
    append_attachments,
    note_restrictions,
    read_outline,
    read_properties,
)
from appliance.documents.readers.pdf_hidden import is_picture_page, largest_picture
from appliance.documents.readers.pdf_layout import Style, append_page, learn_style
from appliance.documents.readers.pdf_lines import Line, PageText, page_text
from appliance.documents.readers.source import Source
from appliance.documents.reasons import RefusalError
from appliance.documents.versions import pdf_label

_SAMPLE_PAGES = 40
_MAX_PAGES = 100_000
_MAX_BROKEN_PAGES = 200
_PROGRESS_PAGES = 20
_OCR_DOTS_PER_INCH = 220
_MAX_PIXELS = 24_000_000
_MAX_PICTURE_PIXELS = 120_000_000
# A page of which this share has no character behind its glyphs is unreadable as text.
_GARBAGE_SHARE = 0.15


def load_library() -> str:
    """Name the version of PDFium; importing this module has loaded it."""
    return str(pypdfium2.PYPDFIUM_INFO.version)


def read_pdf(source: Source, builder: DocumentBuilder, read: ReadAttached) -> str:
    """Read a PDF."""
    document = _open(source)
    try:
        count = len(document)
        if count > _MAX_PAGES:
            raise RefusalError("too_large", f"it declares {count:,} pages")
        if not source.depth:
            builder.metadata = read_properties(document)
        note_restrictions(document, builder)
        if document.get_formtype():
            document.init_forms()
        _read_pages(document, count, source, builder)
        append_attachments(document, source, builder, read)
    finally:
        document.close()
    return pdf_label(load_library())


def _open(source: Source) -> pypdfium2.PdfDocument:
    data = source.data
    held = data if isinstance(data, bytes) else (ctypes.c_ubyte * len(data)).from_buffer(data)
    is_locked = False
    for password in _spellings(source.password):
        try:
            return pypdfium2.PdfDocument(held, password=password)
        except pypdfium2.PdfiumError as exc:
            is_locked = (
                pdfium.FPDF_GetLastError() == pdfium.FPDF_ERR_PASSWORD or "password" in str(exc).lower()
            )
            if not is_locked:
                raise RefusalError("damaged", f"PDFium cannot open it: {exc}") from exc
    if source.password:
        raise RefusalError("wrong_password", "the password does not open it")
    raise RefusalError("encrypted", "it is protected by a password")


def _spellings(password: str | None) -> Iterator[str | None]:
    """A password as given, and as newer PDF versions prepare it (RFC 4013)."""
    yield password
    if password:
        kept = [character for character in password if not stringprep.in_table_b1(character)]
        spaced = "".join(" " if stringprep.in_table_c12(character) else character for character in kept)
        prepared = unicodedata.normalize("NFKC", spaced)
        if prepared != password:
            yield prepared


def _read_pages(
    document: pypdfium2.PdfDocument, count: int, source: Source, builder: DocumentBuilder
) -> None:
    style = _learn(document, count)
    broken: list[int] = []
    first = builder.page_count
    for index in range(count):
        try:
            page = document[index]
        except pypdfium2.PdfiumError:
            broken.append(index + 1)
            if len(broken) >= _MAX_BROKEN_PAGES:
                break
            continue
        try:
            _read_page(page, index, document, style, source, builder)
        finally:
            page.close()
        is_slow = builder.segments[-1].origin == "ocr"
        if is_slow or index % _PROGRESS_PAGES == _PROGRESS_PAGES - 1:
            source.host.report_progress(index + 1, count)
    builder.page_count = first + count
    source.host.report_progress(count, count)
    if len(broken) == count or len(broken) >= _MAX_BROKEN_PAGES:
        raise RefusalError(
            "damaged", "none of its pages can be loaded" if len(broken) == count else "its pages are damaged"
        )
    if broken:
        builder.pages_without_text.extend(broken)
        builder.notice(
            "damaged_part", f"{len(broken)} of {count} pages cannot be loaded, the first is {broken[0]}"
        )


def _learn(document: pypdfium2.PdfDocument, count: int) -> Style:
    step = max(1, count // _SAMPLE_PAGES)
    pages: list[Sequence[Line]] = []
    for index in range(0, count, step):
        try:
            page = document[index]
        except pypdfium2.PdfiumError:
            continue
        text_page = page.get_textpage()
        pages.append(page_text(page, text_page, page.get_bbox()).lines)
        text_page.close()
        page.close()
    return learn_style(pages, read_outline(document))


def _read_page(
    page: pypdfium2.PdfPage,
    index: int,
    document: pypdfium2.PdfDocument,
    style: Style,
    source: Source,
    builder: DocumentBuilder,
) -> None:
    label = document.get_page_label(index) or str(index + 1)
    builder.begin_segment("page", label, number=index + 1)
    before = builder.length
    text_page = page.get_textpage()
    found = page_text(page, text_page, page.get_bbox())
    text_page.close()
    if _is_garbage(found.lines):
        builder.notice("damaged_part", "on some pages the fonts don't say which characters they show")
        found = PageText(lines=[], hidden=found.hidden)
    if found.is_ocr_layer:
        builder.set_origin("ocr_layer")
        builder.notice("ocr_text", "text recognised in pictures may hold errors")
    if found.lines:
        append_page(found.lines, style, index, builder)
    for cause, text in found.hidden.items():
        builder.paragraph(text, cause)
    append_annotations(page, document, builder)
    if builder.length == before and not _recognise(page, source, builder):
        builder.pages_without_text.append(index + 1)


def _is_garbage(lines: Sequence[Line]) -> bool:
    characters = [character for line in lines for character in line.text if character not in " \x02\ufffe"]
    odd = sum(
        character < " " or "\ue000" <= character <= "\uf8ff" or character == "\ufffd"
        for character in characters
    )
    return len(characters) > 20 and odd > _GARBAGE_SHARE * len(characters)


def _recognise(page: pypdfium2.PdfPage, source: Source, builder: DocumentBuilder) -> bool:
    if not is_picture_page(page):
        return False
    if not source.host.has_ocr or largest_picture(page) > _MAX_PICTURE_PIXELS:
        builder.has_unread_pictures = True
        return False
    width, height = page.get_size()
    scale = min(_OCR_DOTS_PER_INCH / 72, (_MAX_PIXELS / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True, may_draw_forms=False)
    pixels = _packed(bitmap)
    header = f"P5 {bitmap.width} {bitmap.height} 255\n".encode("ascii")
    bitmap.close()
    builder.set_origin("ocr")
    return append_recognised(builder, source.host.recognise(header + pixels))


def _packed(bitmap: pypdfium2.PdfBitmap) -> bytes:
    """Rows of pixels without the padding PDFium puts behind each."""
    raw = bytes(bitmap.buffer)
    if bitmap.stride == bitmap.width:
        return raw
    starts = range(0, bitmap.stride * bitmap.height, bitmap.stride)
    return b"".join(raw[start : start + bitmap.width] for start in starts)
