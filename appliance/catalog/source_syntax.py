"""The sources a card may state for a file, and how they are written.

pypi:NAME==VERSION!MEMBER            a member of a wheel
pypi:A==1!M + B==1!N                 members of several wheels, one after the other
hf:USER/REPO/FILE[@REVISION]         a file of the Hugging Face hub
file:PATH                            a file of this machine
inline:TEXT                          the content itself, for small settings files
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from appliance.core.errors import ConfigError

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9.+!_-]*?)")
_HUB_FILE = re.compile(
    r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)/(?P<file>[^@\s]+)(?:@(?P<revision>[\w./-]+))?"
)
_SYNTAX = "write pypi:NAME==VERSION!MEMBER, hf:USER/REPO/FILE, file:PATH or inline:TEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelMember:
    """A member of one wheel."""

    requirement: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSource:
    """Members of wheels, concatenated in order."""

    parts: tuple[WheelMember, ...]
    kind: Literal["pypi"] = "pypi"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """A file of a repository of the Hugging Face hub."""

    repository: str
    file: str
    revision: str = "main"
    kind: Literal["hf"] = "hf"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """A file of this machine."""

    path: Path
    kind: Literal["file"] = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineSource:
    """The content itself."""

    text: str
    kind: Literal["inline"] = "inline"


Source = WheelSource | HubSource | FileSource | InlineSource


def parse_source(text: str) -> Source:
    """Read a source.

    Raises:
        ConfigError: the text is not a source.
    """
    scheme, separator, rest = text.partition(":")
    if not separator or not rest.strip():
        raise ConfigError(f"{text!r} is not a source", hint=_SYNTAX)
    if scheme == "pypi":
        return WheelSource(parts=tuple(_wheel_member(text, part.strip()) for part in rest.split(" + ")))
    if scheme == "hf":
        return _hub_source(text, rest)
    if scheme == "file":
        return FileSource(path=Path(unquote(rest.removeprefix("//")) if rest.startswith("//") else rest))
    if scheme == "inline":
        return InlineSource(text=rest)
    raise ConfigError(f"{text!r} has the unknown scheme {scheme!r}", hint=_SYNTAX)


def _wheel_member(text: str, part: str) -> WheelMember:
    # A version may hold `!` (an epoch), a member's path may not: the last one divides.
    requirement, _, member = part.rpartition("!")
    if not _REQUIREMENT.fullmatch(requirement) or not member or member.startswith("/"):
        raise ConfigError(f"{text!r} is not NAME==VERSION!MEMBER", hint=_SYNTAX)
    return WheelMember(requirement=requirement, member=member)


def _hub_source(text: str, rest: str) -> HubSource:
    match = _HUB_FILE.fullmatch(rest)
    if match is None or ".." in rest:
        raise ConfigError(f"{text!r} is not hf:USER/REPO/FILE", hint=_SYNTAX)
    return HubSource(repository=match["repository"], file=match["file"], revision=match["revision"] or "main")
