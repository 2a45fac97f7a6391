"""Hashes stored models again and says which file is bad, and how it is mended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from appliance.catalog.catalog import mending_hint
from appliance.catalog.manifest import Manifest, StoredFile
from appliance.catalog.progress import ReportProgress, ignore_progress
from appliance.catalog.store import ModelStore
from appliance.core.errors import StorageError

FileState = Literal["good", "changed", "missing", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFile:
    """What hashing one file showed. `hint` says how a bad file is mended."""

    model: str
    file: str
    path: Path
    state: FileState
    expected_sha256: str
    found_sha256: str
    hint: str


def verify(
    store: ModelStore, manifests: list[Manifest], report: ReportProgress = ignore_progress
) -> Iterator[VerifiedFile]:
    """Hash every file of the models, one after the other; each outcome is recorded in the store."""
    hashed: dict[Path, tuple[FileState, str, int]] = {}
    for manifest in manifests:
        for file in manifest.files:
            path = store.file_path(file)
            if path not in hashed:
                hashed[path] = _hash(store, file, path, report)
            state, found, modified_ns = hashed[path]
            _record(store, manifest, file, modified_ns if state == "good" else 0)
            yield VerifiedFile(
                model=manifest.card.id,
                file=file.name,
                path=path,
                state=state,
                expected_sha256=file.sha256,
                found_sha256=found,
                hint="" if state == "good" else mending_hint(manifest, file),
            )


def _hash(
    store: ModelStore, file: StoredFile, path: Path, report: ReportProgress
) -> tuple[FileState, str, int]:
    try:
        modified_ns = path.stat().st_mtime_ns
        found = store.hash_file(path, file.name, report)
    except FileNotFoundError:
        return "missing", "", 0
    except (OSError, StorageError):
        return "unreadable", "", 0
    return ("good" if found == file.sha256 else "changed"), found, modified_ns


def _record(store: ModelStore, manifest: Manifest, file: StoredFile, modified_ns: int) -> None:
    """Note when a file was last found good; a bad one is fetched again by the next pull."""
    if file.modified_ns == modified_ns:
        return
    store.amend(manifest, replace(file, modified_ns=modified_ns))
