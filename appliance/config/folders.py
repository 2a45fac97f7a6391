"""Where settings and files of the appliance lie: the XDG base directories, and the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CONFIG_FILE_VARIABLE = "APPLIANCE_CONFIG"


class XdgFolders:
    """Default folders by the XDG base directory specification; relative XDG paths are ignored as it asks."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.home = Path(environment.get("HOME") or Path.home())
        self.config = self._base("XDG_CONFIG_HOME", ".config")
        self.data = self._base("XDG_DATA_HOME", ".local/share")
        self.cache = self._base("XDG_CACHE_HOME", ".cache")
        self.state = self._base("XDG_STATE_HOME", ".local/state")
        runtime = environment.get("XDG_RUNTIME_DIR", "")
        self.runtime = Path(runtime) / "appliance" if Path(runtime).is_absolute() else None

    def _base(self, variable: str, below_home: str) -> Path:
        stated = self._environment.get(variable, "")
        return (Path(stated) if Path(stated).is_absolute() else self.home / below_home) / "appliance"


def config_path(given: Path | None, environment: Mapping[str, str], folders: XdgFolders) -> tuple[Path, bool]:
    """Return the configuration file, and whether someone named it, so that it must exist."""
    if given is not None:
        return given, True
    stated = environment.get(CONFIG_FILE_VARIABLE, "")
    if stated:
        return expand_home(stated, folders.home), True
    return folders.config / "config.toml", False


def expand_home(text: str, home: Path) -> Path:
    """Replace a leading `~`."""
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    return Path(text)
