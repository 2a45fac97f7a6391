"""Picks the reader of a file by its content, and judges what came of it: an empty result is no success."""

from __future__ import annotations

from appliance.documents.archive import Archive
from appliance.documents.builder import DocumentBuilder
from appliance.documents.limits import Limits
from appliance.documents.media import Media, is_zip, refuse_unsupported, sniff
from appliance.documents.readers import (
    delimited,
    docx,
    epub,
    html,
    mail,
    markdown,
    ocr,
    opc,
    opendocument,
    pdf,
    pptx,
    rtf,
    text,
    xlsx,
)
from appliance.documents.readers.attachments import attach
from appliance.documents.readers.source import Host, Source
from appliance.documents.reasons import RefusalError

_PLAIN = {
    "html": html.read_html,
    "rtf": rtf.read_rtf,
    "csv": delimited.read_delimited,
    "markdown": markdown.read_markdown,
    "text": text.read_text,
    "picture": ocr.read_picture,
}
_ARCHIVED = {
    "docx": docx.read_docx,
    "pptx": pptx.read_pptx,
    "xlsx": xlsx.read_xlsx,
    "opendocument": opendocument.read_opendocument,
    "epub": epub.read_epub,
}


# What the warm process reads before it forks: imports and compiled patterns are then shared by all workers.
_SAMPLES = {
    "a.md": b"# a\n\n- b\n\n| c | d |\n|---|---|\n| 1 | 2 |\n",
    "a.html": b"<html><h1>a</h1><p style='color:red'>b<ul><li>c</ul><table><tr><td>1<td>2</table>",
    "a.csv": b"name,size\na,1\n",
    "a.py": b"import os\n\ndef a():\n    pass\n",
    "a.eml": b"From: a@b\nTo: c@d\nSubject: =?utf-8?q?e?=\nDate: Mon, 1 Jan 2026 00:00:00 +0000\n\nf\n",
    "a.txt": b"a\n\nb\n",
}


def warm_readers() -> None:
    """Load what readers load late, by reading one harmless sample of each common kind."""
    pdf.load_library()
    host = Host(has_ocr=False, report_progress=lambda _done, _total: None, recognise=lambda _picture: "")
    for name, data in _SAMPLES.items():
        read_document(Source(data=data, name=name, password=None, host=host), DocumentBuilder(Limits()))
    from charset_normalizer import from_bytes

    from_bytes("Zürich".encode("cp1252")).best()


def read_document(source: Source, builder: DocumentBuilder) -> tuple[str, str]:
    """Read a file into the builder and return its media type and the reader's name and version.

    Raises:
        RefusalError: it cannot be read, or holds no text.
    """
    media, reader = _read(source, builder)
    _judge(builder)
    return media.media_type, reader


def read_attached(source: Source, builder: DocumentBuilder) -> Media:
    """Read a file inside a file into the same builder; the caller has begun its segment."""
    return _read(source, builder)[0]


def _read(source: Source, builder: DocumentBuilder) -> tuple[Media, str]:
    archive = Archive(source.data, builder.limits) if is_zip(source.data) else None
    media = sniff(source.data, source.name, archive)
    if media.format == "pdf":
        return media, pdf.read_pdf(source, builder, read_attached)
    if media.format in _PLAIN:
        return media, _PLAIN[media.format](source, builder)
    if media.format in _ARCHIVED and archive is not None:
        reader = _ARCHIVED[media.format](source, archive, builder)
        _attach_embedded(source, archive, builder)
        return media, reader
    if media.format == "code":
        return media, text.read_code(source, builder, media.language)
    if media.format in ("mail", "mbox"):
        return media, mail.read_mail(source, builder, read_attached, is_mailbox=media.format == "mbox")
    if media.format == "locked_office":
        return _read(opc.unlock(source), builder)
    raise refuse_unsupported(media)


def _attach_embedded(source: Source, archive: Archive, builder: DocumentBuilder) -> None:
    for name in archive.names:
        if "/embeddings/" in name:
            attach(source, name, archive.read(name), "application/octet-stream", builder, read_attached)


def _judge(builder: DocumentBuilder) -> None:
    missing = len(builder.pages_without_text)
    if missing:
        builder.notice("pages_without_text", f"{missing} of {builder.page_count} pages have no text")
    hidden = [block for block in builder.blocks if block.hidden is not None]
    if hidden:
        causes = ", ".join(sorted({str(block.hidden) for block in hidden}))
        count = sum(block.end - block.start for block in hidden)
        builder.notice("hidden_text", f"{count} characters are hidden ({causes}) and kept out of search")
    words = builder.text if builder.blocks else ""
    if not any(character.isalnum() for character in words):
        raise _no_text(builder)
    if len(hidden) == len(builder.blocks):
        raise RefusalError("no_text", "all of its text is hidden")


def _no_text(builder: DocumentBuilder) -> RefusalError:
    if builder.has_unread_pictures:
        return RefusalError("needs_ocr", f"none of its {builder.page_count} pages has text, only pictures")
    if builder.page_count:
        return RefusalError("no_text", f"none of its {builder.page_count} pages has text")
    return RefusalError("no_text", "it holds no text")
