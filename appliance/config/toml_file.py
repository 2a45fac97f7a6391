"""The configuration file: parsed, with the line of each key for messages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TomlFile:
    """The parsed file and its text, which tells the line of a key."""

    path: Path
    text: str
    values: Mapping[str, object]

    @classmethod
    def read(cls, path: Path, *, must_exist: bool) -> TomlFile:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError as exc:
            if must_exist:
                raise ConfigError(f"the configuration file {path} does not exist") from exc
            return cls(path, "", {})
        except UnicodeDecodeError as exc:
            raise ConfigError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from exc
        except OSError as exc:
            raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc
        try:
            return cls(path, text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as exc:
            raise ConfigError(f"{path} is not valid TOML: {exc}") from exc

    def place(self, key: str) -> str:
        """Return `path:line` of a key, or the path when the line cannot be told."""
        pattern = re.compile(rf"""\s*\[{{0,2}}\s*["']?{re.escape(key)}["']?\s*[\].=]""")
        for number, line in enumerate(self.text.splitlines(), start=1):
            if pattern.match(line):
                return f"{self.path}:{number}"
        return str(self.path)

    def place_of_table(self, path: tuple[str, ...]) -> str:
        """Return `path:line` of the header of a table, or of the nearest table around it."""
        for depth in range(len(path), 1, -1):
            dotted = r"\s*\.\s*".join(rf"""["']?{re.escape(part)}["']?""" for part in path[:depth])
            pattern = re.compile(rf"\s*\[\s*{dotted}\s*\]")
            for number, line in enumerate(self.text.splitlines(), start=1):
                if pattern.match(line):
                    return f"{self.path}:{number}"
        return self.place(path[0])
