"""Reads settings one by one from their strongest source, checks them, and keeps a record of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Literal, TypeVar, cast

from appliance.config.folders import CONFIG_FILE_VARIABLE, expand_home
from appliance.config.tables import Table
from appliance.config.toml_file import TomlFile
from appliance.core.errors import ConfigError

Scalar = str | int | float | bool | Path
SourceKind = Literal["flag", "environment", "file", "default"]

ENVIRONMENT_PREFIX = "APPLIANCE_"

_T = TypeVar("_T", bound=Scalar)
_Parsed = TypeVar("_Parsed")
_BYTE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTE_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True}
_BOOLEANS |= {"false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSetting:
    """One setting as it holds now: its value, where it came from, and what it means. The value of a table is
    a list of its keys; a table has no environment variable.
    """

    name: str
    value: Scalar
    source: SourceKind
    origin: str
    environment_variable: str
    description: str


@dataclass(frozen=True, slots=True)
class _Raw:
    """A value as its source states it. `label` names that source in messages."""

    value: object
    source: SourceKind
    label: str


class SettingReader:
    """Reads settings one by one, checks them, and keeps a record of each."""

    def __init__(
        self,
        *,
        flags: Mapping[str, Scalar],
        environment: Mapping[str, str],
        file: TomlFile,
        home: Path,
    ) -> None:
        self._flags = flags
        self._environment = environment
        self._file = file
        self._home = home
        self._resolved: dict[str, ResolvedSetting] = {}

    def folder(self, name: str, default: Path, description: str, *, variable: str = "") -> Path:
        return self._read(name, default, self._parse_path, description, variable)

    def optional_path(self, name: str, description: str) -> Path | None:
        text = self._read(name, "", lambda value: str(self._parse_path(value)), description)
        return Path(text) if text else None

    def _parse_path(self, value: object) -> Path:
        if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
            raise ValueError("a path is expected")
        path = expand_home(str(value), self._home)
        if not path.is_absolute():
            raise ValueError("an absolute path is expected")
        return path

    def text(self, name: str, default: str, description: str) -> str:
        def parse(value: object) -> str:
            if not isinstance(value, str) or not value.strip():
                raise ValueError("a non-empty text is expected")
            return value.strip()

        return self._read(name, default, parse, description)

    def choice(self, name: str, default: _T, choices: tuple[_T, ...], description: str) -> _T:
        listed = ", ".join(str(choice) for choice in choices)

        def parse(value: object) -> _T:
            if value not in choices:
                raise ValueError(f"one of {listed} is expected")
            return value

        return self._read(name, default, parse, f"{description}: {listed}")

    def boolean(self, name: str, default: bool, description: str) -> bool:
        def parse(value: object) -> bool:
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.strip().lower() in _BOOLEANS:
                return _BOOLEANS[value.strip().lower()]
            raise ValueError("true or false is expected")

        return self._read(name, default, parse, description)

    def integer(self, name: str, default: int, low: int, high: int, description: str) -> int:
        def parse(value: object) -> int:
            wanted = f"a whole number from {low} to {high} is expected"
            number = _as_number(value, int, wanted)
            if not low <= number <= high:
                raise ValueError(wanted)
            return number

        return self._read(name, default, parse, description)

    def number(self, name: str, default: float, low: float, high: float, description: str) -> float:
        wanted = f"a number from {low:g} to {high:g} is expected"

        def parse(value: object) -> float:
            number = _as_number(value, float, wanted)
            if not low <= number <= high:
                raise ValueError(wanted)
            return number

        return self._read(name, default, parse, description)

    def byte_size(self, name: str, default: int, description: str) -> int:
        return self._read(name, default, _parse_bytes, description)

    def table(self, name: str, parse: Callable[[Table], _Parsed], description: str) -> _Parsed:
        """Read a table of the file; a table has no flag and no environment variable.

        Raises:
            ConfigError: `name` is no table, was given as a flag, or `parse` refuses what it holds.
        """
        if name in self._flags:
            raise ConfigError(f"{name} is a table", hint=f"state [{name}] in the configuration file")
        values = self._file.values.get(name, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{self._file.place(name)}: {name} is {values!r}; a table is expected")
        is_stated = name in self._file.values
        self._resolved[name] = ResolvedSetting(
            name=name,
            value=", ".join(values),
            source="file" if is_stated else "default",
            origin=self._file.place(name) if is_stated else "default",
            environment_variable="",
            description=description,
        )
        return parse(Table(self._file, (name,), values))

    def resolved(self) -> tuple[ResolvedSetting, ...]:
        return tuple(self._resolved.values())

    def check_names(self) -> None:
        """Refuse a flag or file key that is no setting."""
        known = list(self._resolved)
        for name in self._flags:
            if name not in self._resolved:
                raise ConfigError(f"there is no setting {name!r}", hint=_nearest(name, known) or _LIST_HINT)
        for name in self._file.values:
            if name not in self._resolved:
                message = f"{self._file.place(name)}: there is no setting {name!r}"
                raise ConfigError(message, hint=_nearest(name, known) or _LIST_HINT)

    def unread_environment(self) -> tuple[str, ...]:
        """Name variables that look like a misspelt setting; others of our prefix belong to other tools."""
        variables = [found.environment_variable for found in self._resolved.values()]
        known = [*filter(None, variables), CONFIG_FILE_VARIABLE]
        # What all of them begin with makes none of them alike.
        endings = {variable.removeprefix(ENVIRONMENT_PREFIX): variable for variable in known}
        warnings: list[str] = []
        for variable in sorted(self._environment):
            if not variable.startswith(ENVIRONMENT_PREFIX) or variable in known:
                continue
            ending = variable.removeprefix(ENVIRONMENT_PREFIX)
            if close := get_close_matches(ending, list(endings), n=1, cutoff=0.8):
                warnings.append(f"{variable} is set but is no setting; did you mean {endings[close[0]]}?")
        return tuple(warnings)

    def _read(
        self,
        name: str,
        default: _T,
        parse: Callable[[object], _T],
        description: str,
        variable: str = "",
    ) -> _T:
        variable = variable or _variable_of(name)
        raw = self._raw(name, variable)
        value = default if raw is None else _parse_raw(name, raw, parse)
        self._resolved[name] = ResolvedSetting(
            name=name,
            value=value,
            source=raw.source if raw else "default",
            origin=raw.label if raw else "default",
            environment_variable=variable,
            description=description,
        )
        return value

    def _raw(self, name: str, variable: str) -> _Raw | None:
        if name in self._flags:
            return _Raw(self._flags[name], "flag", "command line")
        if self._environment.get(variable, "") != "":
            return _Raw(self._environment[variable], "environment", variable)
        if name in self._file.values:
            return _Raw(self._file.values[name], "file", self._file.place(name))
        return None


_LIST_HINT = "`appliance config` lists every setting"


def _parse_raw(name: str, raw: _Raw, parse: Callable[[object], _T]) -> _T:
    try:
        return parse(raw.value)
    except ValueError as exc:
        raise ConfigError(f"{raw.label}: {name} is {raw.value!r}; {exc}", setting=name) from exc


def _as_number(value: object, of: type[_Number], wanted: str) -> _Number:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number and not isinstance(value, str):
        raise ValueError(wanted)
    if of is int and isinstance(value, float) and not (isfinite(value) and value.is_integer()):
        raise ValueError(wanted)
    try:
        return of(cast("str | int | float", value))
    except ValueError as exc:
        raise ValueError(wanted) from exc


_Number = TypeVar("_Number", int, float)


def _parse_bytes(value: object) -> int:
    wanted = "a size such as 1073741824, 500MB or 2GiB is expected"
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)", str(value).strip().upper())
    if isinstance(value, bool) or match is None or match[2] not in _BYTE_UNITS:
        raise ValueError(wanted)
    return int(float(match[1]) * _BYTE_UNITS[match[2]])


def _variable_of(name: str) -> str:
    """Return the usual environment variable of a setting."""
    return ENVIRONMENT_PREFIX + name.upper()


def _nearest(name: str, known: list[str]) -> str:
    """Return a question that names the nearest known name, or nothing."""
    matches = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {matches[0]!r}?" if matches else ""
