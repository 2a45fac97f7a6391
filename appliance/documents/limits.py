"""What one document may cost: bytes, characters, seconds, memory."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one `parse`. A document beyond one is refused with a reason; nothing is ever cut.

    `deadline_s` bounds parsing, `ocr_page_s` each recognised page on top of it; `memory_bytes` is what the
    process may take beyond its own code. `unpacked_bytes` bounds what an archive expands to in total.
    """

    file_bytes: int = 512 * MEBIBYTE
    text_chars: int = 64 * MEBIBYTE
    unpacked_bytes: int = 512 * MEBIBYTE
    archive_entries: int = 20_000
    xml_depth: int = 512
    xml_nodes: int = 5_000_000
    table_cells: int = 3_000_000
    attachment_depth: int = 3
    deadline_s: float = 60.0
    memory_bytes: int = 1024 * MEBIBYTE
    ocr_page_s: float = 60.0
    ocr_pages: int = 1000
    ocr_languages: str = ""
