"""From what a user names (files, folders, patterns) to the files to bring in, each once and in order."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from appliance.core.errors import InvalidRequestError
from appliance.documents.names import shown_name
from appliance.retrieval.ingest import FileFound

_SKIPPED_FOLDERS = frozenset(("__pycache__", "node_modules"))
_PATTERN = frozenset("*?[")


def find_files(named: Sequence[str]) -> Iterator[FileFound]:
    """Yield every file of the named files, folders and patterns; hidden ones are said to be skipped.

    Raises:
        InvalidRequestError: a pattern matches nothing.
    """
    for text in named:
        for path in _expanded(text):
            absolute = Path(os.path.abspath(path))  # noqa: PTH100  links stay as the user named them
            if absolute.is_dir():
                yield from _below(absolute)
            else:
                yield FileFound(path=absolute, source=_source(absolute))


def _expanded(text: str) -> list[str]:
    path = Path(text).expanduser()
    if path.exists() or path.is_symlink() or not _PATTERN & set(text):
        return [str(path)]
    matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  absolute patterns are fine here
    if not matches:
        raise InvalidRequestError(
            f"nothing matches {shown_name(text)!r}",
            hint="check the pattern; quote it so that it arrives whole",
        )
    return matches


def _below(folder: Path) -> Iterator[FileFound]:
    def report(error: OSError) -> None:
        failed.append(Path(error.filename))

    failed: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=report):
        for name in sorted(folders):
            if name.startswith(".") or name in _SKIPPED_FOLDERS:
                path = Path(parent) / name
                yield FileFound(path=path, source=_source(path), skip_reason="hidden or generated folder")
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS
        )
        for name in sorted(names):
            yield _file(Path(parent) / name)
    for path in failed:
        yield FileFound(path=path, source=_source(path), skip_reason="the folder may not be read")


def _file(path: Path) -> FileFound:
    source = _source(path)
    if path.name.startswith("."):
        return FileFound(path=path, source=source, skip_reason="hidden file")
    if path.name.startswith("~$"):
        return FileFound(path=path, source=source, skip_reason="lock file of an office program")
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            mode = path.stat().st_mode
    except OSError:
        return FileFound(path=path, source=source)
    if not stat.S_ISREG(mode):
        return FileFound(path=path, source=source, skip_reason="not a regular file")
    return FileFound(path=path, source=source)


def _source(path: Path) -> str:
    """A path as text that can be stored; bytes that are no UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
