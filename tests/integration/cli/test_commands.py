"""The command line as a whole: help, settings, usage errors, and exit codes."""

import json

import pytest

from appliance import __version__
from appliance.cli.main import COMMANDS, LateGroup, appliance_command
from tests.conftest import RunCli


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_and_is_the_one_its_entry_names(name: str) -> None:
    import click

    context = click.Context(appliance_command)
    assert isinstance(appliance_command, LateGroup)

    command = appliance_command.get_command(context, name)

    assert command is not None
    assert command.name == name
    assert len(command.get_help(click.Context(command, parent=context, info_name=name))) > 80


def test_help_lists_every_command_with_its_summary(run_cli: RunCli) -> None:
    shown = run_cli("--help")

    assert shown.returncode == 0
    for name, entry in COMMANDS.items():
        assert any(line.split()[:1] == [name] and entry.summary in line for line in shown.stdout.splitlines())


def test_version(run_cli: RunCli) -> None:
    assert run_cli("--version").stdout == f"appliance {__version__}\n"


def test_without_a_terminal_no_chat_opens_and_it_says_how_to_ask(run_cli: RunCli) -> None:
    shown = run_cli()

    assert shown.returncode == 0
    assert "In a terminal this opens a chat" in shown.stdout
    assert 'appliance ask "' in shown.stdout


USAGE = [
    pytest.param(["chta"], "Did you mean", id="misspelt command"),
    pytest.param(["ask", "--temprature", "1", "hi"], "--temperature", id="misspelt option"),
    pytest.param(["ask"], "nothing was asked", id="no question"),
    pytest.param(["ask", "hi", "--temperature", "hot"], "not a valid float", id="not a number"),
    pytest.param(["ask", "hi", "--temperature", "-1"], "temperature is -1", id="outside the range"),
    pytest.param(["ask", "hi", "--stop", ""], "stop takes", id="empty stop string"),
    pytest.param(["ask", "hi", "--seed", "-5"], "seed is -5", id="seed below zero"),
    pytest.param(["ask", "hi", "--max-tokens", "-1"], "max_tokens is -1", id="no tokens"),
    pytest.param(["--set", "threads", "config"], "NAME=VALUE", id="set without a value"),
    pytest.param(["--set", "thread=1", "config"], "did you mean 'threads'?", id="unknown setting"),
    pytest.param(["--config", "/none.toml", "config"], "does not exist", id="no such file"),
]


@pytest.mark.parametrize("arguments, why", USAGE)
def test_wrong_usage_exits_with_2_and_says_why(run_cli: RunCli, arguments: list[str], why: str) -> None:
    shown = run_cli(*arguments)

    assert shown.returncode == 2
    assert why in shown.stderr
    assert "Traceback" not in shown.stderr
    assert shown.stdout == ""


def test_config_shows_value_and_source_of_every_setting(run_cli: RunCli) -> None:
    shown = run_cli("--set", "threads=3", "config", "--json", environment={"APPLIANCE_PARALLEL": "2"})

    listed = json.loads(shown.stdout)["settings"]
    assert (listed["threads"]["value"], listed["threads"]["source"]) == (3, "flag")
    assert (listed["parallel"]["value"], listed["parallel"]["origin"]) == (2, "APPLIANCE_PARALLEL")
    assert listed["top_k"]["source"] == "default"


def test_config_warns_of_a_misspelt_variable(run_cli: RunCli) -> None:
    shown = run_cli("config", environment={"APPLIANCE_CONTEXT_WINDOWS": "9"})

    assert "did you mean APPLIANCE_CONTEXT_WINDOW?" in shown.stderr


def test_ps_without_workers(run_cli: RunCli) -> None:
    assert run_cli("ps").stdout == "no model is loaded\n"
    assert json.loads(run_cli("ps", "--json").stdout) == {"workers": []}
