"""How long work on weights files reports where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

TransferStage = Literal["waiting", "fetching", "checking", "copying"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferProgress:
    """Where one file stands. `total_bytes` of 0 means not known; `note` is for people."""

    stage: TransferStage
    file: str
    done_bytes: int = 0
    total_bytes: int = 0
    note: str = ""


# May raise to stop the work; what was fetched so far is kept for the next try.
ReportProgress = Callable[[TransferProgress], None]


def ignore_progress(progress: TransferProgress) -> None:
    """Report to nobody."""
