"""Pictures of text: the process outside runs the recognition, this one only hands over pixels."""

from __future__ import annotations

import re

from appliance.documents.builder import DocumentBuilder
from appliance.documents.readers.source import Source
from appliance.documents.versions import reader_label

_BLANK_LINES = re.compile(r"\n\s*\n")


def read_picture(source: Source, builder: DocumentBuilder) -> str:
    """Read a picture file as one page."""
    builder.page_count += 1
    builder.begin_segment("page", str(builder.page_count), number=builder.page_count, origin="ocr")
    if not source.host.has_ocr:
        builder.has_unread_pictures = True
        builder.pages_without_text.append(builder.page_count)
        return reader_label("picture")
    text = source.host.recognise(bytes(source.data))
    if not append_recognised(builder, text):
        builder.pages_without_text.append(builder.page_count)
    return f"{reader_label('picture')} tesseract"


def append_recognised(builder: DocumentBuilder, text: str) -> bool:
    """Append recognised text as paragraphs; say whether there was any."""
    paragraphs = [piece.strip() for piece in _BLANK_LINES.split(text.replace("\f", "\n")) if piece.strip()]
    for paragraph in paragraphs:
        builder.paragraph(paragraph)
    if paragraphs:
        builder.notice("ocr_text", "text recognised in pictures may hold errors")
    return bool(paragraphs)
