"""One way to write numbers and characters that can be written in several."""

from __future__ import annotations

import re
import unicodedata

# Besides dots and commas, thousands are grouped by spaces and apostrophes.
_GROUPING = " \u00a0\u2009\u202f'’"
# A dash before a number is a sign, unless it stands between two things, as in a range or a compound.
NUMBER = (
    r"(?:(?<![\w)\]])(?<!\d\s)[-−–]|\b[Mm]inus\s)?"
    rf"(?:(?<![\d.,:/])\d{{1,3}}(?:[{_GROUPING}]\d{{3}})+(?!\d)(?:[.,]\d+)?|\d[\d.,:/]*\d|\d)"
    r"|[¼-¾⅐-⅞]"
)
_NUMBER_ALONE = re.compile(NUMBER)
_SIGN = re.compile(r"[-−–]|minus\s")
_GROUPING_BETWEEN_DIGITS = re.compile(rf"(?<=\d)[{_GROUPING}](?=\d)")
_GROUPED = re.compile(
    r"(?P<whole>[1-9]\d{0,2}(?:(?:\.\d{3})+|(?:,\d{2,3})*,\d{3}))(?:(?P<mark>[.,])(?P<part>\d+))?"
)
_DECIMAL = re.compile(r"(?P<whole>\d+)(?:[.,](?P<part>\d+))?")
_ARABIC_MARKS = str.maketrans("٫٬", ".,")
_DIGIT = re.compile(r"\d")


def plain(text: str) -> str:
    """Return a text with each accented letter as one character, and with the digits 0 to 9."""
    if text.isascii():
        return text
    composed = unicodedata.normalize("NFC", text)
    digits = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit.group())), composed)
    return digits.translate(_ARABIC_MARKS)


def is_number(token: str) -> bool:
    """Whether a token of `NUMBER` or of letters is a number."""
    return _NUMBER_ALONE.fullmatch(token) is not None


def normal_number(text: str) -> str:
    """Write a number in one way: `1,496.50`, `1.496,5` and `1496.5` are the same.

    What groups no thousands and has more than one mark, such as a date or a version, keeps its parts.
    """
    token = text.lower()
    sign = _SIGN.match(token)
    body = token[sign.end() :] if sign else token
    digits = _GROUPING_BETWEEN_DIGITS.sub("", body.strip(".,:/"))
    return f"{'-' if sign else ''}{_normal_digits(digits)}"


def _normal_digits(digits: str) -> str:
    if len(digits) == 1 and not digits.isdecimal():
        return f"{unicodedata.numeric(digits):.4g}"
    grouped = _GROUPED.fullmatch(digits)
    if grouped is not None and (grouped["mark"] is None or grouped["mark"] not in grouped["whole"]):
        return _joined(re.sub(r"[.,]", "", grouped["whole"]), grouped["part"])
    decimal = _DECIMAL.fullmatch(digits)
    if decimal is not None:
        return _joined(decimal["whole"], decimal["part"])
    return re.sub(r"(?<!\d)0+(?=\d)", "", digits)


def _joined(whole: str, part: str | None) -> str:
    fraction = (part or "").rstrip("0")
    return f"{whole.lstrip('0') or '0'}.{fraction}" if fraction else whole.lstrip("0") or "0"
