"""Options and types that bench commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypedDict, TypeVar

import click

if TYPE_CHECKING:
    from appliance.config import Scalar, Settings

F = TypeVar("F", bound=Callable[..., object])

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class SettingsSource(Protocol):
    """What every command gets: a way to read the settings."""

    def settings(self, flags: Mapping[str, Scalar | None] | None = None) -> Settings:
        """Read the settings."""
        ...


class OutputFlags(TypedDict):
    """What `output_options` adds."""

    as_json: bool
    progress: str
    seed: int


class Duration(click.ParamType[float]):
    """`90`, `90s`, `5m`, `1h` or `250ms`, as seconds above 0."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float | int):
            return float(value)
        match = _DURATION.fullmatch(str(value).strip().lower())
        if match is None or float(match[1]) <= 0:
            self.fail(f"{value!r} is no time; write 90s, 5m or 1h", param, ctx)
        return float(match[1]) * _UNITS_S[match[2]]


def budget_option(help_text: str, *, default: str = "1h") -> Callable[[F], F]:
    """`--budget`, as `budget_s`; `help_text` says what ends when it is spent."""
    return click.option(
        "--budget", "budget_s", type=Duration(), default=default, show_default=True, help=help_text
    )


class Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers with commas between them: `0,512,1024`."""

    name = "numbers"

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        numbers = []
        for text in str(value).split(","):
            if not re.fullmatch(r"-?\d{1,12}", text.strip()):
                self.fail(f"{text!r} is no whole number; write 512 or 0,512,1024", param, ctx)
            number = int(text)
            if not self._low <= number <= self._high:
                self.fail(f"{number} is not between {self._low} and {self._high}", param, ctx)
            numbers.append(number)
        return tuple(dict.fromkeys(numbers))


class Words(click.ParamType[tuple[str, ...]]):
    """Words of a closed set with commas between them: `auto,on`."""

    name = "words"

    def __init__(self, *known: str) -> None:
        self._known = known

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        words = tuple(dict.fromkeys(text.strip() for text in str(value).split(",")))
        for word in words:
            if word not in self._known:
                self.fail(f"{word!r} is none of {', '.join(self._known)}", param, ctx)
        return words


def output_options(function: F) -> F:
    """Add the options of every command that measures."""
    for option in (
        click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**31 - 1),
                     help="Decides the texts and the arrivals; the same seed asks the same."),
        click.option("--progress", type=click.Choice(["auto", "json", "none"]), default="auto",
                     show_default=True, help="json: one JSON line a step and a record, on standard output."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end."),
    ):  # fmt: skip
        function = option(function)
    return function
