"""Bytes to characters: find the encoding by evidence, and say when the declared one is wrong."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES = 64 * 1024
# Encodings a label may name but that a browser reads as a larger one; the difference is curly quotes.
_LABEL_UPGRADES = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "shift_jis": "cp932"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Characters, the encoding they were read in, and how many bytes made no sense in it."""

    text: str
    encoding: str
    undecodable: int = 0


def decode(data: bytes, declared: str = "") -> Decoded:
    """Decode bytes. Valid UTF-8 beats a label that says otherwise; a label beats a guess."""
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _with_replacement(data, name)
    wide = _guess_wide(data)
    if wide:
        return _with_replacement(data, wide)
    label = _known_codec(declared)
    if b"\x1b$" in data[:_SAMPLE_BYTES] and data.isascii():
        return _with_replacement(data, "iso2022_jp")
    utf8 = _strictly(data, "utf-8")
    if utf8 is not None and not (data.isascii() and label in ("iso2022_jp", "utf-7", "hz")):
        return utf8
    if label and label not in ("utf-8", "utf-16", "utf-32"):
        labelled = _strictly(data, label)
        if labelled is not None:
            return labelled
    if _is_nearly_utf8(data):
        return _with_replacement(data, "utf-8")
    return _with_replacement(data, _guess(data))


def _strictly(data: bytes, encoding: str) -> Decoded | None:
    try:
        return Decoded(text=data.decode(encoding), encoding=encoding)
    except (UnicodeError, LookupError):
        return None


def _with_replacement(data: bytes, encoding: str) -> Decoded:
    text = data.decode(encoding, errors="replace")
    return Decoded(text=text, encoding=encoding, undecodable=text.count("\ufffd"))


def _known_codec(label: str) -> str:
    try:
        info = codecs.lookup(label.strip().strip("\"'"))
    except (LookupError, ValueError):
        return ""
    if not getattr(info, "_is_text_encoding", True):
        return ""
    return _LABEL_UPGRADES.get(info.name, info.name)


def _guess_wide(data: bytes) -> str:
    """UTF-16 without a mark: a zero byte in every other place of mostly Latin text."""
    sample = data[:2048]
    if len(sample) < 8:
        return ""
    half = len(sample) // 2
    if sample[1::2].count(0) > half * 0.6 and sample[0::2].count(0) < half * 0.1:
        return "utf-16-le"
    if sample[0::2].count(0) > half * 0.6 and sample[1::2].count(0) < half * 0.1:
        return "utf-16-be"
    return ""


def _is_nearly_utf8(data: bytes) -> bool:
    """A few broken bytes in much valid UTF-8: a truncated or pasted-together file."""
    text = data.decode("utf-8", errors="replace")
    broken = text.count("\ufffd")
    beyond_ascii = sum(1 for character in text[: _SAMPLE_BYTES * 4] if character > "\x7f") - broken
    return beyond_ascii > 20 * broken


def _guess(data: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE_BYTES]).best()
    encoding = best.encoding if best is not None else "cp1252"
    return _LABEL_UPGRADES.get(encoding, encoding)
