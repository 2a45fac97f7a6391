"""KV prefixes on disk: saved between runs, found by their exact tokens, never trusted without a check.

One file holds one sequence: a JSON header line, the tokens, the cells as llama.cpp serialises them, and the sha256
of all before it. A file is used only where model digest, library build, cache types and owner are the same and the
checksum holds; anything else is a miss.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    TokenArray = NDArray[np.int32]

_MAGIC = b"appliance-kv-1\n"
_HEADER_LIMIT_BYTES = 1 << 16
_DIGEST_BYTES = 32
_SUFFIX = ".kv"


@dataclass(slots=True)
class _SavedPrefix:
    path: Path
    owner_key: str
    tokens: TokenArray
    size_bytes: int
    used_at_ns: int


class PrefixStore:
    """Saved prefixes of one model under one set of context parameters.

    Args:
        folder: where files lie; made with access for its user alone.
        identity: everything besides the tokens that the cells depend on.
        limit_bytes: the most that all files together may take; the longest unused go first.
    """

    def __init__(self, folder: Path, *, identity: dict[str, str], limit_bytes: int) -> None:
        self._folder = folder
        self._identity = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self._limit_bytes = limit_bytes
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._saved = [
            prefix for path in folder.rglob(f"*{_SUFFIX}") if (prefix := self._read_or_delete(path))
        ]

    @property
    def count(self) -> int:
        """Number of saved prefixes that can be used here."""
        return sum(1 for prefix in self._saved if len(prefix.tokens))

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, those of other builds and settings too."""
        return sum(prefix.size_bytes for prefix in self._saved)

    def longest_match(self, owner: str, tokens: TokenArray) -> int:
        """Length in tokens of the longest saved prefix that could be restored for this prompt."""
        return self._find(owner, tokens)[1]

    def holds(self, owner: str, tokens: TokenArray) -> bool:
        """Whether all these tokens are saved already."""
        return self._find(owner, tokens)[1] >= len(tokens)

    def restore(self, owner: str, tokens: TokenArray) -> tuple[TokenArray, bytearray] | None:
        """Read the best prefix for a prompt: its tokens and its cells. A damaged file is deleted and a miss."""
        prefix, _ = self._find(owner, tokens)
        if prefix is None:
            return None
        state = self._read_state(prefix)
        if state is None:
            self._drop(prefix)
            return None
        with suppress(OSError):
            os.utime(prefix.path)
            prefix.used_at_ns = prefix.path.stat().st_mtime_ns
        return prefix.tokens, state

    def save(self, owner: str, tokens: TokenArray, state: bytes | bytearray) -> None:
        """Write a prefix; shorter ones that it contains go.

        Raises:
            OSError: the disk is full or the folder cannot be written. Nothing half-written is left.
        """
        owner_key = _owner_key(owner)
        header = json.dumps({"identity": self._identity, "owner": owner_key, "tokens": len(tokens)}).encode()
        body = _MAGIC + header + b"\n" + tokens.astype("<i4").tobytes() + state
        if len(body) > self._limit_bytes:
            return
        name = hashlib.sha256(self._identity.encode() + tokens.tobytes()).hexdigest()[:32] + _SUFFIX
        folder = self._folder / owner_key
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_atomically(folder / name, body + hashlib.sha256(body).digest())
        self._drop_contained(owner_key, tokens)
        saved = self._read_or_delete(folder / name)
        if saved is not None:
            self._saved.append(saved)
        self._shrink()

    def forget(self, owner: str) -> int:
        """Delete every prefix of an owner, those of other processes too; return how many there were.

        Raises:
            OSError: a file cannot be deleted.
        """
        owner_key = _owner_key(owner)
        self._saved = [prefix for prefix in self._saved if prefix.owner_key != owner_key]
        paths = list((self._folder / owner_key).glob(f"*{_SUFFIX}"))
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)

    def _find(self, owner: str, tokens: TokenArray) -> tuple[_SavedPrefix | None, int]:
        owner_key = _owner_key(owner)
        best: _SavedPrefix | None = None
        best_length = 0
        for prefix in self._saved:
            if prefix.owner_key == owner_key:
                length = common_prefix(prefix.tokens, tokens)
                if length > best_length:
                    best, best_length = prefix, length
        return best, best_length

    def _read_or_delete(self, path: Path) -> _SavedPrefix | None:
        """Read the head of a file; a damaged one is deleted. One of another identity counts only for its size."""
        try:
            with path.open("rb") as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    raise ValueError("not a saved prefix")
                header = json.loads(file.readline(_HEADER_LIMIT_BYTES))
                if header["owner"] != path.parent.name:
                    raise ValueError("in the folder of another owner")
                is_usable = header["identity"] == self._identity
                token_count = int(header["tokens"])
                if not 0 <= 4 * token_count <= os.fstat(file.fileno()).st_size:
                    raise ValueError("more tokens than the file holds")
                tokens = np.frombuffer(file.read(4 * token_count), "<i4").astype(np.int32)
                if len(tokens) != token_count:
                    raise ValueError("truncated")
            stat = path.stat()
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            with suppress(OSError):
                path.unlink()
            return None
        return _SavedPrefix(
            path, path.parent.name, tokens if is_usable else tokens[:0], stat.st_size, stat.st_mtime_ns
        )

    def _read_state(self, prefix: _SavedPrefix) -> bytearray | None:
        try:
            data = prefix.path.read_bytes()
        except OSError:
            return None
        body, checksum = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != checksum:
            return None
        header_end = body.find(b"\n", len(_MAGIC)) + 1
        tokens_end = header_end + 4 * len(prefix.tokens)
        if body[header_end:tokens_end] != prefix.tokens.astype("<i4").tobytes():
            return None
        return bytearray(memoryview(body)[tokens_end:])

    def _drop_contained(self, owner_key: str, tokens: TokenArray) -> None:
        for prefix in list(self._saved):
            is_contained = 0 < common_prefix(prefix.tokens, tokens) == len(prefix.tokens) < len(tokens)
            if prefix.owner_key == owner_key and is_contained:
                self._drop(prefix)

    def _shrink(self) -> None:
        self._saved.sort(key=lambda prefix: prefix.used_at_ns)
        while self.size_bytes > self._limit_bytes and len(self._saved) > 1:
            self._drop(self._saved[0])

    def _drop(self, prefix: _SavedPrefix) -> None:
        self._saved.remove(prefix)
        with suppress(OSError):  # a file that cannot be deleted is not used again
            prefix.path.unlink()


def common_prefix(first: TokenArray, second: TokenArray) -> int:
    """Number of leading tokens two arrays share."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if different.size else length


def _owner_key(owner: str) -> str:
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _write_atomically(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)  # not synced: a torn file fails its checksum and is only a miss
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
