"""The keys of the terminal interface in the configuration file."""

from pathlib import Path

import pytest

from appliance.config import load_settings
from appliance.core.errors import ConfigError


def keys_of(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "config.toml"
    path.write_text(f"[keys]\n{text}\n", encoding="utf-8")
    return dict(load_settings(config_file=path, environ={"HOME": str(tmp_path)}).keys)


def test_a_key_is_given_and_the_others_stay(tmp_path: Path) -> None:
    keys = keys_of(tmp_path, 'memory = "Alt+M"')

    assert (keys["memory"], keys["chats"]) == ("alt+m", "f2")


def test_two_actions_may_change_places(tmp_path: Path) -> None:
    keys = keys_of(tmp_path, 'chats = "f3"\nlibrary = "f2"')

    assert (keys["chats"], keys["library"]) == ("f3", "f2")


@pytest.mark.parametrize(
    "text, why",
    [
        ('memory = "f2"', "a key of its own"),
        ('memory = "m"', "letters alone are for writing"),
        ('memory = "ctrl+c"', "copies or stops"),
        ('memory = "f99"', "a key like f5"),
        ("memory = 7", "a non-empty text"),
        ('memroy = "f5"', "there is no keys.memroy"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        keys_of(tmp_path, text)

    assert "config.toml:" in refused.value.message
