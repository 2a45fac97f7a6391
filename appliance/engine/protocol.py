"""The private wire between the parent and its worker: length-prefixed JSON frames over a socket pair.

A frame is four bytes of length, big-endian, then that many bytes of JSON. Both sides check what they read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from appliance.core.errors import Failure
from appliance.core.events import StreamEvent
from appliance.core.requests import GenerateRequest
from appliance.engine.params import EngineInfo, EngineParams, EngineStats
from appliance.structured.admission import Admitted

FRAME_LIMIT_BYTES = 256 << 20
HEADER = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load the model. Always the first command."""

    params: EngineParams
    kind: Literal["load"] = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Answer a request; events with the same id follow. `admitted` is what its answer is held to.

    `sent_s` is of the machine's monotonic clock, which parent and worker share: a command waits while a pass runs.
    """

    id: int
    sent_s: float
    request: GenerateRequest
    admitted: Admitted | None = None
    kind: Literal["submit"] = "submit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Stop a request as soon as possible."""

    id: int
    kind: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Count the tokens of a request's prompt as it would be prefilled."""

    id: int
    request: GenerateRequest
    kind: Literal["count"] = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenize:
    """Turn plain text into tokens, or count it; control tokens in it stay text."""

    id: int
    text: str
    kind: Literal["tokenize"] = "tokenize"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskStats:
    """Ask what the worker holds and has done."""

    id: int
    kind: Literal["stats"] = "stats"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePrefixes:
    """Write every kept prefix to disk now."""

    id: int
    kind: Literal["save_prefixes"] = "save_prefixes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOwner:
    """Drop every prefix of an owner, in memory and on disk."""

    id: int
    owner: str
    kind: Literal["forget_owner"] = "forget_owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Save prefixes, release everything and exit."""

    kind: Literal["close"] = "close"


Command = Annotated[
    Load | Submit | Cancel | Count | Tokenize | AskStats | SavePrefixes | ForgetOwner | Close,
    Field(discriminator="kind"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """The weights are being read; between 0 and 1."""

    fraction: float
    kind: Literal["loading"] = "loading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The model is loaded."""

    info: EngineInfo
    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailed:
    """The model cannot be loaded; the worker exits. `is_bad_file` says that the weights are at fault."""

    failure: Failure
    is_bad_file: bool = False
    kind: Literal["load_failed"] = "load_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """An event of a request. `at_s` is the worker's monotonic clock, which the parent shares on one machine."""

    id: int
    at_s: float
    event: Annotated[StreamEvent, Field(discriminator="kind")]
    kind: Literal["emitted"] = "emitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensReply:
    """Tokens of a text or prompt."""

    id: int
    tokens: list[int]
    kind: Literal["tokens"] = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsReply:
    """What the worker holds and has done."""

    id: int
    stats: EngineStats
    kind: Literal["stats_reply"] = "stats_reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command without a result was carried out."""

    id: int
    kind: Literal["done"] = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFailed:
    """A command other than a request failed."""

    id: int
    failure: Failure
    kind: Literal["command_failed"] = "command_failed"


Report = Annotated[
    Loading | Ready | LoadFailed | Emitted | TokensReply | StatsReply | Done | CommandFailed,
    Field(discriminator="kind"),
]

_COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
_REPORTS: TypeAdapter[Report] = TypeAdapter(Report)


def encode_command(command: Command) -> bytes:
    """Frame a command.

    Raises:
        ValueError: the other side could not read it: a value has the wrong type, or a text no UTF-8 form.
    """
    try:
        return _frame(_COMMANDS.dump_json(command, warnings="error"))
    except PydanticSerializationError:
        return _frame(_encode_unusual(command))


def _encode_unusual(command: Command) -> bytes:
    """Encode values that are not of the declared type: a list for a tuple can be read, a text for a number not."""
    try:
        payload = _COMMANDS.dump_json(command, warnings="none")
        _COMMANDS.validate_json(payload)
    except PydanticSerializationError as exc:  # lone surrogates have no UTF-8 form
        raise ValueError(f"it is not valid Unicode: {exc}") from exc
    except ValidationError as exc:
        first = exc.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}") from exc
    return payload


def decode_command(payload: bytes) -> Command:
    """Parse the payload of a command frame."""
    return _COMMANDS.validate_json(payload)


def encode_report(report: Report) -> bytes:
    """Frame a report."""
    return _frame(_REPORTS.dump_json(report))


def decode_report(payload: bytes) -> Report:
    """Parse the payload of a report frame."""
    return _REPORTS.validate_json(payload)


def _frame(payload: bytes) -> bytes:
    return HEADER.pack(len(payload)) + payload
