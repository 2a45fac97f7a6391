"""Mail: one message or a mailbox of them; headers, body, and attachments in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes
from email.header import decode_header
from email.message import Message
from email.policy import compat32

from appliance.documents.builder import DocumentBuilder, clean
from appliance.documents.dates import parse_mail_date
from appliance.documents.encoding import decode
from appliance.documents.readers.attachments import ReadAttached, attach
from appliance.documents.readers.html import append_html
from appliance.documents.readers.source import Source
from appliance.documents.reasons import RefusalError
from appliance.documents.versions import reader_label

_SHOWN_FIELDS = ("From", "To", "Cc", "Date")
_MAILBOX_START = re.compile(rb"^From [^\n]*\n(?=[!-9;-~]+:)", re.M)
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.M)
_MAX_PARTS = 5_000
_MAX_DEPTH = 100
_MAX_FIELD_CHARS = 2_000


def read_mail(source: Source, builder: DocumentBuilder, read: ReadAttached, *, is_mailbox: bool) -> str:
    """Read a message or a mailbox; attachments are read up to the limit of depth."""
    messages = list(_split(bytes(source.data))) if is_mailbox else [bytes(source.data)]
    for number, data in enumerate(messages, start=1):
        try:
            message = message_from_bytes(data, policy=compat32)
        except RecursionError as exc:
            raise RefusalError("too_deep", "its parts are nested beyond any real mail") from exc
        _read_message(message, source, builder, read)
        if is_mailbox:
            source.host.report_progress(number, len(messages))
    if not source.depth and len(messages) == 1:
        _note_metadata(message_from_bytes(messages[0], policy=compat32), builder)
    return reader_label("mail")


def _split(data: bytes) -> Iterator[bytes]:
    data = data.replace(b"\r\n", b"\n")
    starts = list(_MAILBOX_START.finditer(data))
    ends = [match.start() for match in starts[1:]] + [len(data)]
    for match, end in zip(starts, ends, strict=True):
        yield _QUOTED_FROM.sub(rb"\1", data[match.end() : end])


def _note_metadata(message: Message, builder: DocumentBuilder) -> None:
    builder.metadata = replace(
        builder.metadata,
        title=_field(message, "Subject"),
        author=_field(message, "From"),
        created=parse_mail_date(_field(message, "Date")),
    )


def _read_message(message: Message, source: Source, builder: DocumentBuilder, read: ReadAttached) -> None:
    subject = _field(message, "Subject")
    builder.begin_segment("message", subject)
    builder.heading(subject, 1)
    lines = [f"{name}: {value}" for name in _SHOWN_FIELDS if (value := _field(message, name))]
    builder.paragraph("\n".join(lines))
    attached: list[Message] = []
    for part in _bodies(message, attached, 0):
        _append_body(part, builder)
    for part in attached:
        _attach(part, source, builder, read)


def _field(message: Message, name: str) -> str:
    """A header as text, however it is written."""
    # The raw value: the usual accessor replaces every byte that is no ASCII.
    value = next((value for key, value in message.raw_items() if key.lower() == name.lower()), None)
    if value is None:
        return ""
    try:
        raw = str(value).encode("utf-8", "surrogateescape")
        pieces = decode_header(decode(raw).text[:_MAX_FIELD_CHARS])
        text = "".join(
            piece if isinstance(piece, str) else decode(piece, charset or "").text
            for piece, charset in pieces
        )
    except (ValueError, LookupError, RecursionError):
        text = str(value)
    return " ".join(clean(text).split())


def _bodies(message: Message, attached: list[Message], depth: int) -> Iterator[Message]:
    """The parts to show, one of each set of alternatives; everything else goes to `attached`."""
    if depth > _MAX_DEPTH or len(attached) > _MAX_PARTS:
        raise RefusalError("too_deep", f"its parts are nested more than {_MAX_DEPTH} deep")
    kind = message.get_content_type()
    if message.is_multipart() and kind != "message/rfc822":
        parts = [part for part in message.get_payload() if isinstance(part, Message)]
        if kind == "multipart/alternative":
            parts = _best(parts)
        for part in parts:
            yield from _bodies(part, attached, depth + 1)
        return
    is_file = message.get_content_disposition() == "attachment" or bool(message.get_filename())
    if kind in ("text/plain", "text/html") and not is_file:
        yield message
    else:
        attached.append(message)


def _best(parts: list[Message]) -> list[Message]:
    """Plain text when there is some, else the last alternative, which the sender holds for the best."""
    plain = [part for part in parts if part.get_content_type() == "text/plain" and _payload(part).strip()]
    return plain[:1] or parts[-1:]


def _payload(part: Message) -> bytes:
    try:
        payload = part.get_payload(decode=True)
    except (ValueError, LookupError, AssertionError):
        payload = None
    return payload if isinstance(payload, bytes) else b""


def _append_body(part: Message, builder: DocumentBuilder) -> None:
    charset = part.get_content_charset("") if not part.defects else str(part.get_param("charset") or "")
    text = clean(decode(_payload(part), charset).text)
    if part.get_content_type() == "text/html":
        append_html(text, builder)
        return
    for paragraph in re.split(r"\n[^\S\n]*\n", text):
        builder.paragraph(paragraph)


def _attach(part: Message, source: Source, builder: DocumentBuilder, read: ReadAttached) -> None:
    kind = part.get_content_type()
    if kind == "message/rfc822":
        inner = part.get_payload()
        first = inner[0] if isinstance(inner, list) and inner else None
        data = first.as_bytes() if isinstance(first, Message) else _payload(part)
        name = part.get_filename() or "message.eml"
    else:
        data, name = _payload(part), part.get_filename() or f"unnamed.{part.get_content_subtype()}"
    attach(source, _decoded_name(name), data, kind, builder, read)


def _decoded_name(name: str) -> str:
    try:
        pieces = decode_header(name)
    except (ValueError, LookupError):
        return name
    return "".join(
        piece if isinstance(piece, str) else decode(piece, charset or "").text for piece, charset in pieces
    )
