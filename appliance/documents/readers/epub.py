"""EPUB: the chapters of the spine in reading order, each a section."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

from appliance.documents.archive import Archive, resolve
from appliance.documents.builder import DocumentBuilder, clean
from appliance.documents.dates import parse_date
from appliance.documents.encoding import decode
from appliance.documents.readers.html import append_html
from appliance.documents.readers.source import Source
from appliance.documents.reasons import RefusalError
from appliance.documents.versions import reader_label
from appliance.documents.xml import Element, attribute, children, descendants, find, parse_xml

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONT_OBFUSCATION = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_CHAPTER_TYPES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")


def read_epub(source: Source, archive: Archive, builder: DocumentBuilder) -> str:
    """Read a book.

    Raises:
        RefusalError: a publisher's key protects it, or its table of parts is damaged.
    """
    _refuse_locked(archive, builder)
    container = parse_xml(archive.read(_CONTAINER), builder.limits)
    root_file = next(descendants(container, "ocf:rootfile"), None)
    package_name = attribute(root_file, "full-path")
    package = parse_xml(archive.read(package_name), builder.limits, allows_doctype=True)
    if not source.depth:
        _note_metadata(package, builder)
    names = _spine(package, package_name)
    missing = [name for name in names if name not in archive]
    for number, name in enumerate(names, start=1):
        if name in archive:
            _append_chapter(archive.read(name), name, number, builder)
        source.host.report_progress(number, len(names))
    if missing:
        builder.notice("damaged_part", f"{len(missing)} of {len(names)} chapters are missing from the file")
    return reader_label("epub")


def _refuse_locked(archive: Archive, builder: DocumentBuilder) -> None:
    if "META-INF/rights.xml" in archive or "META-INF/license.lcpl" in archive:
        raise RefusalError("rights_managed", "a publisher's key protects this book")
    if _ENCRYPTION not in archive:
        return
    listing = parse_xml(archive.read(_ENCRYPTION), builder.limits)
    methods = {attribute(method, "Algorithm") for method in descendants(listing, "enc:EncryptionMethod")}
    if methods - set(_FONT_OBFUSCATION):
        raise RefusalError("rights_managed", "the chapters of this book are encrypted")


def _spine(package: Element, package_name: str) -> list[str]:
    items = {
        attribute(item, "id"): item
        for item in descendants(package, "opf:item")
        if attribute(item, "media-type") in _CHAPTER_TYPES
    }
    order = [attribute(reference, "idref") for reference in descendants(package, "opf:itemref")]
    chosen = [items[name] for name in order if name in items] or list(items.values())
    return [resolve(package_name, unquote(attribute(item, "href"))) for item in chosen]


def _append_chapter(data: bytes, name: str, number: int, builder: DocumentBuilder) -> None:
    builder.begin_segment("section", name.rsplit("/", 1)[-1], number=number)
    facts = append_html(clean(decode(data).text), builder, is_xhtml=True)
    title = facts.first_heading or facts.title
    if title:
        builder.relabel_segment(title)


def _note_metadata(package: Element, builder: DocumentBuilder) -> None:
    metadata = find(package, "opf:metadata")
    texts = {
        tag: " ".join("".join(element.itertext()).split())
        for tag in ("dc:title", "dc:creator", "dc:language", "dc:subject", "dc:date")
        for element in list(children(metadata, tag))[:1]
    }
    builder.metadata = replace(
        builder.metadata,
        title=texts.get("dc:title", ""),
        author=texts.get("dc:creator", ""),
        language=texts.get("dc:language", ""),
        subject=texts.get("dc:subject", ""),
        created=parse_date(texts.get("dc:date", "")),
    )
