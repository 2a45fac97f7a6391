"""Models of a server from the command line: listed, asked by name, and said to be elsewhere."""

import asyncio
import json
from pathlib import Path

from appliance.providers.script import Say, ScriptedModel
from tests.conftest import RunCli
from tests.openai_server import ScriptedServer, running

SCRIPT = ScriptedModel(name="tiny", turns=((Say(text="Good morning."),),))


def configured(folder: Path, url: str, more: str = "") -> str:
    path = folder / "config.toml"
    stated = 'models = [{name = "tiny", capabilities = ["streaming_usage"]}]'
    path.write_text(f'[providers.box]\nurl = "{url}"\n{stated}\n{more}', encoding="utf-8")
    return str(path)


async def test_a_model_of_a_server_is_listed_and_answers(run_cli: RunCli, tmp_path: Path) -> None:
    async with running(ScriptedServer(SCRIPT).answer) as server:
        config = configured(tmp_path, server.url)
        listed = await asyncio.to_thread(run_cli, "--config", config, "list", "--json")
        asked = await asyncio.to_thread(run_cli, "--config", config, "ask", "-m", "box/tiny", "hello")

    remote = [row for row in json.loads(listed.stdout) if row.get("provider") == "box"]
    assert [(row["id"], row["placement"]) for row in remote] == [("box/tiny", "this_machine")]
    assert (asked.stdout, asked.stderr) == ("Good morning.", "")


async def test_a_server_that_leads_elsewhere_is_said_to_before_it_is_asked(
    run_cli: RunCli, tmp_path: Path
) -> None:
    async with running(ScriptedServer(SCRIPT).answer) as server:
        config = configured(tmp_path, server.url, 'place = "elsewhere"\nallow = true')
        asked = await asyncio.to_thread(run_cli, "--config", config, "ask", "-m", "box/tiny", "hello")

    assert asked.stdout == "Good morning."
    assert "leaves this machine" in asked.stderr


async def test_without_permission_nothing_is_sent(run_cli: RunCli, tmp_path: Path) -> None:
    async with running(ScriptedServer(SCRIPT).answer) as server:
        config = configured(tmp_path, server.url, 'place = "elsewhere"')
        asked = await asyncio.to_thread(run_cli, "--config", config, "ask", "-m", "box/tiny", "hello")

    assert asked.returncode == 1
    assert "providers.box.allow" in asked.stderr
    assert server.received == []


def test_a_server_that_is_down_does_not_hide_the_models_of_this_machine(
    run_cli: RunCli, tmp_path: Path
) -> None:
    listed = run_cli("--config", configured(tmp_path, "http://127.0.0.1:9"), "list")

    assert listed.returncode == 0
    assert "smollm2:135m-instruct-q4_1" in listed.stdout
    assert "nothing answers at http://127.0.0.1:9" in listed.stdout
