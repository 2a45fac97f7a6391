"""Follow folders: files that appear or change are brought in, files that go are removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Event

_SETTLE_MS = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderChange:
    """Paths that changed together, in order, each once."""

    written: tuple[Path, ...]
    gone: tuple[Path, ...]


def watch_folders(paths: Sequence[Path], stop: Event) -> Iterator[FolderChange]:
    """Yield changes below the paths until told to stop; a burst of writes comes as one change."""
    from watchfiles import watch

    for changes in watch(*paths, stop_event=stop, debounce=_SETTLE_MS, raise_interrupt=False):
        touched = sorted({Path(path) for _, path in changes})
        yield FolderChange(
            written=tuple(path for path in touched if path.is_file()),
            gone=tuple(path for path in touched if not path.exists()),
        )
