"""Dates as documents write them, always with a time zone; a date that makes no sense is no date."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?([+-]\d\d)?'?(\d\d)?")


def parse_date(text: str) -> datetime | None:
    """Read an ISO 8601 date."""
    text = text.strip()
    if re.fullmatch(r"\d{4}", text):
        text += "-01-01"
    elif re.fullmatch(r"\d{4}-\d\d", text):
        text += "-01"
    try:
        return _aware(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def parse_mail_date(text: str) -> datetime | None:
    """Read the date of a mail."""
    try:
        return _aware(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def parse_pdf_date(text: str) -> datetime | None:
    """Read a date as PDF writes it, `D:20260131120000+01'00`."""
    match = _PDF_DATE.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, zone, zone_minutes = match.groups()
    offset = f"{zone}:{zone_minutes or '00'}" if zone else "+00:00"
    return parse_date(
        f"{year}-{month or '01'}-{day or '01'}T{hour or '00'}:{minute or '00'}:{second or '00'}{offset}"
    )


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
