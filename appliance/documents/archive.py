"""Reads parts of a ZIP file by name without ever unpacking to disk, within limits on count and size."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib

from appliance.documents.limits import Limits
from appliance.documents.reasons import RefusalError

_BLOCK_BYTES = 1 << 16
# Deflate cannot honestly shrink office XML much further than this; a bomb reaches 1,000.
_MAX_RATIO = 400
_RATIO_MATTERS_FROM_BYTES = 32 << 20
_ENCRYPTED_FLAG = 0x1


class Archive:
    """The parts of a ZIP file. Names are keys only, never paths of this machine."""

    def __init__(self, data: bytes | memoryview, limits: Limits) -> None:
        self._limits = limits
        self._remaining_bytes = limits.unpacked_bytes
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            entries = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, UnicodeError) as exc:
            raise RefusalError("damaged", f"the ZIP container is damaged: {exc}") from exc
        if len(entries) > limits.archive_entries:
            raise RefusalError("archive_bomb", f"it packs {len(entries):,} files")
        self._entries = {_normal(entry.filename): entry for entry in entries}

    @property
    def names(self) -> list[str]:
        """The names of all parts, in the archive's order."""
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return _normal(name) in self._entries

    def size(self, name: str) -> int:
        """The declared size of a part in bytes."""
        return self._entries[_normal(name)].file_size

    def read(self, name: str) -> bytes:
        """Read one part.

        Raises:
            RefusalError: it is missing, encrypted, damaged, or unpacks to more than the limits allow.
        """
        entry = self._entries.get(_normal(name))
        if entry is None:
            raise RefusalError("damaged", f"the part {name!r} is missing")
        if entry.flag_bits & _ENCRYPTED_FLAG:
            raise RefusalError("encrypted", "its parts are encrypted")
        try:
            return self._inflate(entry)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError) as exc:
            raise RefusalError("damaged", f"the part {name!r} is damaged: {exc}") from exc

    def _inflate(self, entry: zipfile.ZipInfo) -> bytes:
        found = bytearray()
        bound = max(_RATIO_MATTERS_FROM_BYTES, entry.compress_size * _MAX_RATIO)
        with self._zip.open(entry) as stream:
            while block := stream.read(_BLOCK_BYTES):
                found += block
                self._remaining_bytes -= len(block)
                if self._remaining_bytes < 0 or len(found) > bound:
                    raise RefusalError("archive_bomb", f"the part {entry.filename!r} unpacks without end")
        return bytes(found)


def resolve(base: str, target: str) -> str:
    """The part a relative target names, seen from the part `base`; never above the archive's root."""
    if target.startswith("/"):
        return _normal(target)
    return _normal(posixpath.join(posixpath.dirname(base), target))


def _normal(name: str) -> str:
    path = posixpath.normpath("/" + name.replace("\\", "/"))
    return path.lstrip("/").casefold()
