"""Reads model cards, strictly: an unknown key or a wrong type is an error that names the file and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import cast, get_args

from appliance.catalog.names import parse_card_name
from appliance.catalog.source_syntax import parse_source
from appliance.core.capabilities import Capability, ModelCard, Pooling, WeightsFile
from appliance.core.errors import ConfigError, ModelNotFoundError

_CARD_KEYS = (
    "id", "family", "parameters", "quantisation", "context_window", "licence", "capabilities", "files",
    "description", "homepage", "chat_template", "reasoning_tags", "embedding_dimension", "max_input_tokens",
    "query_prefix", "passage_prefix", "pooling", "languages", "is_verified_here",
)  # fmt: skip
_FILE_KEYS = ("name", "size_bytes", "sha256", "sources")
_CAPABILITIES: tuple[str, ...] = get_args(Capability)
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def load_cards(*folders: Path) -> dict[str, ModelCard]:
    """Read the cards that come with the appliance, then those of the folders, which win.

    Raises:
        ConfigError: a card is not valid; the message names the file and the key.
    """
    cards = {card.id: card for card in _shipped_cards()}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            card = read_card(_text_of(path), str(path))
            cards[card.id] = card
    return cards


def read_card(text: str, origin: str) -> ModelCard:
    """Parse one card; `origin` names it in errors.

    Raises:
        ConfigError: the text is not a valid card.
    """
    try:
        values: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{origin} is not valid TOML: {exc}") from exc
    return card_from_values(values, origin)


def card_from_values(values: Mapping[str, object], origin: str) -> ModelCard:
    """Build a card from a parsed table.

    Raises:
        ConfigError: a key is unknown, missing or has an unusable value.
    """
    table = _Table(values, origin, _CARD_KEYS)
    return ModelCard(
        id=_card_id(table),
        family=table.text("family", required=True),
        parameters=table.integer("parameters"),
        quantisation=table.text("quantisation"),
        context_window=table.integer("context_window"),
        licence=table.text("licence", required=True),
        capabilities=_capabilities(table),
        files=_files(table),
        description=table.text("description"),
        homepage=table.text("homepage"),
        chat_template=table.text("chat_template"),
        reasoning_tags=_reasoning_tags(table),
        embedding_dimension=table.integer("embedding_dimension"),
        max_input_tokens=table.integer("max_input_tokens"),
        query_prefix=table.text("query_prefix"),
        passage_prefix=table.text("passage_prefix"),
        pooling=_pooling(table),
        languages=table.texts("languages"),
        is_verified_here=table.boolean("is_verified_here"),
    )


def card_to_values(card: ModelCard) -> dict[str, object]:
    """Return the card as the plain table that `card_from_values` reads."""
    values: dict[str, object] = {key: getattr(card, key) for key in _CARD_KEYS if key != "files"}
    values["capabilities"] = sorted(card.capabilities)
    values["languages"] = list(card.languages)
    values["reasoning_tags"] = list(card.reasoning_tags or ())
    values["files"] = [
        {**{key: getattr(file, key) for key in _FILE_KEYS}, "sources": list(file.sources)}
        for file in card.files
    ]
    return values


class _Table:
    """One table of a card: hands out its values by type, and knows its place for errors."""

    def __init__(self, values: Mapping[str, object], origin: str, known: tuple[str, ...]) -> None:
        self._values = values
        self.origin = origin
        for key in values:
            if key not in known:
                close = get_close_matches(key, known, n=1, cutoff=0.5)
                hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
                raise ConfigError(f"{origin}: there is no key {key!r}", hint=hint, key=key)

    def fail(self, key: str, wanted: str) -> ConfigError:
        return ConfigError(
            f"{self.origin}: {key} is {self._values.get(key)!r}; {wanted} is expected", key=key
        )

    def text(self, key: str, *, required: bool = False) -> str:
        value = self._values.get(key, "")
        if not isinstance(value, str) or (required and not value.strip()):
            raise self.fail(key, "a text")
        return value

    def integer(self, key: str) -> int:
        value = self._values.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.fail(key, "a whole number, 0 or more")
        return value

    def boolean(self, key: str) -> bool:
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(key, "a list of texts")
        return tuple(str(item) for item in value)

    def tables(self, key: str, known: tuple[str, ...]) -> list[_Table]:
        value = self._values.get(key, [])
        if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
            raise self.fail(key, "one table or more")
        return [_Table(item, f"{self.origin}: {key}[{place}]", known) for place, item in enumerate(value)]


def _card_id(table: _Table) -> str:
    text = table.text("id", required=True)
    try:
        name = parse_card_name(text)
    except ModelNotFoundError as exc:
        raise table.fail("id", "name:tag in lower case, such as smollm2:135m-instruct-q4_1") from exc
    if not name.tag or str(name) != text:
        raise table.fail("id", "name:tag in lower case, such as smollm2:135m-instruct-q4_1")
    return text


def _capabilities(table: _Table) -> frozenset[Capability]:
    found: set[Capability] = set()
    for text in table.texts("capabilities"):
        if text not in _CAPABILITIES:
            raise table.fail("capabilities", f"a list of {', '.join(_CAPABILITIES)}")
        found.update(capability for capability in get_args(Capability) if capability == text)
    return frozenset(found)


def _pooling(table: _Table) -> Pooling:
    text = table.text("pooling") or "mean"
    for pooling in get_args(Pooling):
        if pooling == text:
            return cast("Pooling", pooling)
    raise table.fail("pooling", f"one of {', '.join(get_args(Pooling))}")


def _reasoning_tags(table: _Table) -> tuple[str, str] | None:
    tags = table.texts("reasoning_tags")
    if not tags:
        return None
    if len(tags) != 2 or not all(tags):
        raise table.fail("reasoning_tags", "an opening and a closing tag")
    return tags[0], tags[1]


def _files(table: _Table) -> tuple[WeightsFile, ...]:
    weights = tuple(_file(file) for file in table.tables("files", _FILE_KEYS))
    names = [file.name for file in weights]
    if len(set(names)) != len(names):
        raise ConfigError(f"{table.origin}: two files have the same name", key="files")
    return weights


def _file(table: _Table) -> WeightsFile:
    name = table.text("name", required=True)
    if not _FILE_NAME.fullmatch(name) or ".." in name:
        raise table.fail("name", "a plain file name")
    sha256 = table.text("sha256")
    if sha256 and not _SHA256.fullmatch(sha256):
        raise table.fail("sha256", "64 lower-case hexadecimal digits, or nothing when not known,")
    sources = table.texts("sources")
    for source in sources:
        try:
            parse_source(source)
        except ConfigError as exc:
            raise ConfigError(f"{table.origin}: {exc.message}", hint=exc.hint, key="sources") from exc
    return WeightsFile(name=name, size_bytes=table.integer("size_bytes"), sha256=sha256, sources=sources)


def _shipped_cards() -> Iterator[ModelCard]:
    folder = files("models").joinpath("cards")
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            yield read_card(entry.read_text(encoding="utf-8"), f"models/cards/{entry.name}")


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is not UTF-8 text") from exc
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc
