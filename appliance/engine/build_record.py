"""What is known of compiled engines: the one installed here, and the verdicts on those in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "llama-cpp-python"
VERDICT_FILE = "verdict.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledBuild:
    """The build that `install` put into this environment and that passed its self-test."""

    version: str
    backend: str
    profile: str
    description: str
    key: str
    flags: str
    compiler: str
    processor: str
    features: tuple[str, ...]
    files_digest: str
    self_test: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedVerdict:
    """What the self-test said of a cached wheel."""

    is_fault: bool
    reason: str


def record_path() -> Path:
    """Where the record of this environment's build lies."""
    return Path(sys.prefix) / "share" / "appliance" / "engine-build.json"


def read_installed_build() -> InstalledBuild | None:
    """Read the record; nothing where there is none, it is damaged, or other files were installed since."""
    try:
        values = json.loads(record_path().read_text(encoding="utf-8"))
        build = InstalledBuild(
            **{name.name: values[name.name] for name in fields(InstalledBuild) if name.name != "features"},
            features=tuple(values["features"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return build if build.files_digest == installed_files_digest() else None


def write_installed_build(build: InstalledBuild) -> None:
    """Write the record in one step."""
    write_atomically(record_path(), json.dumps(asdict(build), indent=2))


def forget_installed_build() -> None:
    """Remove the record, before the files it describes change."""
    record_path().unlink(missing_ok=True)


def installed_version() -> str:
    """Version of llama-cpp-python in this environment, empty when there is none."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def installed_files_digest() -> str:
    """Digest of the installed distribution's list of files and their hashes, empty when there is none."""
    try:
        listing = metadata.distribution(DISTRIBUTION).read_text("RECORD")
    except metadata.PackageNotFoundError:
        return ""
    # pip adds lines of compiled bytecode, which say nothing of the build.
    kept = sorted(line for line in (listing or "").splitlines() if "__pycache__" not in line)
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def read_verdict(folder: Path) -> CachedVerdict | None:
    """Read the verdict on the wheel in a cache folder."""
    try:
        values = json.loads((folder / VERDICT_FILE).read_text(encoding="utf-8"))
        return CachedVerdict(is_fault=values["is_fault"] is True, reason=str(values["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_verdict(folder: Path, verdict: CachedVerdict) -> None:
    """Keep the verdict beside the wheel, so that a build known to crash is not tried again."""
    write_atomically(folder / VERDICT_FILE, json.dumps(asdict(verdict)))


def write_atomically(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old or the new text, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
