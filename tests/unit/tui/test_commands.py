"""Slash commands: found, completed, and told apart from messages."""

import pytest

from appliance.core.errors import InvalidRequestError
from tui.commands import completions, is_command, parse_command


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/model smollm2", ("/model", "smollm2")),
        ("/bye", ("/exit", "")),
        ("/title  Two  words ", ("/title", "Two  words")),
        ("/search notice period", ("/chats", "notice period")),
    ],
)
def test_a_command_is_its_name_and_what_it_was_given(line: str, expected: tuple[str, str]) -> None:
    assert parse_command(line) == expected


def test_an_unknown_command_names_the_nearest() -> None:
    with pytest.raises(InvalidRequestError) as raised:
        parse_command("/modle")

    assert raised.value.hint == "did you mean /model?"


def test_two_slashes_begin_a_message() -> None:
    assert is_command("/help")
    assert not is_command("//help")


def test_completion_ends_where_the_argument_begins() -> None:
    assert [command.name for command in completions("/mo")] == ["/model", "/models"]
    assert completions("/model ") == []
    assert completions("plain") == []
