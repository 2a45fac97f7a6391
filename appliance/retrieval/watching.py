"""Follow files and folders: what appears or changes is brought in, what goes is removed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.core.errors import InvalidRequestError, StorageError
from appliance.documents.names import shown_name

if TYPE_CHECKING:
    from threading import Event

_MAGIC = frozenset("*?[")
_SETTLE_MS = 800
_STEP_MS = 50
_LOOK_UP_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderChange:
    """Paths that changed together, in order, each once; a folder that was moved in stands for its files."""

    written: tuple[Path, ...]
    gone: tuple[Path, ...]


class Watcher:
    """Notes every change from the moment it is made, so that none is lost before it is asked for."""

    def __init__(self, named: Sequence[str]) -> None:
        """Begin to watch what a user named: files, folders and patterns.

        Raises:
            InvalidRequestError: none of it is there.
            StorageError: the system can watch no more.
        """
        from watchfiles._rust_notify import RustNotify

        roots, is_deep = _roots(named)
        if not roots:
            raise InvalidRequestError(
                f"there is nothing to watch: {shown_name(named[0])} does not exist",
                hint="name a file or folder that is there",
            )
        try:
            self._notify = RustNotify([str(root) for root in roots], False, False, 300, is_deep, True)
        except OSError as exc:
            raise StorageError(
                f"the system cannot watch these folders: {exc}",
                hint="raise fs.inotify.max_user_watches, or watch a smaller folder",
            ) from exc

    def changes(self, stop: Event) -> Iterator[FolderChange]:
        """Yield changes until told to stop; a burst of writes comes as one change."""
        while True:
            seen = self._notify.watch(_SETTLE_MS, _STEP_MS, _LOOK_UP_MS, stop)
            if seen in ("stop", "signal"):
                return
            if isinstance(seen, set):
                touched = sorted({Path(path) for _, path in seen})
                yield FolderChange(
                    written=tuple(path for path in touched if path.exists()),
                    gone=tuple(path for path in touched if not path.exists()),
                )


def _roots(named: Sequence[str]) -> tuple[list[Path], bool]:
    """Return the folders to watch, and whether what is below them counts.

    A file is watched through its folder: editors put a new file in its place, which a watch on it would lose.
    """
    roots: dict[Path, None] = {}
    is_deep = False
    for text in named:
        path = Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100  links stay as the user named them
        is_deep = is_deep or path.is_dir() or "**" in path.parts
        while not path.is_dir() and (path.exists() or _MAGIC & set(str(path))) and path != path.parent:
            path = path.parent
        if path.is_dir():
            roots[path] = None
    return list(roots), is_deep
