"""Scripted models for the command line, in a file as a user would write it."""

from pathlib import Path

import pytest

SCRIPT = r"""
[[model]]
name = "scripted:thinker"
[[model.turn]]
steps = [{think = "Let me see. "}, {say = "Paris \u001b[31mis\u202e it."}]

[[model]]
name = "scripted:slow"
[[model.turn]]
steps = [{say = "one two three four five six seven eight nine ten", token_s = 0.4}]

[[model]]
name = "scripted:crash"
[[model.turn]]
steps = [{say = "half an "}, {fail = "engine_crashed", message = "it died"}]

[[model]]
name = "scripted:small"
context_window = 8
[[model.turn]]
steps = [{echo = true}]
"""


@pytest.fixture(autouse=True)
def script_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script, named to every command by the environment."""
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setenv("APPLIANCE_SCRIPT", str(path))
    return path
