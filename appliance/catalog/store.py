"""The model store on disk: blobs named by their sha256, manifests that give them a model's name.

    blobs/sha256-<hex>              the bytes of one file, complete and checked
    manifests/<name>/<tag>.json     a model: its card and its files
    folders/<name>/<tag>/<file>     the files of a model of several files, linked under their own names
    partial/<key>.part              what was fetched so far of a file, for the next try
    locks/<key>.lock                one process at a time fetches a file or changes a manifest

A name that exists is complete: files are written under another name, flushed to disk, then renamed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from appliance.catalog.manifest import Manifest, StoredFile, manifest_from_values, manifest_to_values
from appliance.catalog.names import CardName, is_safe_part, parse_card_name
from appliance.catalog.progress import ReportProgress, TransferProgress, ignore_progress
from appliance.core.errors import ApplianceError, ModelNotFoundError, StorageError

CHUNK_BYTES = 1 << 20
_FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_LOCK_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedModel:
    """What removing a model did."""

    id: str
    freed_bytes: int
    kept_files: tuple[str, ...]


class ModelStore:
    """The store under one folder. Cheap to build; nothing is read or created until it is used."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def blob_path(self, sha256: str) -> Path:
        """Return where the bytes with this digest lie or would lie."""
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise StorageError(f"{sha256!r} is not a sha256")
        return self.root / "blobs" / f"sha256-{sha256}"

    def file_path(self, file: StoredFile) -> Path:
        """Return where a stored file lies."""
        return Path(file.path) if file.path else self.blob_path(file.sha256)

    def manifest(self, name: CardName) -> Manifest | None:
        """Return the model of this name, or nothing; the only tag when none is said.

        Raises:
            StorageError: the manifest is damaged.
        """
        if not name.tag:
            tags = [manifest for manifest in self.manifests() if manifest.card.id.startswith(f"{name.name}:")]
            return tags[0] if len(tags) == 1 else None
        path = self._manifest_path(name)
        return self._read_manifest(path) if path.is_file() else None

    def manifests(self) -> list[Manifest]:
        """Return every readable manifest, by name."""
        found: list[Manifest] = []
        for path in self._manifest_files():
            try:
                found.append(self._read_manifest(path))
            except StorageError:
                continue
        return found

    def damaged_manifests(self) -> list[Path]:
        """Return the manifests that cannot be read."""
        damaged: list[Path] = []
        for path in self._manifest_files():
            try:
                self._read_manifest(path)
            except StorageError:
                damaged.append(path)
        return damaged

    def publish(self, manifest: Manifest) -> None:
        """Give a model its name, replacing what had it before.

        Raises:
            StorageError: a file of it is not there, or the disk is full.
        """
        name = parse_card_name(manifest.card.id)
        with self.lock("store"):
            for file in manifest.files:
                if not self.file_path(file).is_file():
                    raise StorageError(f"{file.name} left the store meanwhile", hint="pull the model again")
            content = json.dumps(manifest_to_values(manifest), indent=2, ensure_ascii=False)
            self._write_atomically(self._manifest_path(name), content.encode())

    def amend(self, manifest: Manifest, file: StoredFile) -> None:
        """Replace the record of one file of a model that is still the one that was read."""
        name = parse_card_name(manifest.card.id)
        with self.lock("store"):
            current = self.manifest(name)
            if current is None or current.digest != manifest.digest:
                return
            files = tuple(file if one.name == file.name else one for one in current.files)
            content = json.dumps(
                manifest_to_values(replace(current, files=files)), indent=2, ensure_ascii=False
            )
            self._write_atomically(self._manifest_path(name), content.encode())

    def remove(self, name: CardName) -> RemovedModel:
        """Remove a model and every blob that no other model uses. Files taken in place stay.

        Raises:
            ModelNotFoundError: the store has no model of this name.
        """
        with self.lock("store"):
            path = self._manifest_path(name)
            if not path.is_file():
                raise ModelNotFoundError(f"{name} is not in the store", hint="`appliance list` shows what is")
            files = self._files_of_damaged_or_whole(path)
            path.unlink()
            shutil.rmtree(self._folder_path(name), ignore_errors=True)
            _remove_empty_folder(path.parent)
            _remove_empty_folder(self._folder_path(name).parent)
            used = {file.sha256 for manifest in self.manifests() for file in manifest.files if not file.path}
            unused = [file for file in files if not file.path and file.sha256 not in used]
            freed = sum(self._unlink_blob(file.sha256) for file in unused)
            kept = tuple(file.name for file in files if file not in unused)
        return RemovedModel(id=str(name), freed_bytes=freed, kept_files=kept)

    def folder(self, manifest: Manifest) -> Path:
        """Return a folder that holds the model's files under their own names.

        Raises:
            StorageError: the folder cannot be written.
        """
        folder = self._folder_path(parse_card_name(manifest.card.id))
        with self.lock("store"), self.translated_errors(0):
            folder.mkdir(parents=True, exist_ok=True)
            for file in manifest.files:
                _link(self.file_path(file), folder / file.name)
        return folder

    def is_unchanged(self, file: StoredFile) -> bool:
        """Say whether a file still has the size and time it had when it was hashed."""
        try:
            status = self.file_path(file).stat()
        except OSError:
            return False
        return status.st_size == file.size_bytes and status.st_mtime_ns == file.modified_ns

    @contextmanager
    def lock(self, key: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold a lock that other processes respect; `waiting` is called once when it is taken by another."""
        if not is_safe_part(key):
            raise StorageError(f"{key!r} cannot name a lock")
        with self.translated_errors(0):
            folder = self.root / "locks"
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / f"{key}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                waiting()
                lock.acquire(poll_interval=_LOCK_POLL_S)
        try:
            yield
        finally:
            lock.release()

    def free_bytes(self) -> int:
        """Return the bytes that can still be written."""
        folder = self.root
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return shutil.disk_usage(folder).free

    def require_space(self, needed_bytes: int) -> None:
        """Refuse early what will not fit.

        Raises:
            StorageError: less is free than needed; says both.
        """
        with self.translated_errors(needed_bytes):
            free = self.free_bytes()
        if needed_bytes > free:
            raise _full_disk(self.root, needed_bytes, free)

    @contextmanager
    def translated_errors(self, needed_bytes: int) -> Iterator[None]:
        """Turn the operating system's errors into a `StorageError`."""
        try:
            yield
        except OSError as exc:
            if exc.errno in _FULL_DISK:
                raise _full_disk(self.root, needed_bytes, self.free_bytes()) from exc
            place = exc.filename or self.root
            raise StorageError(
                f"{place} cannot be used: {exc.strerror or exc}",
                hint="choose another folder with APPLIANCE_MODELS, or mend its permissions",
            ) from exc

    @contextmanager
    def partial(self, key: str) -> Iterator[PartialFile]:
        """Open what is there of a file that is being fetched. Hold the lock of the same key meanwhile."""
        if not is_safe_part(key):
            raise StorageError(f"{key!r} cannot name a file")
        with self.translated_errors(0):
            partial = PartialFile(self, self.root / "partial" / f"{key}.part")
        try:
            yield partial
        finally:
            partial.close()

    def staging_folder(self, key: str) -> Path:
        """Return a folder for what is needed while a file is fetched."""
        if not is_safe_part(key):
            raise StorageError(f"{key!r} cannot name a folder")
        folder = self.root / "partial" / key
        with self.translated_errors(0):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def hash_file(self, path: Path, label: str, report: ReportProgress = ignore_progress) -> str:
        """Return the sha256 of a file.

        Raises:
            StorageError: it cannot be read.
        """
        digest = hashlib.sha256()
        with self.translated_errors(0), path.open("rb") as stream:
            total = os.fstat(stream.fileno()).st_size
            done = 0
            while piece := stream.read(CHUNK_BYTES):
                digest.update(piece)
                done += len(piece)
                report(TransferProgress(stage="checking", file=label, done_bytes=done, total_bytes=total))
        return digest.hexdigest()

    def _manifest_path(self, name: CardName) -> Path:
        assert all(map(is_safe_part, (name.name, name.tag))), name
        return self.root / "manifests" / name.name / f"{name.tag}.json"

    def _folder_path(self, name: CardName) -> Path:
        assert all(map(is_safe_part, (name.name, name.tag))), name
        return self.root / "folders" / name.name / name.tag

    def _manifest_files(self) -> list[Path]:
        return sorted((self.root / "manifests").glob("*/*.json"))

    def _read_manifest(self, path: Path) -> Manifest:
        try:
            manifest = manifest_from_values(json.loads(path.read_text(encoding="utf-8")), str(path))
            if manifest.card.id != f"{path.parent.name}:{path.stem}":
                raise ValueError(f"it is of another model, {manifest.card.id}")
            return manifest
        except (OSError, ValueError, KeyError, TypeError, ApplianceError) as exc:
            raise StorageError(
                f"the manifest {path} is damaged: {exc}",
                hint=f"`appliance pull {path.parent.name}:{path.stem}` writes it again",
            ) from exc

    def _files_of_damaged_or_whole(self, path: Path) -> tuple[StoredFile, ...]:
        try:
            return self._read_manifest(path).files
        except StorageError:
            return ()

    def _unlink_blob(self, sha256: str) -> int:
        path = self.blob_path(sha256)
        with self.translated_errors(0):
            if not path.exists():
                return 0
            # A blob that is also linked from elsewhere keeps its bytes there.
            status = path.stat()
            path.unlink()
            return status.st_size if status.st_nlink == 1 else 0

    def _write_atomically(self, path: Path, content: bytes) -> None:
        with self.translated_errors(len(content)):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            try:
                with temporary.open("wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(path.parent)


class PartialFile:
    """A file on its way into the store: kept between tries, hashed while it grows, published when right."""

    def __init__(self, store: ModelStore, path: Path) -> None:
        self._store = store
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = path.open("ab")
        self._digest = hashlib.sha256()
        self._hashed_bytes = 0
        self.size = path.stat().st_size

    def resume(self, label: str, report: ReportProgress) -> None:
        """Hash what is there already, so that writing can go on."""
        if self._hashed_bytes == self.size:
            return
        self._digest = hashlib.sha256()
        self._hashed_bytes = 0
        with self._store.translated_errors(0), self.path.open("rb") as stream:
            while piece := stream.read(CHUNK_BYTES):
                self._digest.update(piece)
                self._hashed_bytes += len(piece)
                report(
                    TransferProgress(
                        stage="checking", file=label, done_bytes=self._hashed_bytes, total_bytes=self.size
                    )
                )

    def restart(self) -> None:
        """Throw away what is there."""
        with self._store.translated_errors(0):
            self._stream.truncate(0)
        self._digest = hashlib.sha256()
        self._hashed_bytes = 0
        self.size = 0

    def write(self, piece: bytes, needed_bytes: int) -> None:
        """Add bytes; `needed_bytes` is what the whole file takes, for the error when the disk is full."""
        assert self._hashed_bytes == self.size, "resume or restart first"
        with self._store.translated_errors(max(needed_bytes - self.size, len(piece))):
            self._stream.write(piece)
        self._digest.update(piece)
        self._hashed_bytes += len(piece)
        self.size += len(piece)

    @property
    def sha256(self) -> str:
        """The digest of what is there."""
        return self._digest.hexdigest()

    def publish(self, name: str) -> StoredFile:
        """Flush to disk and give the file its place among the blobs."""
        blob = self._store.blob_path(self.sha256)
        with self._store.translated_errors(self.size):
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            blob.parent.mkdir(parents=True, exist_ok=True)
            self.path.replace(blob)
            sync_folder(blob.parent)
            modified_ns = blob.stat().st_mtime_ns
        return StoredFile(name=name, size_bytes=self.size, sha256=self.sha256, modified_ns=modified_ns)

    def discard(self) -> None:
        """Delete the file; nothing of it can be used."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and keep what is there; an empty one goes."""
        try:
            self._stream.close()
        except OSError:
            # The last bytes did not fit; the next try hashes what did.
            self.size = -1
        if self.size == 0:
            self.path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder last through a power cut."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def human_bytes(size: int) -> str:
    """Write a size for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit in {"B", "kB"} else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError(size)


def _full_disk(root: Path, needed_bytes: int, free_bytes: int) -> StorageError:
    return StorageError(
        f"the disk is full: {human_bytes(needed_bytes)} are needed below {root}, "
        f"{human_bytes(free_bytes)} are free",
        hint="free some room (`appliance rm` removes models), or choose another folder with APPLIANCE_MODELS",
        needed_bytes=needed_bytes,
        free_bytes=free_bytes,
    )


def _link(target: Path, link: Path) -> None:
    if link.exists() and link.samefile(target):
        return
    link.unlink(missing_ok=True)
    try:
        link.hardlink_to(target)
    except OSError:
        link.symlink_to(target.resolve())


def _remove_empty_folder(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
