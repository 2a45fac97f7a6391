"""One try to bring one file in from one source, and how such a try fails."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from appliance.catalog.progress import ReportProgress, TransferProgress
from appliance.catalog.source_syntax import Source
from appliance.catalog.store import ModelStore, PartialFile
from appliance.core.capabilities import WeightsFile


class SourceFailedError(Exception):
    """A source cannot give the file; `reason` says why. Never leaves the catalog."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What a source needs to deliver: the wanted file, where its bytes go, whom to tell."""

    store: ModelStore
    file: WeightsFile
    partial: PartialFile
    key: str
    source: Source
    report: ReportProgress

    @property
    def staging(self) -> Path:
        """A folder for what is needed meanwhile; kept between tries, gone when the file is in the store."""
        return self.store.staging_folder(f"{self.key[:60]}.d")

    def expect(self, total_bytes: int) -> None:
        """Refuse a source of the wrong size, or one that will not fit on the disk, before it is read."""
        if self.file.size_bytes and total_bytes and total_bytes != self.file.size_bytes:
            raise SourceFailedError(f"has {total_bytes} bytes, the card says {self.file.size_bytes}")
        self.store.require_space(total_bytes - self.partial.size)

    def write(self, piece: bytes, total_bytes: int) -> None:
        """Add bytes to the file and report."""
        self.partial.write(piece, total_bytes)
        self.tell(self.partial.size, total_bytes)

    def tell(self, done_bytes: int, total_bytes: int, note: str = "") -> None:
        """Report how much of the file is there."""
        self.report(
            TransferProgress(
                stage="fetching",
                file=self.file.name,
                done_bytes=done_bytes,
                total_bytes=total_bytes,
                note=note,
            )
        )

    def clean_up(self) -> None:
        """Remove what was kept for another try."""
        shutil.rmtree(self.store.root / "partial" / f"{self.key[:60]}.d", ignore_errors=True)
