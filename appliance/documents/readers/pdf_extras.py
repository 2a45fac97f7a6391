"""What a PDF holds besides its pages' text: outline, form fields, comments, attached files, properties."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pypdfium2
import pypdfium2.raw as pdfium

from appliance.documents.builder import DocumentBuilder
from appliance.documents.dates import parse_pdf_date
from appliance.documents.model import Metadata
from appliance.documents.readers.attachments import ReadAttached, attach
from appliance.documents.readers.pdf_layout import normal
from appliance.documents.readers.source import Source

_MAX_OUTLINE = 20_000
_MAX_ANNOTATIONS = 5_000
_COPY_PERMISSION = 1 << 4
_FREE_TEXT, _STICKY_NOTE, _WIDGET = 3, 1, 20
_MARKS = (9, 10, 11, 12)
_UNCHECKED = ("Off", "")


def read_outline(document: pypdfium2.PdfDocument) -> dict[int, dict[str, int]]:
    """Titles of the outline by page, with their level."""
    found: dict[int, dict[str, int]] = {}
    for count, bookmark in enumerate(document.get_toc(max_depth=6)):
        if count >= _MAX_OUTLINE:
            break
        target = bookmark.get_dest()
        page = target.get_index() if target is not None else None
        title = normal(bookmark.get_title() or "")
        if page is not None and title:
            found.setdefault(page, {})[title] = min(6, bookmark.level + 1)
    return found


def read_properties(document: pypdfium2.PdfDocument) -> Metadata:
    """Title, author and dates."""
    values = {key: " ".join(value.split())[:500] for key, value in document.get_metadata_dict().items()}
    return Metadata(
        title=values.get("Title", ""),
        author=values.get("Author", ""),
        subject=values.get("Subject", ""),
        created=parse_pdf_date(values.get("CreationDate", "")),
        modified=parse_pdf_date(values.get("ModDate", "")),
    )


def note_restrictions(document: pypdfium2.PdfDocument, builder: DocumentBuilder) -> None:
    """Say when the owner of the file asked that its text is not copied."""
    is_protected = pdfium.FPDF_GetSecurityHandlerRevision(document) >= 0
    if is_protected and not pdfium.FPDF_GetDocPermissions(document) & _COPY_PERMISSION:
        builder.notice("copying_restricted", "its author asks readers not to copy text from it")


def append_annotations(
    page: pypdfium2.PdfPage, document: pypdfium2.PdfDocument, builder: DocumentBuilder
) -> None:
    """Append filled form fields, and comments as hidden text."""
    form = document.formenv
    for annotation in _annotations(page):
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        if kind == _WIDGET and form is not None:
            name = _string(pdfium.FPDFAnnot_GetFormFieldName, form, annotation)
            value = _string(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation)
            if value.strip() not in _UNCHECKED:
                builder.paragraph(f"{name}: {value}" if name else value)
        elif kind in (_FREE_TEXT, _STICKY_NOTE, *_MARKS):
            text = _string(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents")
            builder.paragraph(text, None if kind == _FREE_TEXT else "comment")


def append_attachments(
    document: pypdfium2.PdfDocument, source: Source, builder: DocumentBuilder, read: ReadAttached
) -> None:
    """Read or list the files attached to a PDF."""
    for index in range(document.count_attachments()):
        attached = document.get_attachment(index)
        name = attached.get_name() or "unnamed"
        try:
            data = bytes(attached.get_data())
        except pypdfium2.PdfiumError:
            builder.notice("attachment_not_read", f"{name}: its data is missing")
            continue
        attach(source, name, data, "application/octet-stream", builder, read)


def _annotations(page: pypdfium2.PdfPage) -> Iterator[pdfium.FPDF_ANNOTATION]:
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)
        if annotation:
            yield annotation
            pdfium.FPDFPage_CloseAnnot(annotation)


def _string(get: pdfium.FPDF_DOCUMENT, *arguments: object) -> str:
    """Call a PDFium function that fills a buffer with UTF-16."""
    length = get(*arguments, None, 0)
    if not 2 < length < (1 << 24):
        return ""
    buffer = ctypes.create_string_buffer(length)
    get(*arguments, ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), length)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace")
