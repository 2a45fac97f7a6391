"""Delimits text of documents, memory and tools inside a prompt, so that no text can end its own section.

The text stays as readable as it was: only what looks like one of the reserved tags loses its angle bracket.
"""

from __future__ import annotations

import re

RESERVED_TAGS = ("documents", "passage", "memory", "fact", "summary", "tool_result", "notes")

# Other forms of the angle bracket, and marks or invisible characters after it, would fool a reader too.
_TAG = re.compile(
    rf"[<\uff1c\ufe64\u2039\u3008\u27e8](?=[\W_]{{0,16}}(?:{'|'.join(RESERVED_TAGS)}))", re.IGNORECASE
)
_REPEATED = re.compile(rf"</?(?:{'|'.join(RESERVED_TAGS)})\b[^<>\n]*>?", re.IGNORECASE)
_ESCAPED = "&lt;"
_MARKS = str.maketrans({'"': "'", "“": "'", "”": "'", "„": "'", "＂": "'"})
_ATTRIBUTE = str.maketrans({'"': "'", "<": "(", ">": ")", "\n": " ", "\r": " "})


def escaped(text: str) -> str:
    """Return a text that holds no tag of ours."""
    return _TAG.sub(_ESCAPED, text)


def delimited(tag: str, text: str, **attributes: str) -> str:
    """Return an untrusted text between tags of its own."""
    return f"{_opening(tag, attributes)}\n{escaped(text)}\n</{tag}>"


def enclosed(tag: str, parts: list[str]) -> str:
    """Put texts that are delimited already between the tags of their section."""
    return "\n".join([f"<{tag}>", *parts, f"</{tag}>"])


def without_tags(text: str) -> str:
    """Return a model's words without tags of ours that it repeated."""
    return _REPEATED.sub("", text).strip()


def quoted_line(text: str) -> str:
    """Return an untrusted text on one line between quotation marks that it cannot close.

    Small models go on writing tags where a prompt ends with one, so the end of a prompt has none.
    """
    return f'"{escaped(" ".join(text.split())).translate(_MARKS)}"'


def _opening(tag: str, attributes: dict[str, str]) -> str:
    assert tag in RESERVED_TAGS, tag
    values = "".join(
        f' {name}="{escaped(value).translate(_ATTRIBUTE)}"' for name, value in attributes.items() if value
    )
    return f"<{tag}{values}>"
