"""Measures weights in a child process: tokens that end answers, perplexity, and divergence from a reference.

The parent calls `evaluate`; the child (`python -m appliance.engine.evaluation_child`) owns everything native, so that
damaged weights cannot take the caller with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from appliance.core.errors import (
    ApplianceError,
    EngineCrashedError,
    Failure,
    FailureKind,
    InvalidRequestError,
    error_of,
)

# A window's first half is context, its second half is scored, as llama.cpp's own perplexity does.
WINDOW_TOKENS = 512
_LAST_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationJob:
    """What to measure of which weights. `reference` is compared with where the kind is `divergence`."""

    kind: Literal["end_tokens", "perplexity", "divergence"]
    model_path: Path
    reference_path: Path | None = None
    text: str = ""
    window_tokens: int = WINDOW_TOKENS
    threads: int = 0
    gpu_layers: int = 0

    def to_json(self) -> str:
        """Write for the child."""
        values = asdict(self) | {
            "model_path": str(self.model_path),
            "reference_path": str(self.reference_path) if self.reference_path else None,
        }
        return json.dumps(values)


class EvaluationResult(BaseModel):
    """What was measured. Surprises are -ln p of scored tokens, in nats, one mean a window.

    `divergences` are Kullback-Leibler divergences from the reference to the weights in nats, one a scored token;
    `agreement` is the share of scored tokens where both think the same token most likely.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    end_tokens: tuple[int, ...] = ()
    scored_tokens: int = 0
    perplexity: float = 0.0
    perplexity_error: float = 0.0
    reference_perplexity: float = 0.0
    window_surprises: tuple[float, ...] = ()
    divergences: tuple[float, ...] = ()
    agreement: float = 0.0


class ChildLine(BaseModel):
    """One line of the child."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    done: int = 0
    total: int = 0
    result: EvaluationResult | None = None
    failure_kind: FailureKind | None = None
    message: str = ""
    hint: str = ""


OnProgress = Callable[[int, int], None]


async def evaluate(
    job: EvaluationJob, on_progress: OnProgress = lambda _done, _total: None
) -> EvaluationResult:
    """Measure weights in a child process.

    Raises:
        ApplianceError: the weights cannot be used, the text is too short, or the child died.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "appliance.engine.evaluation_child",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(),
        limit=64 << 20,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(job.to_json().encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        process.stdin.close()
        return await _read(process, on_progress)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _read(process: asyncio.subprocess.Process, on_progress: OnProgress) -> EvaluationResult:
    assert process.stdout is not None
    assert process.stderr is not None
    log = asyncio.create_task(process.stderr.read())
    result: EvaluationResult | None = None
    failed: ChildLine | None = None
    async for raw in process.stdout:
        line = _parsed(raw)
        if line is None:
            continue  # a library wrote to standard output
        failed = line if line.failure_kind is not None else failed
        result = line.result or result
        if line.total:
            on_progress(line.done, line.total)
    words = (await log).decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
    await process.wait()
    if failed is not None:
        raise _error(failed)
    if result is None:
        raise EngineCrashedError(
            f"the evaluation ended with exit code {process.returncode} before it had a result",
            hint=" / ".join(words),
        )
    return result


def _parsed(raw: bytes) -> ChildLine | None:
    try:
        return ChildLine.model_validate_json(raw)
    except ValidationError:
        return None


def _error(line: ChildLine) -> ApplianceError:
    assert line.failure_kind is not None
    return error_of(Failure(kind=line.failure_kind, message=line.message, hint=line.hint))


def _environment() -> Mapping[str, str]:
    return {**os.environ, "GGML_NO_BACKTRACE": "1"}


def check_text(tokens: int, window_tokens: int) -> int:
    """Return how many whole windows a text has.

    Raises:
        InvalidRequestError: not one.
    """
    if tokens < window_tokens:
        raise InvalidRequestError(
            f"the text has {tokens} tokens; one window has {window_tokens}",
            hint="give a longer text, or a smaller window",
        )
    return tokens // window_tokens
