"""The options that `ask` and `chat` share, and the request they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack

import click

from appliance.core.errors import InvalidRequestError

if TYPE_CHECKING:
    from appliance.config import Scalar
    from appliance.core.requests import SamplingParams

_Command = TypeVar("_Command", bound=Callable[..., object])


class GenerationFlags(TypedDict):
    """What the shared options said; `None` is an option not given."""

    model: str | None
    system: str | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    seed: int | None
    max_tokens: int | None
    stop: tuple[str, ...]
    context_window: int | None
    shows_stats: bool
    shows_reasoning: bool


_OPTIONS = (
    click.option("-m", "--model", metavar="NAME", help="Model to ask; `appliance list` shows them."),
    click.option("-s", "--system", metavar="TEXT", help="System message: who the model shall be."),
    click.option("--temperature", type=float, help="0 is greedy and reproducible; higher is bolder."),
    click.option("--top-p", type=float, help="Keep the likeliest tokens up to this share."),
    click.option("--top-k", type=int, help="Keep this many tokens; 0 keeps all."),
    click.option("--min-p", type=float, help="Drop tokens below this share of the likeliest."),
    click.option("--seed", type=int, help="Draw the same way each time."),
    click.option("--max-tokens", type=int, help="Longest answer in tokens."),
    click.option("--stop", multiple=True, metavar="TEXT", help="End before this text; may be repeated."),
    click.option("--context", "context_window", type=int, help="Context window to load the model with."),
    click.option("--stats", "shows_stats", is_flag=True, help="Print tokens and times on standard error."),
    click.option(
        "--reasoning", "shows_reasoning", is_flag=True, help="Print the model's thinking on standard error."
    ),
)


def generation_options(command: _Command) -> _Command:
    """Add the shared options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def setting_flags(flags: GenerationFlags) -> dict[str, Scalar | None]:
    """Return the options that are settings; those win over file and environment."""
    return {
        "model": flags["model"],
        "temperature": flags["temperature"],
        "top_p": flags["top_p"],
        "top_k": flags["top_k"],
        "min_p": flags["min_p"],
        "max_tokens": flags["max_tokens"],
        "context_window": flags["context_window"],
    }


def sampling_of(usual: SamplingParams, **flags: Unpack[GenerationFlags]) -> SamplingParams:
    """Complete the settings' sampling with what is no setting.

    Raises:
        UsageError: a value is outside its range.
    """
    from dataclasses import replace

    try:
        return replace(usual, seed=flags["seed"], stop=flags["stop"])
    except InvalidRequestError as exc:
        raise click.UsageError(exc.message) from exc
