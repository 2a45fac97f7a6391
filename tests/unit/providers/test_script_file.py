"""A script file becomes models, or an error that says what is wrong with it."""

from pathlib import Path

import pytest

from appliance.core.errors import ConfigError
from appliance.providers.script import CallTool, EchoQuestion, Fail, Say, Think, Wait
from appliance.providers.script_file import read_script_file


def written(folder: Path, text: str) -> Path:
    path = folder / "script.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_kind_of_step_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        [[model]]
        name = "scripted:all"
        context_window = 99
        load_s = 1
        [[model.turn]]
        steps = [
            {think = "hm", token_s = 0.5}, {say = "ok"}, {call = "clock", arguments = "{}"},
            {echo = true}, {wait = 2}, {fail = "timeout", message = "late"},
        ]
        """,
    )

    (model,) = read_script_file(path)

    steps = model.turns[0]
    assert (model.name, model.context_window, model.load_s) == ("scripted:all", 99, 1.0)
    assert steps[0] == Think(text="hm", token_s=0.5)
    assert steps[1] == Say(text="ok")
    assert steps[2] == CallTool(name="clock", arguments_json="{}")
    assert steps[3:5] == (EchoQuestion(), Wait(duration_s=2.0))
    assert isinstance(steps[5], Fail)
    assert steps[5].failure.kind == "timeout"


@pytest.mark.parametrize(
    "text, why",
    [
        ("[[model]]\n[[model.turn]]\nsteps = [{say = 'x'}]", "name must be a text"),
        ("[[model]]\nname = 'm'\n[[model.turn]]\nsteps = [{shout = 'x'}]", "is no step"),
        ("[[model]]\nname = 'm'\n[[model.turn]]\nsteps = [{fail = 'boredom', message = ''}]", "is no step"),
        ("[[model]]\nname = 'm'\nload_s = -1\n[[model.turn]]\nsteps = [{say = 'x'}]", "load_s must be"),
        ("[[model]]\nname = 'm'", "has no turn"),
        ("model = 3", "model must be a list"),
        ("= broken", "not valid TOML"),
    ],
)
def test_a_bad_script_says_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_script_file(written(tmp_path, text))


def test_a_missing_script_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_script_file(tmp_path / "none.toml")
