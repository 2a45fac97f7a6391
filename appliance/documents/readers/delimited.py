"""CSV and its relatives: the delimiter is found by which one cuts the lines alike."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter

from appliance.documents.builder import DocumentBuilder
from appliance.documents.readers.source import Source
from appliance.documents.readers.text import read_characters
from appliance.documents.reasons import RefusalError
from appliance.documents.versions import reader_label

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_CHARS = 64 * 1024
_NUMBER = re.compile(r"[-+(]?[$€£]?\s*\d[\d.,'\s]*\s*[%)]?(?:[eE][-+]?\d+)?")


def read_delimited(source: Source, builder: DocumentBuilder) -> str:
    """Read one table; its first row is the header when it reads like one."""
    text = read_characters(source, builder)
    builder.begin_segment("section", "")
    csv.field_size_limit(builder.limits.text_chars)
    first_line, _, rest = text.partition("\n")
    declared = re.fullmatch(r"sep=(.)", first_line.strip())
    delimiter = declared.group(1) if declared else find_delimiter(text)
    reader = csv.reader(io.StringIO(rest if declared else text, newline=""), delimiter=delimiter)
    try:
        rows = [row for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as exc:
        raise RefusalError("damaged", f"its rows cannot be told apart: {exc}") from exc
    if rows:
        builder.table(rows, header_rows=1 if looks_like_header(rows) else 0)
    return reader_label("delimited")


def find_delimiter(text: str) -> str:
    """The character that cuts most lines into the same number of cells, two or more."""
    sample = text[:_SAMPLE_CHARS]
    if len(text) > len(sample):
        sample = sample[: sample.rfind("\n") + 1] or sample
    return max(_DELIMITERS, key=lambda delimiter: _agreement(sample, delimiter))


def looks_like_header(rows: list[list[str]]) -> bool:
    """A row of distinct, non-numeric names above rows that are not all of that sort."""
    names = [cell.strip() for cell in rows[0]]
    if len(rows) < 2 or not all(names) or len(set(names)) < len(names):
        return False
    return not any(_NUMBER.fullmatch(name) or len(name) > 80 for name in names)


def _agreement(sample: str, delimiter: str) -> tuple[float, int]:
    try:
        rows = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
        widths = Counter(len(row) for row in rows if row)
    except csv.Error:
        return 0.0, 0
    wide = {width: count for width, count in widths.items() if width > 1}
    if not wide:
        return 0.0, 0
    width, count = max(wide.items(), key=lambda item: (item[1], item[0]))
    return count / widths.total(), width
