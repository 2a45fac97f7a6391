"""The formats of JSON Schema: an exact check of each, and a pattern that generates only valid text."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Final

_DIGIT = "[0-9]"
_LONG_MONTH = f"{_DIGIT}{{4}}-(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
_SHORT_MONTH = f"{_DIGIT}{{4}}-(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
_FEBRUARY = f"{_DIGIT}{{4}}-02-(?:0[1-9]|1[0-9]|2[0-8])"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = f"(?:{_LONG_MONTH}|{_SHORT_MONTH}|{_FEBRUARY}|{_LEAP_YEAR}-02-29)"
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]{1,9})?"
_OFFSET = f"(?:[zZ]|[+-]{_CLOCK})"
_UTC = r"(?:[zZ]|[+-]00:00)"
_TIME = f"(?:{_CLOCK}:[0-5][0-9]{_FRACTION}{_OFFSET}|23:59:60{_FRACTION}{_UTC})"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DURATION_TIME = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_HEX_GROUP = "[0-9a-fA-F]{1,4}"
_PCT = "%[0-9A-Fa-f]{2}"
_URI_CHARACTER = r"[a-zA-Z0-9\-._~!$&'()*+,;=:@]"
_REGISTERED_NAME = r"(?:[a-zA-Z0-9\-._~!$&'()*+,;=]|" + _PCT + ")*"
_SEGMENT = f"(?:{_URI_CHARACTER}|{_PCT})*"
_SEGMENT_1 = f"(?:{_URI_CHARACTER}|{_PCT})+"
_QUERY = f"(?:{_URI_CHARACTER}|[/?]|{_PCT})*"
_AUTHORITY = r"//(?:(?:[a-zA-Z0-9\-._~!$&'()*+,;=:]|" + _PCT + ")*@)?" + _REGISTERED_NAME + "(?::[0-9]*)?"
_HIERARCHY = (
    f"(?:{_AUTHORITY}(?:/{_SEGMENT})*|/(?:{_SEGMENT_1}(?:/{_SEGMENT})*)?|{_SEGMENT_1}(?:/{_SEGMENT})*|)"
)
_URI = rf"[a-zA-Z][a-zA-Z0-9+\-.]*:{_HIERARCHY}(?:\?{_QUERY})?(?:\#{_QUERY})?"
_NO_SCHEME = r"(?:[a-zA-Z0-9\-._~!$&'()*+,;=@]|" + _PCT + ")+"
_RELATIVE = (
    f"(?:{_AUTHORITY}(?:/{_SEGMENT})*|/(?:{_SEGMENT_1}(?:/{_SEGMENT})*)?|{_NO_SCHEME}(?:/{_SEGMENT})*|)"
)
_URI_REFERENCE = rf"(?:{_URI}|{_RELATIVE}(?:\?{_QUERY})?(?:\#{_QUERY})?)"
_ATOM = r"[a-zA-Z0-9!#$%&'*+\-/=?\^_`{|}~]+"
_EMAIL = rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*"
_JSON_POINTER = r"(?:/(?:[^~/]|~[01])*)*"

_BEYOND_ASCII = r"\u{A1}-\u{D7FF}\u{F900}-\u{FFEF}\u{10000}-\u{1FFFD}"


def _international(pattern: str) -> str:
    """Let characters beyond ASCII stand wherever letters may."""
    return pattern.replace("a-zA-Z0-9", f"a-zA-Z0-9{_BEYOND_ASCII}")


GRAMMAR_PATTERNS: Final[dict[str, str]] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[tT]{_TIME}",
    "duration": f"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)",
    "email": _EMAIL,
    "idn-email": _international(_EMAIL),
    "hostname": rf"{_LABEL}(?:\.{_LABEL})*",
    "idn-hostname": _international(rf"{_LABEL}(?:\.{_LABEL})*"),
    "ipv4": rf"(?:{_OCTET}\.){{3}}{_OCTET}",
    "ipv6": "|".join(
        [f"(?:{_HEX_GROUP}:){{7}}{_HEX_GROUP}"]
        + [f"(?:{_HEX_GROUP}:){{{left}}}(?::{_HEX_GROUP}){{1,{7 - left}}}" for left in range(1, 7)]
        + [f"(?:{_HEX_GROUP}:){{1,7}}:", f":(?::{_HEX_GROUP}){{1,7}}", "::"]
    ),
    "uuid": "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "uri": _URI,
    "iri": _international(_URI),
    "uri-reference": _URI_REFERENCE,
    "iri-reference": _international(_URI_REFERENCE),
    "json-pointer": _JSON_POINTER,
    "relative-json-pointer": rf"(?:0|[1-9][0-9]*)(?:#|{_JSON_POINTER})",
}
"""For each format, a pattern of texts the exact check accepts; some valid rare texts are left out."""

BUILT_IN_CHECKS: Final = frozenset(
    (
        "hostname",
        "idn-hostname",
        "uri",
        "iri",
        "uri-reference",
        "iri-reference",
        "uri-template",
        "regex",
        "email",
        "idn-email",
        "json-pointer",
        "relative-json-pointer",
        "uuid",
    )
)
"""Formats whose exact check is the validator's own."""

KNOWN_FORMATS: Final = frozenset(GRAMMAR_PATTERNS) | BUILT_IN_CHECKS | {"ipv6"}

_DATE_TEXT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME_TEXT = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[zZ]|([+-])([0-9]{2}):([0-9]{2}))")
_DURATION_TEXT = re.compile(GRAMMAR_PATTERNS["duration"])
_IPV4_TEXT = re.compile(GRAMMAR_PATTERNS["ipv4"])


def is_date(text: str) -> bool:
    """Whether a text is a calendar date of RFC 3339; 30 February is none."""
    match = _DATE_TEXT.fullmatch(text)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups())
    try:
        # The calendar repeats every 400 years; `datetime` has no year 0.
        date(year or 400, month, day)
    except ValueError:
        return False
    return True


def is_time(text: str) -> bool:
    """Whether a text is a full time of RFC 3339; a leap second stands only at 23:59:60 UTC."""
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        return False
    hour, minute, second = (int(part) for part in match.group(1, 2, 3))
    sign, offset_hour, offset_minute = match.group(4), int(match.group(5) or 0), int(match.group(6) or 0)
    if hour > 23 or minute > 59 or second > 60 or offset_hour > 23 or offset_minute > 59:
        return False
    if second < 60:
        return True
    offset = (offset_hour * 60 + offset_minute) * (-1 if sign == "-" else 1)
    return (hour * 60 + minute - offset) % 1440 == 1439


def is_date_time(text: str) -> bool:
    """Whether a text is a date, `T`, and a time."""
    return len(text) > 11 and text[10] in "tT" and is_date(text[:10]) and is_time(text[11:])


def is_duration(text: str) -> bool:
    """Whether a text is a duration of RFC 3339, appendix A."""
    return _DURATION_TEXT.fullmatch(text) is not None


def is_ipv4(text: str) -> bool:
    """Whether a text is a dotted quad without leading zeros."""
    return _IPV4_TEXT.fullmatch(text) is not None


def is_ipv6(text: str) -> bool:
    """Whether a text is an IPv6 address without a zone."""
    try:
        return text.isascii() and "%" not in text and bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


OWN_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "date": is_date,
    "time": is_time,
    "date-time": is_date_time,
    "duration": is_duration,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
}
