"""Models by name: the cards that are known, the ones in the store, and how one gets there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from appliance.catalog.cards import load_cards
from appliance.catalog.fetch import Fetcher
from appliance.catalog.gguf import read_gguf
from appliance.catalog.gguf_card import card_of_gguf, safe_file_name, weights_file_of
from appliance.catalog.hub import list_hub_files
from appliance.catalog.manifest import Manifest, StoredFile
from appliance.catalog.names import (
    CardName,
    FileName,
    HubName,
    near_names,
    parse_model_name,
    to_safe_part,
)
from appliance.catalog.progress import ReportProgress, ignore_progress
from appliance.catalog.store import ModelStore
from appliance.catalog.transfer import SourceFailedError
from appliance.core.capabilities import ModelCard, WeightsFile
from appliance.core.errors import ModelFileError, ModelNotFoundError, SourceUnavailableError

_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
_DEFAULT_QUANTISATION = "Q4_K_M"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model whose files are on this machine, ready to be loaded.

    `digest` identifies the model in keys and results; it is empty for a file that was named by its path
    and never hashed. `path` is the weights file, or the folder of a model of several files.
    """

    id: str
    card: ModelCard
    digest: str
    path: Path
    files: Mapping[str, Path]
    is_trusted_on_first_use: bool = False

    @property
    def is_gguf(self) -> bool:
        """Say whether the weights are one GGUF file."""
        return self.path.is_file()


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledModel:
    """What a pull did: which files it fetched and which were there."""

    model: LocalModel
    fetched_files: tuple[str, ...]
    kept_files: tuple[str, ...]
    fetched_bytes: int


class Catalog:
    """Finds models by what a user writes, and fetches them."""

    def __init__(self, store: ModelStore, cards: Mapping[str, ModelCard] | None = None) -> None:
        self.store = store
        self.cards = load_cards() if cards is None else cards

    def card(self, text: str) -> ModelCard:
        """Return the card of a name: of the store first, then the ones that come with the appliance.

        Raises:
            ModelNotFoundError: there is none; names the nearest.
        """
        name = parse_model_name(text)
        if isinstance(name, FileName):
            return self._from_path(name.path).card
        stored = self.manifest(text)
        if stored is not None:
            return stored.card
        if isinstance(name, HubName):
            raise ModelNotFoundError(f"{name} is not on this machine", hint=f"`appliance pull {name}`")
        return self._known_card(name)

    def manifest(self, text: str) -> Manifest | None:
        """Return the stored model of a name, or nothing."""
        name = parse_model_name(text)
        match name.kind:
            case "card":
                return self.store.manifest(self._with_tag(name))
            case "hub":
                found = [manifest for manifest in self.store.manifests() if _is_from(manifest, name)]
                return found[0] if len(found) == 1 else None
            case "file":
                return None

    def local(self, text: str) -> LocalModel:
        """Return a model that is on this machine, checked quickly: its files are there and unchanged.

        Raises:
            ModelNotFoundError: the name is unknown, or the model is not on this machine; says which.
            ModelFileError: a file of it changed since it was hashed, or is no GGUF.
        """
        name = parse_model_name(text)
        if isinstance(name, FileName):
            return self._from_path(name.path)
        manifest = self.manifest(text)
        if manifest is not None:
            return self._from_manifest(manifest)
        if isinstance(name, HubName):
            raise ModelNotFoundError(f"{name} is not on this machine", hint=f"`appliance pull {name}`")
        card = self._known_card(name)
        raise ModelNotFoundError(
            f"the weights of {card.id} are not on this machine", hint=f"`appliance pull {card.id}`"
        )

    def pull(
        self, text: str, *, is_offline: bool = False, report: ReportProgress = ignore_progress
    ) -> PulledModel:
        """Bring a model into the store; only what is missing or bad is fetched.

        Raises:
            ModelNotFoundError: the name is unknown; names the nearest.
            SourceUnavailableError: no source had it; lists each with its reason.
            StorageError: the disk is full or cannot be written.
        """
        name = parse_model_name(text)
        if isinstance(name, FileName):
            raise ModelNotFoundError(
                f"{name.path} is a file, there is nothing to pull", hint=f"`appliance import {name.path}`"
            )
        manifest = self.manifest(text)
        if isinstance(name, HubName):
            card = manifest.card if manifest else self._hub_card(name, is_offline=is_offline)
        else:
            card = self._card_to_pull(name, manifest)
        return self._pull_card(card, manifest, is_offline=is_offline, report=report)

    def _with_tag(self, name: CardName) -> CardName:
        """Fill in the tag when only one card of the family is known and none or that one is stored."""
        if name.tag:
            return name
        known = {card_id for card_id in self.cards if card_id.startswith(f"{name.name}:")}
        stored = {manifest.card.id for manifest in self.store.manifests()}
        stored = {card_id for card_id in stored if card_id.startswith(f"{name.name}:")}
        choices = stored or known
        if len(choices) != 1:
            return name
        return CardName(name=name.name, tag=choices.pop().partition(":")[2])

    def _known_card(self, name: CardName) -> ModelCard:
        card = self.cards.get(str(self._with_tag(name)))
        if card is None:
            raise self._unknown(name)
        return card

    def _unknown(self, name: CardName) -> ModelNotFoundError:
        known = [*self.cards, *(manifest.card.id for manifest in self.store.manifests())]
        near = near_names(str(name), known)
        tags = sorted({card_id for card_id in known if card_id.startswith(f"{name.name}:")})
        if tags and not name.tag:
            return ModelNotFoundError(f"{name} has several tags", hint=f"say which: {', '.join(tags)}")
        hint = f"did you mean {', '.join(near)}?" if near else "`appliance list` shows every known model"
        return ModelNotFoundError(f"there is no model {name}", hint=hint)

    def _card_to_pull(self, name: CardName, manifest: Manifest | None) -> ModelCard:
        card = self.cards.get(str(self._with_tag(name)))
        if card is not None:
            return card
        if manifest is not None:
            return manifest.card
        raise self._unknown(name)

    def _pull_card(
        self, card: ModelCard, manifest: Manifest | None, *, is_offline: bool, report: ReportProgress
    ) -> PulledModel:
        fetcher = Fetcher(self.store, is_offline=is_offline, report=report)
        known = {file.name: file for file in manifest.files} if manifest else {}
        stored: list[StoredFile] = []
        fetched: list[str] = []
        for file in card.files:
            outcome = fetcher.fetch(card, file, known.get(file.name))
            stored.append(outcome.stored)
            if not outcome.was_there:
                fetched.append(file.name)
        published = Manifest(
            card=self._completed(card, stored),
            files=tuple(stored),
            origin=manifest.origin if manifest and manifest.origin.startswith("hf.co/") else "card",
            is_trusted_on_first_use=not all(file.sha256 for file in card.files),
        )
        if published != manifest:
            self.store.publish(published)
        return PulledModel(
            model=self._ready(published),
            fetched_files=tuple(fetched),
            kept_files=tuple(file.name for file in card.files if file.name not in fetched),
            fetched_bytes=sum(file.size_bytes for file in stored if file.name in fetched),
        )

    def _completed(self, card: ModelCard, stored: list[StoredFile]) -> ModelCard:
        """Check the header of what was fetched, and fill in what the card left open."""
        if len(stored) != 1 or not stored[0].name.lower().endswith(".gguf"):
            return card
        info = read_gguf(self.store.file_path(stored[0]))
        made = card_of_gguf(info, card_id=card.id, file=card.files[0])
        if not card.capabilities:
            return replace(made, description=card.description, homepage=card.homepage)
        return replace(
            card,
            parameters=card.parameters or made.parameters,
            quantisation=card.quantisation or made.quantisation,
            context_window=card.context_window or made.context_window,
        )

    def _hub_card(self, name: HubName, *, is_offline: bool) -> ModelCard:
        """Find the file of a repository that has the wanted quantisation."""
        if is_offline:
            raise SourceUnavailableError(
                f"{name} cannot be looked up: APPLIANCE_OFFLINE forbids every network source"
            )
        try:
            files = [file for file in list_hub_files(name.repository) if file.path.lower().endswith(".gguf")]
        except SourceFailedError as exc:
            raise SourceUnavailableError(f"{name} cannot be looked up: {exc.reason}") from exc
        whole = [file for file in files if not _SPLIT.search(file.path) and "mmproj" not in file.path.lower()]
        chosen = _matching_quantisation([file.path for file in whole], name.quantisation)
        if chosen is None:
            raise _no_such_file(name, [file.path for file in whole], has_split=len(whole) < len(files))
        file = next(file for file in whole if file.path == chosen)
        return ModelCard(
            id=hub_model_id(name.repository, chosen),
            family="not known",
            parameters=0,
            quantisation="",
            context_window=0,
            licence="not stated",
            capabilities=frozenset(),
            homepage=f"https://huggingface.co/{name.repository}",
            description=f"{chosen} of {name.repository}",
            files=(
                WeightsFile(
                    name=safe_file_name(Path(chosen).name),
                    size_bytes=file.size_bytes,
                    sha256=file.sha256,
                    sources=(f"hf:{name.repository}/{chosen}",),
                ),
            ),
        )

    def _from_path(self, path: Path) -> LocalModel:
        if not path.exists():
            raise ModelNotFoundError(f"there is no file {path}", hint="write the path of a .gguf file")
        if _SPLIT.search(path.name):
            raise split_file_error(path)
        info = read_gguf(path)
        full = path.resolve()
        card = card_of_gguf(info, card_id=f"{to_safe_part(path.stem)}:file", file=weights_file_of(full))
        return LocalModel(id=str(full), card=card, digest="", path=full, files={full.name: full})

    def _from_manifest(self, manifest: Manifest) -> LocalModel:
        changed = [file for file in manifest.files if not self.store.is_unchanged(file)]
        if changed:
            manifest = self._checked_again(manifest, changed)
        return self._ready(self._with_current_card(manifest))

    def _with_current_card(self, manifest: Manifest) -> Manifest:
        """A card that was corrected since the weights were fetched holds for them too, if it names the same bytes."""
        card = self.cards.get(manifest.card.id)
        if card is None or _digests(card.files) != _digests(manifest.files):
            return manifest
        return replace(manifest, card=card)

    def _checked_again(self, manifest: Manifest, changed: list[StoredFile]) -> Manifest:
        """Hash files whose time or size changed; record the new time when the bytes are the same."""
        fresh: dict[str, StoredFile] = {}
        for file in changed:
            path = self.store.file_path(file)
            if not path.is_file():
                raise ModelFileError(
                    f"{path} of {manifest.card.id} is gone", hint=mending_hint(manifest, file)
                )
            if path.stat().st_size != file.size_bytes or self.store.hash_file(path, file.name) != file.sha256:
                raise ModelFileError(
                    f"{path} of {manifest.card.id} changed since it was checked",
                    hint=mending_hint(manifest, file),
                )
            fresh[file.name] = replace(file, modified_ns=path.stat().st_mtime_ns)
        renewed = replace(manifest, files=tuple(fresh.get(file.name, file) for file in manifest.files))
        self.store.publish(renewed)
        return renewed

    def _ready(self, manifest: Manifest) -> LocalModel:
        paths = {file.name: self.store.file_path(file) for file in manifest.files}
        is_single = len(paths) == 1
        path = next(iter(paths.values())) if is_single else self.store.folder(manifest)
        return LocalModel(
            id=manifest.card.id,
            card=manifest.card,
            digest=manifest.digest,
            path=path,
            files=paths if is_single else {name: path / name for name in paths},
            is_trusted_on_first_use=manifest.is_trusted_on_first_use,
        )


def hub_model_id(repository: str, file: str) -> str:
    """Name a file of the hub in the store: user.repository:quantisation-or-file."""
    user, _, name = repository.partition("/")
    stem = Path(file).stem
    tag = stem
    base = re.sub(r"-gguf$", "", name, flags=re.IGNORECASE)
    if stem.lower().startswith(base.lower()) and len(stem) > len(base) + 1:
        tag = stem[len(base) + 1 :]
    return f"{to_safe_part(f'{user}.{name}')}:{to_safe_part(tag)}"


def mending_hint(manifest: Manifest, file: StoredFile) -> str:
    """Say how a bad file is mended."""
    if file.path:
        return (
            f"`appliance import {file.path} --in-place --as {manifest.card.id}` takes the file as it is now"
        )
    if any(weights.sources for weights in manifest.card.files):
        return f"`appliance pull {manifest.card.id}` fetches that file again"
    return f"`appliance import PATH --as {manifest.card.id}` with a good copy"


def split_file_error(path: Path) -> ModelFileError:
    """Say that a model in several files has to be joined first."""
    return ModelFileError(
        f"{path.name} is one part of a model that is split over several files, which is not supported",
        hint="join them: llama-gguf-split --merge FIRST_PART OUT.gguf",
    )


def _is_from(manifest: Manifest, name: HubName) -> bool:
    prefix = f"hf:{name.repository}/"
    sources = [source for file in manifest.card.files for source in file.sources if source.startswith(prefix)]
    if not name.quantisation:
        return bool(sources)
    return (
        _matching_quantisation([source.removeprefix(prefix) for source in sources], name.quantisation)
        is not None
    )


def _matching_quantisation(paths: list[str], wanted: str) -> str | None:
    """Choose the file by its whole name, or by the quantisation in it; the usual one when none is wanted."""
    for path in paths:
        if wanted and wanted.lower() in {path.lower(), Path(path).name.lower(), Path(path).stem.lower()}:
            return path
    if not wanted and len(paths) == 1:
        return paths[0]
    quantisation = re.escape((wanted or _DEFAULT_QUANTISATION).lower())
    pattern = re.compile(rf"(?<![a-z0-9]){quantisation}(?![a-z0-9_])")
    matches = sorted((path for path in paths if pattern.search(path.lower())), key=len)
    return matches[0] if matches else None


def _no_such_file(name: HubName, paths: list[str], *, has_split: bool) -> ModelNotFoundError:
    if not paths:
        what = "only files split in parts" if has_split else "no .gguf files"
        return ModelNotFoundError(f"{name.repository} has {what}", hint="choose another repository")
    listed = ", ".join(Path(path).name for path in sorted(paths)[:12])
    return ModelNotFoundError(
        f"{name.repository} has no file for {name.quantisation or _DEFAULT_QUANTISATION}",
        hint=f"it has {listed}",
    )


def _digests(files: Sequence[WeightsFile | StoredFile]) -> dict[str, str]:
    return {file.name: file.sha256 for file in files}
