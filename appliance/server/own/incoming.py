"""A file that comes in over HTTP: on disk for as long as it is read, in a folder only this user can enter."""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.server.problems import refused

_FOLDER = "incoming"
_MAX_NAME_BYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingFile:
    """Where the bytes lie now, and what names the document from now on."""

    path: Path
    source: str


@asynccontextmanager
async def incoming_file(
    data_dir: Path, name: str, chunks: AsyncIterator[bytes]
) -> AsyncIterator[IncomingFile]:
    """Write a body to a file of the given name, and remove it when the block ends.

    Raises:
        InvalidRequestError: the name cannot be one of a file.
    """
    _check_name(name)
    folder = data_dir / _FOLDER / uuid.uuid4().hex
    path = folder / name
    try:
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            async for chunk in chunks:
                await asyncio.to_thread(file.write, chunk)
        yield IncomingFile(path=path, source=f"upload:{name}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_over(data_dir: Path) -> None:
    """Remove files that were coming in when an earlier process died."""
    shutil.rmtree(data_dir / _FOLDER, ignore_errors=True)


def _check_name(name: str) -> None:
    is_plain = name.isprintable() and not set(name) & set("/\\\0") and not name.startswith(".")
    try:
        is_short = len(name.encode()) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:
        is_short = False
    if not (is_plain and is_short and name.strip() == name):
        raise refused(
            f"{name[:80]!r} cannot be the name of a document",
            param="name",
            code="invalid_value",
            hint=f"use a file name such as report.pdf, of at most {_MAX_NAME_BYTES} bytes",
        )
