"""Reads bytes with the readers themselves, in this process, into a checked document."""

from __future__ import annotations

from collections.abc import Callable

from appliance.documents.builder import DocumentBuilder
from appliance.documents.limits import Limits
from appliance.documents.model import Block, ParsedDocument, check_document
from appliance.documents.readers.dispatch import read_document
from appliance.documents.readers.source import Host, Source


def read(
    data: bytes,
    name: str,
    limits: Limits | None = None,
    *,
    password: str | None = None,
    recognise: Callable[[bytes], str] | None = None,
) -> ParsedDocument:
    """Read a file given as bytes."""
    builder = DocumentBuilder(limits or Limits())
    host = Host(
        has_ocr=recognise is not None,
        report_progress=lambda _done, _total: None,
        recognise=recognise or (lambda _picture: ""),
    )
    media_type, parser = read_document(Source(data=data, name=name, password=password, host=host), builder)
    document = ParsedDocument(
        name=name,
        media_type=media_type,
        sha256="",
        size_bytes=len(data),
        parser=parser,
        text=builder.text,
        segments=builder.finished_segments(),
        blocks=tuple(builder.blocks),
        encoding=builder.encoding,
        metadata=builder.metadata,
        page_count=builder.page_count,
        pages_without_text=tuple(builder.pages_without_text),
        attachments=tuple(builder.attachments),
        notices=tuple(builder.notices),
    )
    check_document(document)
    return document


def outline(document: ParsedDocument) -> list[tuple[str, str]]:
    """Kind and text of each block."""
    return [(block.kind, document.text_of(block)) for block in document.blocks]


def only(document: ParsedDocument, kind: str) -> Block:
    """The one block of a kind."""
    found = [block for block in document.blocks if block.kind == kind]
    assert len(found) == 1
    return found[0]
