"""XML parts as a small tree: no entities, no document types, no network, bounded in depth and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from appliance.documents.limits import Limits
from appliance.documents.reasons import RefusalError

__all__ = ["Element", "attribute", "children", "descendants", "find", "parse_xml"]

# Transitional and strict Office namespaces share one prefix here.
_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main": "s",
    "http://purl.oclc.org/ooxml/spreadsheetml/main": "s",
    "http://schemas.openxmlformats.org/presentationml/2006/main": "p",
    "http://purl.oclc.org/ooxml/presentationml/main": "p",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a",
    "http://purl.oclc.org/ooxml/drawingml/main": "a",
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships": "r",
    "http://purl.oclc.org/ooxml/officeDocument/relationships": "r",
    "http://schemas.openxmlformats.org/package/2006/relationships": "rel",
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc",
    "http://schemas.openxmlformats.org/package/2006/metadata/core-properties": "cp",
    "http://schemas.openxmlformats.org/officeDocument/2006/math": "m",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "http://www.idpf.org/2007/opf": "opf",
    "urn:oasis:names:tc:opendocument:xmlns:container": "ocf",
    "http://www.w3.org/2001/04/xmlenc#": "enc",
    "http://www.w3.org/XML/1998/namespace": "xml",
}


def parse_xml(data: bytes, limits: Limits, *, allows_doctype: bool = False) -> Element:
    """Parse a part. Tags and attributes are `prefix:name` for known namespaces, else the bare name.

    Raises:
        RefusalError: it is damaged, declares entities, or is nested beyond the limit.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    tree = _Tree(limits)
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.data
    parser.EntityDeclHandler = _refuse_entity
    if not allows_doctype:
        parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as exc:
        raise RefusalError("damaged", f"its XML is damaged: {exc}") from exc
    except ValueError as exc:
        raise RefusalError("damaged", f"its XML cannot be decoded: {exc}") from exc
    return tree.root()


def find(element: Element | None, *path: str) -> Element | None:
    """The first element down a path of tags."""
    for tag in path:
        if element is None:
            return None
        element = next((child for child in element if child.tag == tag), None)
    return element


def children(element: Element | None, tag: str) -> Iterator[Element]:
    """The direct children with a tag."""
    return (child for child in (element if element is not None else ()) if child.tag == tag)


def descendants(element: Element | None, tag: str) -> Iterator[Element]:
    """Every element below with a tag, in document order."""
    return element.iter(tag) if element is not None else iter(())


def attribute(element: Element | None, name: str, default: str = "") -> str:
    """An attribute's value, or the default."""
    return element.get(name, default) if element is not None else default


class _Tree:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._builder = TreeBuilder()
        self._depth = 0
        self._nodes = 0
        self._names: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._nodes += 1
        if self._depth > self._limits.xml_depth:
            raise RefusalError("too_deep", f"its XML is nested more than {self._limits.xml_depth} deep")
        if self._nodes > self._limits.xml_nodes:
            raise RefusalError("too_large", f"its XML has more than {self._limits.xml_nodes:,} elements")
        if attributes:
            attributes = {self._name(key): value for key, value in attributes.items()}
        self._builder.start(self._name(name), attributes)

    def end(self, name: str) -> None:
        self._depth -= 1
        self._builder.end(self._name(name))

    def data(self, text: str) -> None:
        self._builder.data(text)

    def root(self) -> Element:
        return self._builder.close()

    def _name(self, name: str) -> str:
        short = self._names.get(name)
        if short is None:
            namespace, _, local = name.rpartition(" ")
            prefix = _PREFIXES.get(namespace)
            short = self._names[name] = f"{prefix}:{local}" if prefix else local
        return short


def _refuse_entity(*_: object) -> None:
    raise RefusalError("forbidden_content", "its XML declares entities")


def _refuse_doctype(*_: object) -> None:
    raise RefusalError("forbidden_content", "its XML declares a document type")
