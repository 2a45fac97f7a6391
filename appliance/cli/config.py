"""`appliance config`: every setting, its value, and where that came from."""

from __future__ import annotations

import json
from math import isinf
from pathlib import Path

import click

from appliance.cli.invocation import Invocation
from appliance.config import ResolvedSetting, Scalar, Settings


@click.command("config")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def config_command(invocation: Invocation, *, as_json: bool) -> None:
    """List every setting and its source.

    A setting comes from the strongest of: a flag (`appliance --set NAME=VALUE`), its environment
    variable, the TOML file, the default. The file is $APPLIANCE_CONFIG, or appliance/config.toml under
    the XDG configuration folder; it holds lines such as `context_window = 8192`.
    """
    settings = invocation.settings()
    for warning in settings.unread_environment:
        click.echo(f"warning: {warning}", err=True)
    click.echo(_as_json(settings) if as_json else _as_table(settings))


def _as_json(settings: Settings) -> str:
    listed = {
        setting.name: {
            "value": _plain(setting.value),
            "source": setting.source,
            "origin": setting.origin,
            "environment_variable": setting.environment_variable,
            "description": setting.description,
        }
        for setting in settings.resolved
    }
    return json.dumps({"config_file": str(settings.config_file), "settings": listed}, indent=2)


def _plain(value: Scalar) -> str | int | float | bool:
    if isinstance(value, Path) or (isinstance(value, float) and isinf(value)):
        return str(value)
    return value


def _as_table(settings: Settings) -> str:
    exists = "" if settings.config_file.exists() else " (does not exist)"
    rows = [_row(setting) for setting in settings.resolved]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows]
    return "\n".join([f"file: {settings.config_file}{exists}", "", *lines])


def _row(setting: ResolvedSetting) -> tuple[str, str, str]:
    value = setting.value
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return setting.name, text, setting.origin
