"""Forgetting: what is to be removed, the port of every store that may hold it, and what each one reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from appliance.core.errors import InvalidRequestError
from appliance.core.requests import LOCAL_OWNER


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetChat:
    """One chat with all its branches and everything derived from it."""

    chat_id: str
    owner: str = LOCAL_OWNER
    kind: Literal["chat"] = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetDocument:
    """One document: its text, passages and vectors, and the answers that were made with it."""

    document_id: str
    owner: str = LOCAL_OWNER
    kind: Literal["document"] = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetSubject:
    """Everything that mentions a name or phrase, letter case and accents aside.

    Raises:
        InvalidRequestError: the phrase has fewer than three characters.
    """

    phrase: str
    owner: str = LOCAL_OWNER
    kind: Literal["subject"] = "subject"

    def __post_init__(self) -> None:
        if len(self.phrase.strip()) < 3:
            raise InvalidRequestError("a subject to forget needs at least three characters")


ForgetTarget = ForgetChat | ForgetDocument | ForgetSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReport:
    """What one store removed. `removed` counts by name of the thing; `needles` are texts that were in it and
    must not be found anywhere afterwards; `notes` say what the user should know.
    """

    store: str
    removed: dict[str, int] = field(default_factory=dict)
    needles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetHit:
    """A needle that a store still has. `row`: in something of this owner that it holds on purpose, such as
    another chat with the same words; `other_owner`: in something of somebody else, which is never shown;
    `bytes`: in a file.
    """

    store: str
    place: str
    needle: str
    kind: Literal["row", "other_owner", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetProbe:
    """What a store looked at and what it found."""

    store: str
    checked: tuple[str, ...]
    hits: tuple[ForgetHit, ...] = ()


class Forgettable(Protocol):
    """A store that can remove what belongs to a target, and search itself for what must be gone."""

    @property
    def name(self) -> str:
        """The store's name in the receipt."""
        ...

    def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove what belongs to the target; nothing to remove is no error."""
        ...

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        """Search everything the store holds, files included, for the needles."""
        ...
