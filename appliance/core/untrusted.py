"""Text of users, models and documents inside a prompt: delimited, and escaped so that it cannot end early."""

from __future__ import annotations

import json
from collections.abc import Iterable

_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "|": "\\u007c"})


def delimited(name: str, texts: Iterable[str]) -> str:
    """Return texts as JSON strings, one a line, between tags that no text can write itself."""
    lines = [json.dumps(text, ensure_ascii=False).translate(_ESCAPED) for text in texts]
    return "\n".join([f"<{name}>", *lines, f"</{name}>"])
