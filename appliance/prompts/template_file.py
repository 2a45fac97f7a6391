"""Reads a template from TOML, strictly: an unknown key or a wrong type names the file and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import get_args

from appliance.core.errors import ConfigError
from appliance.prompts.template import Example, Filler, PromptTemplate, Variable

_ID = re.compile(r"[a-z][a-z0-9-]{0,63}")
_VERSION = re.compile(r"[1-9][0-9]{0,5}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def parse_template(text: str, origin: str) -> PromptTemplate:
    """Parse one template; `origin` names it in errors.

    Raises:
        ConfigError: the text is no valid template.
    """
    try:
        values: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{origin} is not valid TOML: {exc}") from exc
    table = _Table(values, origin)
    template = PromptTemplate(
        id=table.matching("id", _ID),
        version=table.matching("version", _VERSION),
        description=table.text("description"),
        system=table.text("system", default=""),
        user=table.text("user"),
        variables={name: _variable(name, inner) for name, inner in table.tables("variables").items()},
        examples=tuple(_example(inner) for inner in table.list_of_tables("examples")),
    )
    table.finish()
    return template


def _variable(name: str, table: _Table) -> Variable:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{table.origin}: {name!r} cannot be the name of a variable")
    filler = next((known for known in get_args(Filler) if known == table.text("from")), None)
    if filler is None:
        raise ConfigError(f"{table.origin}: from must be one of {', '.join(get_args(Filler))}")
    variable = Variable(
        name=name,
        filler=filler,
        is_delimited=table.boolean("delimited"),
        choices=table.texts("choices"),
        default=table.optional_text("default"),
        description=table.text("description", default=""),
    )
    table.finish()
    return variable


def _example(table: _Table) -> Example:
    example = Example(user=table.text("user"), assistant=table.text("assistant"))
    table.finish()
    return example


class _Table:
    """A TOML table of which every key is read once."""

    def __init__(self, values: Mapping[str, object], origin: str) -> None:
        self.origin = origin
        self._values = values
        self._read: set[str] = set()

    def text(self, key: str, *, default: str | None = None) -> str:
        """Read a text; without a default it must be there and say something."""
        value = self._value(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"{self.origin}: {key} is {value!r}; a text is expected")
        return value

    def optional_text(self, key: str) -> str | None:
        """Read a text that may be empty or absent."""
        value = self._value(key)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{self.origin}: {key} is {value!r}; a text is expected")
        return value

    def matching(self, key: str, pattern: re.Pattern[str]) -> str:
        """Read a text of a form."""
        value = self.text(key)
        if not pattern.fullmatch(value):
            raise ConfigError(f"{self.origin}: {key} is {value!r}; {pattern.pattern} is expected")
        return value

    def boolean(self, key: str) -> bool:
        """Read true or false; false when absent."""
        value = self._value(key)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"{self.origin}: {key} is {value!r}; true or false is expected")
        return bool(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Read a list of texts; none when absent."""
        value = self._value(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{self.origin}: {key} is {value!r}; a list of texts is expected")
        return tuple(value)

    def tables(self, key: str) -> dict[str, _Table]:
        """Read a table of tables; none when absent."""
        value = self._value(key)
        found = {} if value is None else value
        if not isinstance(found, dict) or not all(isinstance(inner, dict) for inner in found.values()):
            raise ConfigError(f"{self.origin}: {key} is {value!r}; a table of tables is expected")
        return {name: _Table(inner, f"{self.origin}: {key}.{name}") for name, inner in found.items()}

    def list_of_tables(self, key: str) -> list[_Table]:
        """Read a list of tables; none when absent."""
        value = self._value(key)
        found = [] if value is None else value
        if not isinstance(found, list) or not all(isinstance(inner, dict) for inner in found):
            raise ConfigError(f"{self.origin}: {key} is {value!r}; a list of tables is expected")
        return [_Table(inner, f"{self.origin}: {key}[{number}]") for number, inner in enumerate(found)]

    def finish(self) -> None:
        """Refuse keys that mean nothing here."""
        for key in self._values:
            if key not in self._read:
                known = ", ".join(sorted(self._read))
                raise ConfigError(f"{self.origin}: there is no key {key!r}", hint=f"known are {known}")

    def _value(self, key: str) -> object:
        self._read.add(key)
        return self._values.get(key)
