"""Walks what a user named: each file once, in a fixed order, and a reason for each one left out."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from appliance.documents.intake import os_error
from appliance.documents.limits import Limits
from appliance.documents.names import shown_name

SkipReason = Literal[
    "hidden",
    "generated",
    "office_lock_file",
    "not_matched",
    "already_seen",
    "link_loop",
    "not_a_file",
    "not_found",
    "no_permission",
    "io_error",
    "empty",
    "too_large",
]

_GENERATED_FOLDERS = frozenset(("__pycache__", "node_modules", "CVS", "_svn"))
_MAGIC = frozenset("*?[")
_DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file to read."""

    path: Path
    size_bytes: int
    kind: Literal["found"] = "found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file or folder left out, and why."""

    path: Path
    reason: SkipReason
    message: str
    kind: Literal["skipped"] = "skipped"


def discover(
    paths: Sequence[str | os.PathLike[str]], globs: Sequence[str] = (), limits: Limits = _DEFAULT_LIMITS
) -> Iterator[Found | Skipped]:
    """Yield the files below paths; a path may be a file, a folder or a pattern.

    `globs` keeps files whose name or path below the folder matches one of them. Hidden and generated
    files are skipped inside folders, but not when they are named themselves. Nothing is opened.
    """
    walk = _Walk(globs=tuple(globs), limits=limits, seen=set())
    for path in paths:
        for named in _expanded(Path(path)):
            yield from walk.named(named)


def _expanded(path: Path) -> list[Path]:
    """A pattern becomes what it matches, unless something has exactly that name."""
    if os.path.lexists(path) or not _MAGIC & set(str(path)):
        return [path]
    return [Path(match) for match in sorted(glob.glob(str(path), recursive=True))] or [path]  # noqa: PTH207


@dataclass(kw_only=True)
class _Walk:
    globs: tuple[str, ...]
    limits: Limits
    seen: set[tuple[int, int]]

    def named(self, path: Path) -> Iterator[Found | Skipped]:
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (OSError, ValueError) as exc:
            yield _unreadable(path, exc)
            return
        yield from self.folder(path, path, frozenset()) if is_folder else self.file(path)

    def folder(self, path: Path, root: Path, above: frozenset[tuple[int, int]]) -> Iterator[Found | Skipped]:
        """Go through a folder; `above` holds the folders it stands in, so that a loop of links ends."""
        try:
            status = path.stat()
            with os.scandir(path) as listing:
                entries = sorted(listing, key=lambda entry: os.fsencode(entry.name))
        except OSError as exc:
            yield _unreadable(path, exc)
            return
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            yield _skip(path, "link_loop", "is a link to a folder it stands in")
            return
        for entry in entries:
            yield from self.entry(Path(entry.path), root, above | {identity})

    def entry(self, path: Path, root: Path, above: frozenset[tuple[int, int]]) -> Iterator[Found | Skipped]:
        if path.name.startswith("."):
            yield _skip(path, "hidden", "is hidden")
            return
        if path.name.startswith("~$"):
            yield _skip(path, "office_lock_file", "is the lock file of an office program")
            return
        try:
            mode = path.stat().st_mode
        except OSError as exc:
            yield _unreadable(path, exc)
            return
        if not stat.S_ISDIR(mode):
            yield from self.file(path, root)
        elif path.name in _GENERATED_FOLDERS:
            yield _skip(path, "generated", "holds generated files")
        else:
            yield from self.folder(path, root, above)

    def file(self, path: Path, root: Path | None = None) -> Iterator[Found | Skipped]:
        try:
            status = path.stat()
        except OSError as exc:
            yield _unreadable(path, exc)
            return
        yield self._judged(path, root, status)

    def _judged(self, path: Path, root: Path | None, status: os.stat_result) -> Found | Skipped:
        if not stat.S_ISREG(status.st_mode):
            return _skip(path, "not_a_file", "is not a regular file")
        if root is not None and self.globs and not self._matches(path, root):
            return _skip(path, "not_matched", "matches none of the patterns")
        identity = (status.st_dev, status.st_ino)
        if identity in self.seen:
            return _skip(path, "already_seen", "is the same file as one before")
        self.seen.add(identity)
        if status.st_size == 0:
            return _skip(path, "empty", "is empty")
        if status.st_size > self.limits.file_bytes:
            return _skip(
                path, "too_large", f"has {status.st_size:,} bytes, the limit is {self.limits.file_bytes:,}"
            )
        return Found(path=path, size_bytes=status.st_size)

    def _matches(self, path: Path, root: Path) -> bool:
        below = path.relative_to(root).as_posix()
        return any(fnmatch(path.name, pattern) or fnmatch(below, pattern) for pattern in self.globs)


def _skip(path: Path, reason: SkipReason, message: str) -> Skipped:
    return Skipped(path=path, reason=reason, message=f"{shown_name(path.name)} {message}")


def _unreadable(path: Path, exc: OSError | ValueError) -> Skipped:
    error = os_error(exc, shown_name(path.name))
    reasons: tuple[SkipReason, ...] = ("not_found", "no_permission", "not_a_file")
    reason: SkipReason = next((known for known in reasons if known == error.reason), "io_error")
    return Skipped(path=path, reason=reason, message=error.message)
