"""Seeded workloads: prompts of exactly the tokens asked for, and when they arrive."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.core.errors import InvalidRequestError
from benchmarks.answers import LoadRequest
from benchmarks.exact_text import CountTokens, MakeText, exact_text, plain_words, words

_MOST_REQUESTS = 1_000_000
_SALT_WORDS = 6
_LINE_HINT = 'write a line for each request: {"at_s": 0.5, "input_tokens": 128, "output_tokens": 64}'


class TraceLine(BaseModel):
    """One line of a trace file: when a request arrives after the start, and its sizes in tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    at_s: float = Field(ge=0)
    input_tokens: int = Field(ge=1, le=1 << 20)
    output_tokens: int = Field(ge=1, le=1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request and when it is to be sent after the start."""

    at_s: float
    request: LoadRequest


async def make_requests(
    sizes: Sequence[tuple[int, int]],
    *,
    seed: int,
    count_tokens: CountTokens,
    salt: str = "",
) -> list[LoadRequest]:
    """Make requests of exactly these input and output tokens; no two begin alike.

    Args:
        salt: decides the first words besides the seed. A server that was asked the same by an earlier run would
            otherwise have every prompt in its cache.

    Raises:
        NoExactTextError: a size cannot be met, for instance because the template alone is longer.
    """
    requests = []
    for number, (input_tokens, output_tokens) in enumerate(sizes):
        text = await exact_text(
            input_tokens,
            seed=f"load-{seed}-{number}",
            count_tokens=count_tokens,
            make=_salted(f"{salt}-{number}") if salt else plain_words,
        )
        requests.append(
            LoadRequest(
                number=number,
                text=text,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                key=f"{seed}-{number}",
            )
        )
    return requests


def _salted(salt: str) -> MakeText:
    def make(count: int, seed: str) -> str:
        first = words(_SALT_WORDS, seed=f"{salt}/{seed}").split()
        whole = max(count, 1)
        return " ".join([*first[:whole], *words(max(whole - len(first), 0), seed=seed).split()])

    return make


def poisson_times(rate_per_s: float, count: int, *, seed: int) -> list[float]:
    """Times of independent arrivals: gaps are exponential with mean 1 / rate.

    Raises:
        InvalidRequestError: the rate is not above 0.
    """
    if not rate_per_s > 0:
        raise InvalidRequestError(f"a rate of {rate_per_s} requests a second; it must be above 0")
    chooser = random.Random(f"arrivals-{seed}")
    times, now_s = [], 0.0
    for _ in range(count):
        now_s += chooser.expovariate(rate_per_s)
        times.append(now_s)
    return times


def read_trace(path: Path) -> list[TraceLine]:
    """Read a trace file: one JSON object a line with `at_s`, `input_tokens` and `output_tokens`.

    Raises:
        InvalidRequestError: a line is something else; names it.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidRequestError(f"{path} cannot be read: {exc}") from exc
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(TraceLine.model_validate_json(line))
        except ValidationError as exc:
            problem = exc.errors()[0]
            place = ".".join(str(part) for part in problem["loc"])
            raise InvalidRequestError(
                f"{path}, line {number}: {place + ': ' if place else ''}{problem['msg']}",
                hint=_LINE_HINT,
            ) from exc
    if not found or len(found) > _MOST_REQUESTS:
        raise InvalidRequestError(
            f"{path} holds {len(found)} requests; 1 to {_MOST_REQUESTS} can be sent", hint=_LINE_HINT
        )
    return sorted(found, key=lambda line: line.at_s)
