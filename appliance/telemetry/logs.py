"""Structured logs: one JSON object a line, in files that rotate, without a word of what was asked or answered."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import traceback
from datetime import UTC, datetime
from pathlib import Path

LOG_FILE = "appliance.jsonl"

_LARGEST_FILE_BYTES = 4 << 20
_KEPT_FILES = 4
_ROOT = "appliance"


class JsonLinesHandler(logging.Handler):
    """Appends to a file that several processes share; opened for each line, rotated under a lock."""

    def __init__(self, path: Path, *, largest_bytes: int = _LARGEST_FILE_BYTES) -> None:
        super().__init__()
        self._path = path
        self._largest_bytes = largest_bytes

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. A log that cannot be written must not end what is logged."""
        try:
            self._write(json.dumps(_fields(record)) + "\n")
        except (OSError, ValueError, TypeError):
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  the library's name
        """Drop the line: standard error belongs to the answer's reader."""

    def _write(self, line: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._rotate_if_full(len(line))
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, line.encode("utf-8", "replace"))
            finally:
                os.close(file)
        finally:
            os.close(lock)

    def _rotate_if_full(self, more_bytes: int) -> None:
        if not self._path.exists() or self._path.stat().st_size + more_bytes <= self._largest_bytes:
            return
        for number in range(_KEPT_FILES - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self._path if number == 0 else self._path.with_name(f"{self._path.name}.{number}")


def attach_logs(folder: Path, level: str) -> logging.Handler:
    """Send the appliance's own log lines of this level and above to the folder."""
    handler = JsonLinesHandler(folder / LOG_FILE)
    handler.setLevel(level.upper())
    logger = logging.getLogger(_ROOT)
    logger.addHandler(handler)
    logger.setLevel(handler.level)
    return handler


def detach_logs(handler: logging.Handler) -> None:
    """Stop sending log lines there."""
    logging.getLogger(_ROOT).removeHandler(handler)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
        "process": record.process,
    }
    if record.exc_info and record.exc_info[0] is not None:
        # The exception's own text may quote a prompt or an answer.
        fields["exception"] = record.exc_info[0].__name__
        fields["frames"] = [
            f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(record.exc_info[2])
        ]
    return fields
