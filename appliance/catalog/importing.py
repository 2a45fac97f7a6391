"""Takes GGUF files that are already on this machine into the store: copied, linked or left in place."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from appliance.catalog.catalog import Catalog, split_file_error
from appliance.catalog.gguf import GgufInfo, read_gguf
from appliance.catalog.gguf_card import card_of_gguf, weights_file_of
from appliance.catalog.manifest import Manifest, StoredFile
from appliance.catalog.names import NAME_HINT, CardName, parse_card_name, to_safe_part
from appliance.catalog.progress import ReportProgress, TransferProgress, ignore_progress
from appliance.catalog.store import CHUNK_BYTES
from appliance.core.capabilities import ModelCard
from appliance.core.errors import InvalidRequestError, ModelFileError, ModelNotFoundError, StorageError

ImportMode = Literal["copy", "link", "in_place"]

_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedModel:
    """What an import did. `was_there` says that the store had this model already."""

    id: str
    digest: str
    size_bytes: int
    mode: ImportMode
    was_there: bool


def import_gguf(
    catalog: Catalog,
    path: Path,
    *,
    name: str = "",
    mode: ImportMode = "copy",
    report: ReportProgress = ignore_progress,
) -> ImportedModel:
    """Take a GGUF file into the store under a name, or under one made from its own facts.

    Raises:
        ModelNotFoundError: there is no such file.
        ModelFileError: the file is damaged, split or not a GGUF.
        InvalidRequestError: the name is taken by another model.
        StorageError: the disk is full, or a link cannot be made.
    """
    wanted = _wanted_name(name)
    info = _checked_info(path)
    full = path.resolve()
    stored = _take(catalog, full, mode, report)
    card = _card_for(catalog, full, info, stored, wanted)
    existing = catalog.store.manifest(parse_card_name(card.id))
    if existing is not None and existing.digest == stored.sha256 and existing.files[0].path == stored.path:
        return _outcome(card.id, stored, mode, was_there=True)
    files = (replace(stored, name=card.files[0].name),)
    catalog.store.publish(Manifest(card=card, files=files, origin=f"import:{full}"))
    return _outcome(card.id, stored, mode, was_there=False)


def _outcome(card_id: str, stored: StoredFile, mode: ImportMode, *, was_there: bool) -> ImportedModel:
    return ImportedModel(
        id=card_id, digest=stored.sha256, size_bytes=stored.size_bytes, mode=mode, was_there=was_there
    )


def _wanted_name(text: str) -> CardName | None:
    if not text:
        return None
    name = parse_card_name(text)
    if not name.tag:
        raise InvalidRequestError(f"{text!r} has no tag", hint=NAME_HINT)
    return name


def _checked_info(path: Path) -> GgufInfo:
    if not path.exists():
        raise ModelNotFoundError(f"there is no file {path}")
    if path.is_dir() and (path / "model.onnx").is_file():
        raise ModelFileError(
            f"{path} holds a model in ONNX; import takes GGUF files",
            hint="write a card that names its files with sources such as "
            f"'file:{path / 'model.onnx'}' into the folder `cards` beside the data; then `appliance pull` takes it",
        )
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder", hint="name the .gguf file in it")
    if _SPLIT.search(path.name):
        raise split_file_error(path)
    info = read_gguf(path)
    if info.split_count > 1:
        raise split_file_error(path)
    return info


def _take(catalog: Catalog, path: Path, mode: ImportMode, report: ReportProgress) -> StoredFile:
    if mode == "copy":
        return _copy(catalog, path, report)
    before = path.stat()
    sha256 = catalog.store.hash_file(path, path.name, report)
    after = path.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ModelFileError(f"{path} changed while it was read", hint="import it when it is complete")
    stored = StoredFile(
        name=path.name,
        size_bytes=after.st_size,
        sha256=sha256,
        modified_ns=after.st_mtime_ns,
        path=str(path) if mode == "in_place" else "",
    )
    if mode == "link":
        return _link(catalog, path, stored)
    return stored


def _copy(catalog: Catalog, path: Path, report: ReportProgress) -> StoredFile:
    store = catalog.store
    key = f"import-{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:40]}"
    with store.lock(key), store.partial(key) as partial, path.open("rb") as source:
        total = path.stat().st_size
        partial.restart()
        store.require_space(total)
        while True:
            with store.translated_errors(total):
                piece = source.read(CHUNK_BYTES)
            if not piece:
                break
            partial.write(piece, total)
            report(
                TransferProgress(stage="copying", file=path.name, done_bytes=partial.size, total_bytes=total)
            )
        if partial.size != total:
            partial.discard()
            raise ModelFileError(f"{path} changed while it was read", hint="import it when it is complete")
        return partial.publish(path.name)


def _link(catalog: Catalog, path: Path, stored: StoredFile) -> StoredFile:
    store = catalog.store
    blob = store.blob_path(stored.sha256)
    with store.lock(stored.sha256), store.translated_errors(0):
        if blob.is_file() and blob.stat().st_size == stored.size_bytes:
            return replace(stored, modified_ns=blob.stat().st_mtime_ns)
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.unlink(missing_ok=True)
        try:
            blob.hardlink_to(path)
        except OSError as exc:
            raise StorageError(
                f"{path} cannot be linked into {store.root}: {exc.strerror}",
                hint="a hard link needs one file system: copy the file, or import it with --in-place",
            ) from exc
    return stored


def _card_for(
    catalog: Catalog, path: Path, info: GgufInfo, stored: StoredFile, wanted: CardName | None
) -> ModelCard:
    """Use the known card of these very bytes, else make one from the header."""
    known = _card_with_digest(catalog, stored.sha256)
    if wanted is None and known is not None:
        return known
    if wanted is not None:
        _refuse_taken_name(catalog, wanted, stored)
    if wanted is not None and known is not None and known.id == str(wanted):
        return known
    card_id = str(wanted) if wanted else _free_name(catalog, path, info, stored)
    return card_of_gguf(info, card_id=card_id, file=weights_file_of(path, sha256=stored.sha256))


def _card_with_digest(catalog: Catalog, sha256: str) -> ModelCard | None:
    for card in catalog.cards.values():
        if len(card.files) == 1 and card.files[0].sha256 == sha256:
            return card
    return None


def _refuse_taken_name(catalog: Catalog, wanted: CardName, stored: StoredFile) -> None:
    existing = catalog.store.manifest(wanted)
    if existing is not None and existing.digest != stored.sha256:
        raise InvalidRequestError(
            f"{wanted} is another model already",
            hint=f"choose another name, or `appliance rm {wanted}` first",
        )
    card = catalog.cards.get(str(wanted))
    if card is not None and any(file.sha256 not in {"", stored.sha256} for file in card.files):
        raise InvalidRequestError(
            f"{wanted} is the name of a known model whose weights have another sha256",
            hint="choose another name with --as",
        )


def _free_name(catalog: Catalog, path: Path, info: GgufInfo, stored: StoredFile) -> str:
    tag = to_safe_part(info.quantisation)
    quantisation = re.escape(info.quantisation.lower())
    stem = re.sub(rf"[-._]?{quantisation}$", "", path.stem.lower())
    if re.fullmatch(r"sha256-[0-9a-f]{64}(\.)?", path.name):
        stem = info.name or info.architecture
    name = to_safe_part(stem)
    for choice in (f"{name}:{tag}", f"{name}:{to_safe_part(tag, limit=50)}-{stored.sha256[:12]}"):
        existing = catalog.store.manifest(parse_card_name(choice))
        if choice not in catalog.cards and (existing is None or existing.digest == stored.sha256):
            return choice
    return f"{name}:{stored.sha256[:40]}"
