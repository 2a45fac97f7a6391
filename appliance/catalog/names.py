"""What a user may write for a model: a card's name, a file, or a repository of the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from appliance.core.errors import ModelNotFoundError

NAME_HINT = "a name is like smollm2:135m-instruct-q4_1, a path ends in .gguf, a repository is user/repo:QUANT"

_PART = re.compile(r"[a-z0-9._-]{1,64}")
_REPOSITORY_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_HUB_PREFIXES = ("https://hf.co/", "https://huggingface.co/", "hf.co/", "huggingface.co/", "hf:")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardName:
    """The name of a card or of a stored model, `name:tag`. An empty tag means any."""

    name: str
    tag: str
    kind: Literal["card"] = "card"

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}" if self.tag else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName:
    """A weights file named by its path."""

    path: Path
    kind: Literal["file"] = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubName:
    """A repository of the Hugging Face hub, with a quantisation or a file's name when one was said."""

    repository: str
    quantisation: str
    kind: Literal["hub"] = "hub"

    def __str__(self) -> str:
        tail = f":{self.quantisation}" if self.quantisation else ""
        return f"hf.co/{self.repository}{tail}"


ModelName = CardName | FileName | HubName


def parse_model_name(text: str) -> ModelName:
    """Tell what kind of name was written.

    Raises:
        ModelNotFoundError: it cannot be the name of any model.
    """
    stated = text.strip()
    if not stated or "\0" in stated or not stated.isprintable():
        raise ModelNotFoundError(f"{text!r} is not a model name", hint=NAME_HINT)
    if stated.startswith("file:"):
        return FileName(path=_path_of_url(stated))
    for prefix in _HUB_PREFIXES:
        if stated.startswith(prefix):
            return _hub_name(stated, stated.removeprefix(prefix))
    if _looks_like_path(stated):
        return FileName(path=_without_tilde(stated))
    if "/" in stated:
        return _hub_name(stated, stated)
    return parse_card_name(stated)


def parse_card_name(text: str) -> CardName:
    """Read `name:tag` or `name`; upper case counts as lower case.

    Raises:
        ModelNotFoundError: the text has characters or a length that no name has.
    """
    name, separator, tag = text.strip().lower().partition(":")
    if not is_safe_part(name) or (separator and not is_safe_part(tag)):
        raise ModelNotFoundError(f"{text!r} is not a model name", hint=NAME_HINT)
    return CardName(name=name, tag=tag)


def is_safe_part(text: str) -> bool:
    """Say whether a text can be one part of a name, and so one folder or file of the store."""
    return _PART.fullmatch(text) is not None and text.strip(".") != ""


def to_safe_part(text: str, *, limit: int = 64) -> str:
    """Make a part of a name out of any text."""
    cleaned = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-.")[:limit].strip("-.")
    return cleaned or "model"


def near_names(text: str, known: Iterable[str], *, count: int = 3) -> list[str]:
    """Return the known names most like a text, best first: whole names, then those that hold its words."""
    wanted = text.lower()
    names = sorted(set(known))
    close = get_close_matches(wanted, names, n=count, cutoff=0.6)
    families = {name.partition(":")[0] for name in names}
    for family in get_close_matches(wanted.partition(":")[0], sorted(families), n=count, cutoff=0.6):
        close += [name for name in names if name.partition(":")[0] == family]
    words = [word for word in re.split(r"[^a-z0-9.]+", wanted) if len(word) > 2]
    close += [name for name in names if any(word in name for word in words)]
    return list(dict.fromkeys(close))[:count]


def names_a_file(text: str) -> bool:
    """Whether a text means a file of this machine, so that not everybody may ask for it."""
    stated = text.strip()
    return stated.startswith("file:") or _looks_like_path(stated)


def _without_tilde(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as exc:
        raise ModelNotFoundError(f"{text!r} names nobody's folder", hint=NAME_HINT) from exc


def _looks_like_path(text: str) -> bool:
    return text.lower().endswith(".gguf") or text.startswith(("/", "./", "../", "~")) or "\\" in text


def _path_of_url(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or not parts.path:
        raise ModelNotFoundError(
            f"{url!r} names no file of this machine", hint="write file:///path/to/x.gguf"
        )
    return Path(unquote(parts.path))


def _hub_name(text: str, rest: str) -> HubName:
    repository, _, quantisation = rest.rstrip("/").partition(":")
    parts = repository.split("/")
    is_repository = len(parts) == 2 and all(_REPOSITORY_PART.fullmatch(part) for part in parts)
    if not is_repository or ".." in repository:
        raise ModelNotFoundError(f"{text!r} is not a repository of the hub", hint=NAME_HINT)
    if quantisation and not _REPOSITORY_PART.fullmatch(quantisation):
        raise ModelNotFoundError(f"{quantisation!r} is not a quantisation or file name", hint=NAME_HINT)
    return HubName(repository=repository, quantisation=quantisation)
