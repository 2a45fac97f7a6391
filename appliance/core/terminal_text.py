"""Clean text of what a terminal would obey: the one boundary between a model's words and a screen."""

from __future__ import annotations

_C0_AND_DEL = [*range(0x09), *range(0x0B, 0x20), 0x7F]
_C1 = range(0x80, 0xA0)
_BIDI = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_DEPRECATED_FORMAT = range(0x206A, 0x2070)
_INTERLINEAR = range(0xFFF9, 0xFFFC)
_TAGS = range(0xE0000, 0xE0080)
_SURROGATES = range(0xD800, 0xE000)

_CLEANED: dict[int, str | None] = dict.fromkeys(
    [*_C0_AND_DEL, *_C1, *_BIDI, *_DEPRECATED_FORMAT, *_INTERLINEAR, *_TAGS]
)
_CLEANED |= dict.fromkeys(_SURROGATES, "\ufffd")


def clean_for_terminal(text: str) -> str:
    r"""Drop every control character but `\n` and `\t`, bidirectional controls and tag characters.

    Works on any piece of a stream: each character is judged alone, so a sequence that arrives in parts
    loses its escape character like any other. A lone surrogate becomes U+FFFD.
    """
    return text.translate(_CLEANED)
