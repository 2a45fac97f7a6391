"""From what a user names (files, folders, patterns) to the files to bring in, each once and in order."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from appliance.core.errors import InvalidRequestError
from appliance.documents.discovery import Found, Skipped, discover
from appliance.documents.names import shown_name
from appliance.retrieval.ingest import FileFound

_PATTERN = frozenset("*?[")
# What keeps a file from being read is said by its reader, as a failure; the rest is left out on purpose.
_FAILURES = frozenset(("not_found", "no_permission", "io_error", "empty", "too_large"))


def find_files(named: Sequence[str]) -> Iterator[FileFound]:
    """Yield every file of the named files, folders and patterns; what is left out says why.

    Raises:
        InvalidRequestError: a pattern matches nothing.
    """
    for item in discover([Path(text).expanduser() for text in named]):
        if isinstance(item, Skipped) and item.reason == "not_found" and _PATTERN & set(str(item.path)):
            raise InvalidRequestError(
                f"nothing matches {shown_name(str(item.path))!r}",
                hint="check the pattern; quote it so that it arrives whole",
            )
        yield _found(item)


def find_changed(named: Sequence[str], touched: Collection[Path]) -> Iterator[FileFound]:
    """Yield those of the named files that were touched, or that stand in a touched folder."""
    for item in discover([Path(text).expanduser() for text in named]):
        found = _found(item)
        is_touched = found.path in touched or any(folder in touched for folder in found.path.parents)
        if is_touched and not (isinstance(item, Skipped) and item.reason == "not_found"):
            yield found


def _found(item: Found | Skipped) -> FileFound:
    path = Path(os.path.abspath(item.path))  # noqa: PTH100  links stay as the user named them
    source = os.fsencode(path).decode("utf-8", "backslashreplace")
    if isinstance(item, Found) or item.reason in _FAILURES:
        return FileFound(path=path, source=source)
    return FileFound(path=path, source=source, skip_reason=item.message)
