"""What the options before the command name said; every command receives it with `click.pass_obj`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.config import Scalar, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The options of the whole command line, before any command's own."""

    flags: Mapping[str, Scalar] = field(default_factory=dict)
    config_file: Path | None = None
    is_debug: bool = False

    def settings(self, flags: Mapping[str, Scalar | None] | None = None) -> Settings:
        """Read the settings; a command's own flags win over `--set`, and `None` is a flag not given.

        Raises:
            ConfigError: a setting is unknown or unusable.
        """
        from appliance.config import load_settings

        own = {name: value for name, value in (flags or {}).items() if value is not None}
        return load_settings({**self.flags, **own}, config_file=self.config_file)
