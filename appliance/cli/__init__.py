"""The command `appliance`; `main` is its console entry point."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; see `appliance.cli.main` for the codes."""
    from appliance.cli.main import run

    return run(arguments)
