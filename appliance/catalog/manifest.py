"""The record of a stored model: its card, and its files with their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from appliance.catalog.cards import card_from_values, card_to_values
from appliance.core.capabilities import ModelCard

MANIFEST_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file of a stored model.

    `path` is empty for a blob, else where the file lies that was taken in place. `modified_ns` is the
    file's modification time when it was last hashed; 0 asks for hashing again.
    """

    name: str
    size_bytes: int
    sha256: str
    modified_ns: int
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A stored model. `is_trusted_on_first_use` says that no published digest was there to compare with."""

    card: ModelCard
    files: tuple[StoredFile, ...]
    origin: str
    is_trusted_on_first_use: bool = False

    @property
    def digest(self) -> str:
        """The sha256 that identifies the model: of its file, or of the list of its files."""
        if len(self.files) == 1:
            return self.files[0].sha256
        listed = "".join(f"{file.sha256}  {file.name}\n" for file in sorted(self.files, key=lambda f: f.name))
        return hashlib.sha256(listed.encode()).hexdigest()

    @property
    def size_bytes(self) -> int:
        """Bytes of all files together."""
        return sum(file.size_bytes for file in self.files)


def manifest_to_values(manifest: Manifest) -> dict[str, object]:
    """Return the manifest as the plain table that `manifest_from_values` reads."""
    return {
        "format": MANIFEST_FORMAT,
        "origin": manifest.origin,
        "is_trusted_on_first_use": manifest.is_trusted_on_first_use,
        "files": [
            {
                "name": file.name, "size_bytes": file.size_bytes, "sha256": file.sha256,
                "modified_ns": file.modified_ns, "path": file.path,
            }
            for file in manifest.files
        ],
        "card": card_to_values(manifest.card),
    }  # fmt: skip


def manifest_from_values(values: object, origin: str) -> Manifest:
    """Build a manifest from parsed JSON.

    Raises:
        ValueError: its format or a value of it is not right; TypeError and KeyError likewise.
        ConfigError: its card is not valid.
    """
    if not isinstance(values, dict) or values.get("format") != MANIFEST_FORMAT:
        raise ValueError("it has an unknown format")
    files = cast("list[Mapping[str, object]]", values["files"])
    manifest = Manifest(
        card=card_from_values(values["card"], origin),
        files=tuple(_stored_file(file) for file in files),
        origin=str(values["origin"]),
        is_trusted_on_first_use=values["is_trusted_on_first_use"] is True,
    )
    if not manifest.files:
        raise ValueError("it lists no files")
    return manifest


def _stored_file(values: Mapping[str, object]) -> StoredFile:
    name, sha256, path = values["name"], values["sha256"], values["path"]
    size, modified = values["size_bytes"], values["modified_ns"]
    if not (isinstance(name, str) and isinstance(sha256, str) and isinstance(path, str)):
        raise TypeError("a file's name, sha256 and path must be texts")
    if not (isinstance(size, int) and isinstance(modified, int)) or "/" in name or name in {"", ".", ".."}:
        raise TypeError("a file's size and time must be numbers, its name a plain one")
    if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        raise ValueError("a file's sha256 is malformed")
    return StoredFile(name=name, size_bytes=size, sha256=sha256, modified_ns=modified, path=path)
