"""What Office files share: parts bound by relationships, core properties, and the lock of a password."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace

from appliance.documents.archive import Archive, resolve
from appliance.documents.builder import DocumentBuilder
from appliance.documents.dates import parse_date
from appliance.documents.readers.source import Source
from appliance.documents.reasons import RefusalError
from appliance.documents.xml import attribute, children, find, parse_xml

# Excel's read-only protection encrypts with this well-known password.
_READ_ONLY_KEY = "VelvetSweatshop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A link from one part to another; `kind` is the last word of its type."""

    id: str
    kind: str
    target: str


def relations(archive: Archive, part: str, builder: DocumentBuilder) -> dict[str, Relation]:
    """The relations of a part by id. What points outside the file is noted and never followed."""
    folder, _, name = part.rpartition("/")
    listing = f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels"
    if listing not in archive:
        return {}
    found: dict[str, Relation] = {}
    for item in children(parse_xml(archive.read(listing), builder.limits), "rel:Relationship"):
        kind = attribute(item, "Type").rsplit("/", 1)[-1]
        if attribute(item, "TargetMode") == "External":
            if kind != "hyperlink":
                builder.notice("external_reference", f"it refers to an outside {kind}; nothing was fetched")
            continue
        target = resolve(part, attribute(item, "Target"))
        found[attribute(item, "Id")] = Relation(id=attribute(item, "Id"), kind=kind, target=target)
    return found


def related(parts: dict[str, Relation], kind: str) -> Iterator[str]:
    """The targets of one kind."""
    return (relation.target for relation in parts.values() if relation.kind == kind)


def main_part(archive: Archive, builder: DocumentBuilder, usual: str) -> str:
    """The part the document starts from."""
    named = next(related(relations(archive, "", builder), "officeDocument"), usual)
    return named if named in archive else usual


def note_properties(archive: Archive, builder: DocumentBuilder) -> None:
    """Take title, author and dates over from the core properties, and say when macros were left out."""
    if any(name.endswith("vbaproject.bin") for name in archive.names):
        builder.notice("macros_ignored", "it holds macros; they were neither run nor read")
    if "docProps/core.xml" not in archive:
        return
    try:
        core = parse_xml(archive.read("docProps/core.xml"), builder.limits)
    except RefusalError as exc:
        builder.notice("damaged_part", f"its properties cannot be read: {exc.message}")
        return

    def text(tag: str) -> str:
        element = find(core, tag)
        return " ".join((element.text or "").split())[:500] if element is not None else ""

    builder.metadata = replace(
        builder.metadata,
        title=text("dc:title"),
        author=text("dc:creator"),
        subject=text("dc:subject"),
        language=text("dc:language"),
        created=parse_date(text("dcterms:created")),
        modified=parse_date(text("dcterms:modified")),
    )


def unlock(source: Source) -> Source:
    """Decrypt a password-protected Office file.

    Raises:
        RefusalError: there is no password, or it is wrong, or the lock is of an unknown kind.
    """
    import msoffcrypto
    from msoffcrypto.exceptions import DecryptionError, FileFormatError, InvalidKeyError, ParseError

    opened = io.BytesIO()
    try:
        locked = msoffcrypto.OfficeFile(io.BytesIO(source.data))
        locked.load_key(password=source.password or _READ_ONLY_KEY, verify_password=True)
        locked.decrypt(opened)
    except (InvalidKeyError, DecryptionError) as exc:
        if source.password:
            raise RefusalError("wrong_password", "the password does not open it") from exc
        raise RefusalError("encrypted", "it is protected by a password") from exc
    except (FileFormatError, ParseError, ValueError, KeyError, OSError) as exc:
        raise RefusalError("encrypted", f"it is encrypted in a way that cannot be opened: {exc}") from exc
    return replace(source, data=opened.getvalue(), password=None)
