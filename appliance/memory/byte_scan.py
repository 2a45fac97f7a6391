"""Searches files for texts in every form they may lie there: plain, UTF-16, escaped, base64, compressed."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from appliance.core.errors import InternalError, StorageError
from appliance.storage.failures import translated

_ZLIB_STARTS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x1f\x8b\x08")
_MAX_INFLATED_BYTES = 64 << 20
_PIECE_BYTES = 16 << 10
_WINDOW_BYTES = 32 << 20
_MAX_PIECE_BYTES = 1 << 20
_MIN_NEEDLE_BYTES = 4
# A name is written in several letter cases; a sentence lies where it lay as it was.
_MAX_NAME_CHARACTERS = 40
_DATABASE_ENDS = (".db", ".db-wal", ".db-shm", ".db-journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteHit:
    """A needle in a file, and in which form."""

    path: Path
    needle: str
    form: str


def files_below(folder: Path) -> list[Path]:
    """Return the regular files below a folder, links not followed."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def scan_files(paths: Iterable[Path], needles: Sequence[str]) -> list[ByteHit]:
    """Search files for needles; one hit for each file, needle and form. A file that vanished has none.

    Raises:
        StorageError: a file cannot be read.
    """
    databases: list[Path] = []
    others: list[Path] = []
    for path in paths:
        (databases if path.name.endswith(_DATABASE_ENDS) else others).append(path)
    found_apart = _scan_apart(databases, needles) if any(path.exists() for path in databases) else []
    return found_apart + _scan_here(others, needles)


def main() -> None:
    """Scan the files named on standard input; the entry of the process that reads databases."""
    wanted = json.load(sys.stdin)
    try:
        hits = _scan_here([Path(path) for path in wanted["paths"]], wanted["needles"])
    except StorageError as exc:
        json.dump({"error": str(exc), "hint": exc.hint}, sys.stdout)
        return
    json.dump({"hits": [{**asdict(hit), "path": str(hit.path)} for hit in hits]}, sys.stdout)


def _scan_apart(paths: Sequence[Path], needles: Sequence[str]) -> list[ByteHit]:
    """Scan databases in a process of its own.

    Closing a file drops every lock this process holds on it (POSIX has them so), also those of SQLite;
    another process would then remove the log that is being written.
    """
    wanted = {"paths": [str(path.absolute()) for path in paths], "needles": list(needles)}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "appliance.memory.byte_scan"],
        input=json.dumps(wanted), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise InternalError(f"the search of files for removed texts failed: {done.stderr[-500:]}")
    told = json.loads(done.stdout)
    if "error" in told:
        raise StorageError(told["error"], hint=told["hint"])
    return [ByteHit(path=Path(hit["path"]), needle=hit["needle"], form=hit["form"]) for hit in told["hits"]]


def _scan_here(paths: Iterable[Path], needles: Sequence[str]) -> list[ByteHit]:
    forms = [(needle, name, form) for needle in needles for name, form in needle_forms(needle)]
    hits: list[ByteHit] = []
    for path in paths:
        if path.exists():
            with translated(path, "search a file for removed texts"):
                hits += _scan_file(path, forms)
    return hits


def needle_forms(needle: str) -> list[tuple[str, bytes]]:
    """Return the byte strings that betray a needle."""
    forms: dict[bytes, str] = {}
    for text in _spellings(needle):
        plain = text.encode("utf-8", "replace")
        forms.setdefault(plain, "utf-8")
        forms.setdefault(text.encode("utf-16-le", "replace"), "utf-16-le")
        forms.setdefault(text.encode("utf-16-be", "replace"), "utf-16-be")
        forms.setdefault(json.dumps(text)[1:-1].encode(), "json")
        for shift in range(3):
            forms.setdefault(_base64_core(plain, shift), "base64")
    return [(name, form) for form, name in forms.items() if len(form) >= _MIN_NEEDLE_BYTES]


def _spellings(needle: str) -> list[str]:
    if len(needle) > _MAX_NAME_CHARACTERS:
        return [needle]
    return list(dict.fromkeys((needle, needle.lower(), needle.upper(), needle.title(), needle.casefold())))


def _base64_core(plain: bytes, shift: int) -> bytes:
    """Return the base64 characters that do not depend on what stands before and after."""
    encoded = base64.b64encode(b"\0" * shift + plain)
    first = -(-shift * 4 // 3)
    whole = (shift + len(plain)) // 3 * 4
    return encoded[first:whole]


def _scan_file(path: Path, forms: Sequence[tuple[str, str, bytes]]) -> Iterator[ByteHit]:
    found: set[tuple[str, str]] = set()
    for window in _windows(path, overlap=max((len(form) for _, _, form in forms), default=0) + 2):
        found |= {(needle, name) for needle, name, form in forms if _has(window, form, name)}
        for inflated in _inflated(window):
            found |= {
                (needle, f"compressed {name}") for needle, name, form in forms if _has(inflated, form, name)
            }
    for needle, form_name in sorted(found):
        yield ByteHit(path=path, needle=needle, form=form_name)


def _windows(path: Path, *, overlap: int) -> Iterator[bytes]:
    """Yield a file in pieces that overlap, so that no needle lies across a cut unseen."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        tail = b""
        while piece := file.read(_WINDOW_BYTES):
            window = tail + piece
            yield window
            tail = window[-overlap:]


def _has(content: bytes, form: bytes, name: str) -> bool:
    """Whether the form occurs; in plain text not as a part of a longer word."""
    position = content.find(form)
    while position >= 0:
        before = content[max(0, position - 1) : position]
        after = content[position + len(form) : position + len(form) + 1]
        if name not in ("utf-8", "json") or not (_is_letter(before) or _is_letter(after)):
            return True
        position = content.find(form, position + 1)
    return False


def _is_letter(byte: bytes) -> bool:
    return byte.isalnum()


def _inflated(content: bytes) -> Iterator[bytes]:
    for start in _ZLIB_STARTS:
        position = content.find(start)
        while position >= 0:
            inflated = _inflate(content, position)
            if inflated:
                yield inflated
            position = content.find(start, position + 1)


def _inflate(content: bytes, position: int) -> bytes:
    """Return what a compressed stream at this place holds, up to where it breaks; mostly it is none."""
    # 47 lets zlib recognise a zlib or a gzip header by itself.
    inflater = zlib.decompressobj(47)
    inflated = bytearray()
    try:
        while not inflater.eof and len(inflated) < _MAX_INFLATED_BYTES and position < len(content):
            inflated += inflater.decompress(content[position : position + _PIECE_BYTES], _MAX_PIECE_BYTES)
            position += _PIECE_BYTES
            while inflater.unconsumed_tail and len(inflated) < _MAX_INFLATED_BYTES:
                inflated += inflater.decompress(inflater.unconsumed_tail, _MAX_PIECE_BYTES)
    except zlib.error:
        pass
    return bytes(inflated)


if __name__ == "__main__":
    main()
