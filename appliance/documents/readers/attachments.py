"""Files inside files: read when a reader takes them, listed always, never deeper than the limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

from appliance.documents.builder import DocumentBuilder, clean
from appliance.documents.media import Media
from appliance.documents.model import Attachment
from appliance.documents.readers.source import Source
from appliance.documents.reasons import RefusalError

ReadAttached = Callable[[Source, DocumentBuilder], Media]
_MAX_ATTACHMENTS = 2_000


def base_name(name: str) -> str:
    """The last part of a name, whichever way its folders are parted; never empty, never a path."""
    last = PurePosixPath(clean(name).replace("\\", "/")).name
    return "".join(character for character in last if character.isprintable())[:200] or "unnamed"


def attach(
    outer: Source, name: str, data: bytes, declared_type: str, builder: DocumentBuilder, read: ReadAttached
) -> None:
    """Append the text of an inner file, or list it with the reason why not."""
    if len(builder.attachments) >= _MAX_ATTACHMENTS:
        raise RefusalError("too_deep", f"it carries more than {_MAX_ATTACHMENTS:,} files")
    name = base_name(name)
    before = builder.length
    try:
        media_type = _read(outer, name, data, builder, read)
    except RefusalError as exc:
        if exc.reason in ("too_much_text", "archive_bomb"):
            raise
        reason: str = exc.reason
        builder.notice("attachment_not_read", f"{name}: {exc.message}")
        media_type = declared_type
    else:
        reason = "" if builder.length > before else "no_text"
    builder.attachments.append(
        Attachment(
            name=name, media_type=media_type[:100], size_bytes=len(data), is_read=not reason, reason=reason
        )
    )


def _read(outer: Source, name: str, data: bytes, builder: DocumentBuilder, read: ReadAttached) -> str:
    if outer.depth >= builder.limits.attachment_depth:
        raise RefusalError("too_deep", f"it stands more than {builder.limits.attachment_depth} files deep")
    if not data:
        raise RefusalError("empty", "it is empty")
    prefix, builder.prefix = builder.prefix, f"{builder.prefix} · {name}".removeprefix(" · ")
    inner = replace(outer, data=data, name=name, depth=outer.depth + 1, encoding_label="")
    try:
        return read(inner, builder).media_type
    finally:
        builder.prefix = prefix
