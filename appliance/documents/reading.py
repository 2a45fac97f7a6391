"""What a parser process reports, validated: it has seen an untrusted file, so it is not trusted either."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from appliance.documents.model import (
    Attachment,
    Code,
    Furniture,
    Heading,
    ListItem,
    Metadata,
    Notice,
    Paragraph,
    Segment,
    Table,
)

_AnyBlock = Heading | Paragraph | ListItem | Code | Table | Furniture


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The part of a document that the parser process knows."""

    media_type: str
    parser: str
    encoding: str
    text: str
    segments: tuple[Segment, ...]
    blocks: tuple[Annotated[_AnyBlock, Field(discriminator="kind")], ...]
    metadata: Metadata
    page_count: int
    pages_without_text: tuple[int, ...]
    attachments: tuple[Attachment, ...]
    notices: tuple[Notice, ...]


def decode_reading(payload: bytes) -> Reading:
    """Decode a result.

    Raises:
        ValueError: it is not what a parser process of this version writes.
    """
    try:
        return _adapter().validate_json(payload)
    except ValidationError as exc:
        raise ValueError(f"{exc.error_count()} faults, the first: {exc.errors()[0]['msg']}") from exc


@cache
def _adapter() -> TypeAdapter[Reading]:
    return TypeAdapter(Reading)
