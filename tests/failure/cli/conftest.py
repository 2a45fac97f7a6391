"""Scripted models that take their time, so that an answer can be broken off."""

from pathlib import Path

import pytest

SCRIPT = """
[[model]]
name = "scripted:slow"
[[model.turn]]
steps = [{say = "one two three four five six seven eight nine ten", token_s = 0.5}]

[[model]]
name = "scripted:hostile"
[[model.turn]]
steps = [{say = "red \\u001b[31m \\u001b]52;c;aGk=\\u0007 \\u202e end"}]
"""


@pytest.fixture(autouse=True)
def script_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script, named to every command by the environment."""
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setenv("APPLIANCE_SCRIPT", str(path))
