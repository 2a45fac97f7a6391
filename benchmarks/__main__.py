"""`python -m benchmarks`: the same commands as `appliance bench`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from appliance.core.errors import ApplianceError, ConfigError
from benchmarks.commands.group import bench_command

if TYPE_CHECKING:
    from appliance.config import Scalar, Settings


class OwnSettings:
    """The settings of the environment and the configuration file."""

    def settings(self, flags: Mapping[str, Scalar | None] | None = None) -> Settings:
        """Read them."""
        from appliance.config import load_settings

        return load_settings(flags)


def main() -> int:
    """Run one command line; 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        outcome = bench_command.main(
            prog_name="python -m benchmarks", standalone_mode=False, obj=OwnSettings()
        )
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 130
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except ApplianceError as exc:
        click.echo(f"error: {exc.message}", err=True)
        if exc.hint:
            click.echo(f"hint: {exc.hint}", err=True)
        return 2 if isinstance(exc, ConfigError) else 1
    return outcome if isinstance(outcome, int) else 0


if __name__ == "__main__":
    sys.exit(main())
