"""Embedders and rerankers in GGUF, each in a child process of its own; the parent's side, for synchronous callers.

The child (`python -m appliance.engine.embedding_child`) owns everything native, so that weights which crash llama.cpp
are an error of the caller and nothing more. A dead child is started again by the next call.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from appliance.core.errors import (
    ApplianceError,
    EngineCrashedError,
    Failure,
    FailureKind,
    ModelFileError,
    ProviderUnavailableError,
    error_of,
)
from appliance.core.ports import Vector
from appliance.engine.child_environment import child_environment

HEADER = struct.Struct("<I")
MOST_INPUT_TOKENS = 512
"""Longest text that is embedded whole, where the weights take as much: the passes stay small, and passages too."""
_LOAD_TIMEOUT_S = 300.0
_CALL_TIMEOUT_S = 600.0
_MOST_REPLY_BYTES = 1 << 30


class EmbeddingCall(BaseModel):
    """What the parent asks: vectors of texts, numbers of their tokens, or scores of passages for a question."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["embed", "count", "score"]
    texts: tuple[str, ...]
    question: str = ""


class EmbeddingReply(BaseModel):
    """What the child answers. `rows` of `columns` numbers follow as single-precision floats, row by row."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: int = 0
    columns: int = 0
    counts: tuple[int, ...] = ()
    failure_kind: FailureKind | None = None
    message: str = ""
    hint: str = ""


class EmbeddingModel(BaseModel):
    """What the child says of its weights once they are loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dimension: int = 0
    max_input_tokens: int = 0
    build: str = ""
    is_bad_file: bool = False
    failure_kind: FailureKind | None = None
    message: str = ""
    hint: str = ""


class EmbeddingProcess:
    """One model in its child process. Callers of several threads take turns."""

    def __init__(self, path: Path, *, name: str = "", max_input_tokens: int = 0, threads: int = 2) -> None:
        self._name = name or path.name
        self._arguments = [str(path), self._name, str(max_input_tokens or MOST_INPUT_TOKENS), str(threads)]
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._model: EmbeddingModel | None = None

    def open(self) -> EmbeddingModel:
        """Load the weights unless they are loaded, and say what they are.

        Raises:
            ModelFileError: they cannot be used.
            EngineCrashedError: the child died of them.
        """
        with self._turn:
            return self._opened()

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return a normalised vector for each text; each must fit.

        Raises:
            ApplianceError: as `open`, or a text is too long.
        """
        reply, numbers = self._call(EmbeddingCall(kind="embed", texts=tuple(texts)))
        rows = np.frombuffer(numbers, np.float32).reshape(reply.rows, reply.columns)
        return [[float(value) for value in row] for row in rows]

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return how well each passage answers a question, from 0 to 1.

        Raises:
            ApplianceError: as `open`, or a passage is too long with the question.
        """
        _, numbers = self._call(EmbeddingCall(kind="score", texts=tuple(passages), question=question))
        return [float(value) for value in np.frombuffer(numbers, np.float32)]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, special tokens included."""
        reply, _ = self._call(EmbeddingCall(kind="count", texts=tuple(texts)))
        return list(reply.counts)

    def close(self) -> None:
        """End the child."""
        with self._turn:
            self._end()

    def _call(self, call: EmbeddingCall) -> tuple[EmbeddingReply, bytes]:
        with self._turn:
            self._opened()
            assert self._socket is not None
            self._socket.settimeout(_CALL_TIMEOUT_S)
            try:
                send_frame(self._socket, call.model_dump_json().encode())
                reply = EmbeddingReply.model_validate_json(_received(self._socket))
                numbers = _received(self._socket) if reply.rows else b""
            except (OSError, EOFError, ValidationError, UnicodeEncodeError) as exc:
                raise self._crashed(exc) from exc
        if reply.failure_kind is not None:
            raise _error(reply)
        if len(numbers) != 4 * reply.rows * reply.columns:
            raise EngineCrashedError(f"the process of {self._name} answered {len(numbers)} bytes of vectors")
        return reply, numbers

    def _opened(self) -> EmbeddingModel:
        if self._model is not None and self._process is not None and self._process.poll() is None:
            return self._model
        self._end()
        parent_end, child_end = socket.socketpair()
        try:
            self._process = _spawned(child_end.fileno(), self._arguments)
        except OSError as exc:
            parent_end.close()
            raise ProviderUnavailableError(f"the process of {self._name} cannot be started: {exc}") from exc
        finally:
            child_end.close()
        self._socket = parent_end
        parent_end.settimeout(_LOAD_TIMEOUT_S)
        try:
            model = EmbeddingModel.model_validate_json(_received(parent_end))
        except (OSError, EOFError, ValidationError) as exc:
            raise self._crashed(exc) from exc
        if model.failure_kind is not None:
            self._end()
            raise ModelFileError(model.message, hint=model.hint) if model.is_bad_file else _error(model)
        self._model = model
        return model

    def _crashed(self, cause: Exception) -> EngineCrashedError:
        """End the child and say how it went."""
        process = self._process
        self._end()
        code = None if process is None else process.returncode
        how = "did not answer in time" if isinstance(cause, TimeoutError) else f"ended with exit code {code}"
        return EngineCrashedError(
            f"the process of {self._name} {how}",
            hint="the weights may be damaged, or llama.cpp cannot run their format on this processor; "
            "another quantisation may work",
        )

    def _end(self) -> None:
        self._model = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                # The closed socket ends it; one that is stuck in a pass does not see that.
                self._process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def send_frame(connection: socket.socket, content: bytes) -> None:
    """Write a length and what it is the length of."""
    connection.sendall(HEADER.pack(len(content)) + content)


def received_exactly(connection: socket.socket, count: int) -> bytes:
    """Read so many bytes.

    Raises:
        EOFError: the other side has gone.
    """
    content = bytearray()
    while len(content) < count:
        piece = connection.recv(min(1 << 20, count - len(content)))
        if not piece:
            raise EOFError
        content += piece
    return bytes(content)


def _received(connection: socket.socket) -> bytes:
    (length,) = HEADER.unpack(received_exactly(connection, HEADER.size))
    if length > _MOST_REPLY_BYTES:
        raise EOFError
    return received_exactly(connection, length)


def _error(reply: EmbeddingReply | EmbeddingModel) -> ApplianceError:
    assert reply.failure_kind is not None
    return error_of(Failure(kind=reply.failure_kind, message=reply.message, hint=reply.hint))


def _spawned(descriptor: int, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "appliance.engine.embedding_child", str(descriptor), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        env=child_environment(),
        start_new_session=True,
    )
