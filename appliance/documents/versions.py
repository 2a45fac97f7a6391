"""Names and versions of the readers: what an older reader made of a file is read again.

A reader's number rises with every change of what it makes of the same file.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

_NUMBERS = {
    "code": 1,
    "delimited": 1,
    "docx": 1,
    "epub": 1,
    "html": 1,
    "mail": 1,
    "markdown": 1,
    "opendocument": 1,
    "pdf": 1,
    "picture": 1,
    "pptx": 1,
    "rtf": 1,
    "text": 1,
    "xlsx": 1,
}


def reader_label(name: str) -> str:
    """Return how a reader signs what it has read."""
    return f"{name}/{_NUMBERS[name]}"


def pdf_label(library_version: str) -> str:
    """Return how the reader of PDFs signs; what it makes of a file depends on its library too."""
    return f"{reader_label('pdf')} pypdfium2 {library_version}"


def is_current(label: str) -> bool:
    """Whether the reader that signed so would make the same of the file today; unknown readers are let be."""
    name = label.partition("/")[0]
    if name == "pdf":
        return label == pdf_label(_pdf_library_version())
    return name not in _NUMBERS or label.split()[0] == reader_label(name)


@cache
def readers_digest() -> str:
    """Return what stands for all readers together, for files that none of them could read."""
    return f"all/{'.'.join(map(str, _NUMBERS.values()))} pypdfium2 {_pdf_library_version()}"


@cache
def _pdf_library_version() -> str:
    # Importing the library would load it into the process that must not open documents.
    return version("pypdfium2")
