"""Small requests that show what a server does with a model; their outcome is kept on disk for a while."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import get_args

from appliance.core.capabilities import Capability
from appliance.core.errors import ApplianceError, InvalidRequestError
from appliance.providers.openai_http.connection import Connection
from appliance.providers.openai_http.foreign_json import JsonObject, at, list_at, number_at, parsed, text_at

# A word that no model writes unless a schema makes it.
_WORD = "zq7x"
_TOOL = "report_zq7x"
_PROBE_S = 60.0
_KEPT_S = 7 * 86_400.0
_NAMES: tuple[Capability, ...] = ("json_schema", "tools", "streaming_usage", "logprobs")


class Probes:
    """Asks once what can be asked for, and remembers it.

    Args:
        folder: where outcomes are kept; `None` keeps none.
    """

    def __init__(self, connection: Connection, folder: Path | None) -> None:
        self._connection = connection
        self._folder = folder

    async def capabilities(self, model: str, identity: Sequence[str]) -> frozenset[Capability]:
        """Return which of `json_schema`, `tools`, `streaming_usage` and `logprobs` the server showed.

        `identity` tells one set of weights behind one server from another. An outcome is kept unless the
        server could not be asked.

        Raises:
            ApplianceError: the server could not be asked.
        """
        path = self._path(model, identity)
        if (known := _read(path)) is not None:
            return known
        shown = await asyncio.gather(
            self._holds_schemas(model),
            self._calls_tools(model),
            self._reports_usage(model),
            self._gives_logprobs(model),
        )
        found = frozenset(name for name, is_shown in zip(_NAMES, shown, strict=True) if is_shown)
        _write(path, found)
        return found

    async def _holds_schemas(self, model: str) -> bool:
        schema = {"type": "object", "properties": {"word": {"const": _WORD}}, "required": ["word"],
                  "additionalProperties": False}  # fmt: skip
        body = _body(model, "Say hello.") | {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "probe", "schema": schema, "strict": True},
            }
        }
        content = await self._asked(body)
        choices = list_at(content, "choices")
        return at(parsed(text_at(choices[0], "message", "content")), "word") == _WORD if choices else False

    async def _calls_tools(self, model: str) -> bool:
        parameters = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        function = {"name": _TOOL, "description": "Reports that all is well.", "parameters": parameters}
        body = _body(model, f"Call the tool {_TOOL} with ok = true.") | {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": "required",
        }
        choices = list_at(await self._asked(body), "choices")
        calls = list_at(choices[0], "message", "tool_calls") if choices else []
        return bool(calls) and text_at(calls[0], "function", "name") == _TOOL

    async def _reports_usage(self, model: str) -> bool:
        return b'"completion_tokens"' in await self._streamed(
            model, {"stream_options": {"include_usage": True}}
        )

    async def _gives_logprobs(self, model: str) -> bool:
        return b'"top_logprobs"' in await self._streamed(model, {"logprobs": True, "top_logprobs": 1})

    async def _streamed(self, model: str, changes: JsonObject) -> bytes:
        """Return a short stream, or nothing where the server does not take the request."""
        body = _body(model, "Say hello.") | {"max_tokens": 1, "stream": True} | changes
        received = bytearray()
        try:
            async with (
                asyncio.timeout(_PROBE_S),
                self._connection.stream("/v1/chat/completions", body) as pieces,
            ):
                async for piece in pieces:
                    received += piece
        except ApplianceError as exc:
            if not _is_refusal(exc):
                raise
            return b""
        return bytes(received)

    async def _asked(self, body: JsonObject) -> object:
        """Return the answer, or nothing where the server does not take the request."""
        try:
            return await self._connection.post("/v1/chat/completions", body, timeout_s=_PROBE_S)
        except ApplianceError as exc:
            if not _is_refusal(exc):
                raise
            return None

    def _path(self, model: str, identity: Sequence[str]) -> Path | None:
        if self._folder is None:
            return None
        name = sha256(json.dumps([self._connection.url, model, *identity, *_NAMES]).encode()).hexdigest()
        return self._folder / f"{name}.json"


def _is_refusal(error: ApplianceError) -> bool:
    """Servers also answer 500 to a feature that they lack; one that is down fails the other probes too."""
    return isinstance(error, InvalidRequestError) or error.details.get("status") in (500, 501)


def _body(model: str, text: str) -> JsonObject:
    return {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 64,
        "temperature": 0.0,
        "stream": False,
    }


def _read(path: Path | None) -> frozenset[Capability] | None:
    if path is None:
        return None
    try:
        kept = parsed(path.read_bytes())
    except OSError:
        return None
    age_s = time.time() - number_at(kept, "probed_at")
    if not 0 <= age_s < _KEPT_S:
        return None
    names = list_at(kept, "capabilities")
    return frozenset(known for known in get_args(Capability) if known in names)


def _write(path: Path | None, found: frozenset[Capability]) -> None:
    if path is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"probed_at": time.time(), "capabilities": sorted(found)}, file)
        Path(temporary).replace(path)
