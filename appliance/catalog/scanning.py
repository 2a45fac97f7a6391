"""Finds GGUF files that LM Studio, Ollama and the Hugging Face library keep on this machine."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.catalog.gguf import GgufInfo, read_gguf
from appliance.catalog.names import to_safe_part
from appliance.core.errors import ModelFileError

Keeper = Literal["lm-studio", "ollama", "hugging-face"]

_DEEPEST_FOLDER = 6
_LARGEST_MANIFEST_BYTES = 1 << 20
_OLLAMA_WEIGHTS = "application/vnd.ollama.image.model"
_OLLAMA_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_NOT_LANGUAGE_MODELS = {"clip", "adapter", "imatrix"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model another program keeps. `problem` says why its file cannot be used, if so."""

    keeper: Keeper
    name: str
    path: Path
    size_bytes: int
    info: GgufInfo | None
    problem: str


def scan(environment: Mapping[str, str] | None = None) -> list[FoundModel]:
    """Look through the usual folders, which the programs' own environment variables can move."""
    places = _Places(os.environ if environment is None else environment)
    found: list[FoundModel] = []
    seen: set[Path] = set()
    for keeper, name, path in _candidates(places):
        resolved = path.resolve()
        if resolved in seen or not resolved.is_file():
            continue
        seen.add(resolved)
        model = _looked_at(keeper, name, resolved)
        if model is not None:
            found.append(model)
    return found


def _candidates(places: _Places) -> Iterator[tuple[Keeper, str, Path]]:
    for folder in places.ollama():
        yield from _ollama_models(folder)
    for folder in places.lm_studio():
        for path in _gguf_files(folder):
            yield "lm-studio", path.stem, path
    for folder in places.hugging_face():
        for path in _gguf_files(folder):
            yield "hugging-face", path.stem, path


class _Places:
    """Where each program keeps its models."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._home = Path(environment.get("HOME") or Path.home())

    def _stated(self, *names: str) -> Path | None:
        for name in names:
            if value := self._environment.get(name, ""):
                return self._home / value[2:] if value.startswith("~/") else Path(value)
        return None

    def ollama(self) -> list[Path]:
        stated = self._stated("OLLAMA_MODELS")
        if stated:
            return [stated]
        return [self._home / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]

    def lm_studio(self) -> list[Path]:
        pointer = self._home / ".lmstudio-home-pointer"
        folders = [self._home / ".lmstudio" / "models", self._home / ".cache" / "lm-studio" / "models"]
        stated = self._stated("LMSTUDIO_HOME", "LM_STUDIO_HOME")
        if stated:
            folders.insert(0, stated / "models")
        try:
            folders.insert(0, Path(pointer.read_text(encoding="utf-8").strip()) / "models")
        except (OSError, ValueError):
            return folders
        return folders

    def hugging_face(self) -> list[Path]:
        cache = self._stated("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
        if cache:
            return [cache]
        home = self._stated("HF_HOME")
        if home:
            return [home / "hub"]
        base = self._stated("XDG_CACHE_HOME") or self._home / ".cache"
        return [base / "huggingface" / "hub"]


def _gguf_files(folder: Path) -> Iterator[Path]:
    root_depth = len(folder.parts)
    for current, folders, names in os.walk(folder):
        here = Path(current)
        folders.sort()
        if len(here.parts) - root_depth >= _DEEPEST_FOLDER:
            folders.clear()
        yield from (here / name for name in sorted(names) if name.lower().endswith(".gguf"))


def _ollama_models(folder: Path) -> Iterator[tuple[Keeper, str, Path]]:
    manifests = folder / "manifests"
    for current, folders, names in os.walk(manifests):
        folders.sort()
        for file_name in sorted(names):
            manifest = Path(current) / file_name
            digest = _ollama_weights_digest(manifest)
            if digest:
                blob = folder / "blobs" / f"sha256-{digest}"
                older = folder / "blobs" / f"sha256:{digest}"
                name = _ollama_name(manifest.relative_to(manifests))
                yield "ollama", name, blob if blob.is_file() else older


def _ollama_weights_digest(manifest: Path) -> str:
    """Return the sha256 of the weights a manifest names; nothing when it is none or damaged."""
    try:
        if manifest.stat().st_size > _LARGEST_MANIFEST_BYTES:
            return ""
        layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
        for layer in layers:
            if layer["mediaType"] == _OLLAMA_WEIGHTS:
                match = _OLLAMA_DIGEST.fullmatch(layer["digest"])
                return match[1] if match else ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return ""


def _ollama_name(manifest: Path) -> str:
    """Turn HOST/NAMESPACE/MODEL/TAG into a name; the usual host and namespace are left out."""
    *context, model, tag = manifest.parts if len(manifest.parts) >= 2 else ("", *manifest.parts)
    owner = [part for part in context[1:] if part != "library"]
    return f"{to_safe_part('.'.join([*owner, model]))}:{to_safe_part(tag)}"


def _looked_at(keeper: Keeper, name: str, path: Path) -> FoundModel | None:
    size = path.stat().st_size
    try:
        info = read_gguf(path)
    except ModelFileError as exc:
        return FoundModel(
            keeper=keeper, name=name, path=path, size_bytes=size, info=None, problem=exc.message
        )
    if info.architecture in _NOT_LANGUAGE_MODELS:
        return None
    problem = "split over several files" if info.split_count > 1 else ""
    return FoundModel(keeper=keeper, name=name, path=path, size_bytes=size, info=info, problem=problem)
