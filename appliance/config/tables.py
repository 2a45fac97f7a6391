"""Tables of the configuration file: typed keys, unknown ones refused, messages that name place and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import TypeVar, cast

from appliance.config.toml_file import TomlFile
from appliance.core.errors import ConfigError

_Choice = TypeVar("_Choice", bound=str)


class Table:
    """One table: every key is read once, then `finish` refuses what nobody read."""

    def __init__(self, file: TomlFile, path: tuple[str, ...], values: Mapping[str, object]) -> None:
        self._file = file
        self._path = path
        self._values = values
        self._read: set[str] = set()

    @property
    def name(self) -> str:
        """The last part of the table's name."""
        return self._path[-1]

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def number(self, key: str, default: float, low: float, high: float) -> float:
        """Read a number within bounds."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self.wrong(key, f"a number from {low:g} to {high:g} is expected")
        if not low <= value <= high:
            raise self.wrong(key, f"a number from {low:g} to {high:g} is expected")
        return float(value)

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """Read a whole number within bounds."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(key, f"a whole number from {low} to {high} is expected")
        return value

    def boolean(self, key: str, default: bool) -> bool:
        """Read true or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false is expected")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Read a text that is not empty; without a default it must be there."""
        value = self._value(key, default)
        if value is None:
            raise ConfigError(f"{self._place()}: {self._named(key)} is missing", setting=self._named(key))
        if value != default and (not isinstance(value, str) or not value.strip()):
            raise self.wrong(key, "a non-empty text is expected")
        return str(value).strip()

    def choice(self, key: str, choices: Sequence[_Choice]) -> _Choice | None:
        """Read one of a few words, or nothing."""
        value = self._value(key, None)
        if value is not None and value not in choices:
            raise self.wrong(key, f"one of {', '.join(choices)} is expected")
        return cast("_Choice | None", value)

    def choices(self, key: str, default: Sequence[_Choice], choices: Sequence[_Choice]) -> frozenset[_Choice]:
        """Read a list of words out of a few."""
        value = self._value(key, list(default))
        if not isinstance(value, list) or any(word not in choices for word in value):
            raise self.wrong(key, f"a list of {', '.join(choices)} is expected")
        return frozenset(value)

    def items(self, key: str) -> list[object]:
        """Read a list, whatever is in it; nothing is an empty list."""
        value = self._value(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, "a list is expected")
        return value

    def table(self, key: str) -> Table:
        """Read a table below this one; nothing is an empty table."""
        value = self._value(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table is expected")
        return Table(self._file, (*self._path, key), value)

    def tables(self) -> list[Table]:
        """Read every key as a table of its own, in the order of the file."""
        return [self.table(key) for key in self._values]

    def inner(self, label: str, values: Mapping[str, object]) -> Table:
        """Read an inline table that stands in a list of this one."""
        return Table(self._file, (*self._path, label), values)

    def keys(self) -> list[str]:
        """Name the keys."""
        return list(self._values)

    def finish(self) -> None:
        """Refuse keys that mean nothing here."""
        for key in self._values:
            if key not in self._read:
                nearest = get_close_matches(key, self._read, n=1, cutoff=0.6)
                known = f"known are {', '.join(sorted(self._read))}"
                message = f"{self._place()}: there is no {self._named(key)}"
                raise ConfigError(message, hint=f"did you mean {nearest[0]!r}?" if nearest else known)

    def wrong(self, key: str, expected: str) -> ConfigError:
        """Make the error of a value that cannot be used."""
        name = self._named(key)
        stated = repr(self._values[key]) if key in self._values else "not stated"
        return ConfigError(f"{self._place()}: {name} is {stated}; {expected}", setting=name)

    def _value(self, key: str, default: object) -> object:
        self._read.add(key)
        return self._values.get(key, default)

    def _place(self) -> str:
        return self._file.place_of_table(self._path)

    def _named(self, key: str) -> str:
        return ".".join((*self._path, key))
