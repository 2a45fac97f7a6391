"""What a reader is given: the bytes, the name, a password, and a line to the process outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a reader may ask of the process outside: show progress, recognise the text of a picture."""

    has_ocr: bool
    report_progress: Callable[[int, int], None]
    recognise: Callable[[bytes], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file, or a file inside a file; `depth` counts how deep."""

    data: bytes | memoryview
    name: str
    password: str | None
    host: Host
    depth: int = 0
    encoding_label: str = ""
