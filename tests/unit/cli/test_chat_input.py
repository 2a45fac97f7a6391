"""Messages of several lines are read whole, and the end of the input loses nothing."""

from contextlib import suppress

import pytest

from appliance.cli.chat_input import read_message


def reader(*lines: str) -> list[str]:
    """Read messages from lines until they end."""
    remaining = list(lines)

    def read_line(_prompt: str) -> str:
        if not remaining:
            raise EOFError
        return remaining.pop(0)

    messages: list[str] = []
    with suppress(EOFError):
        while True:
            messages.append(read_message(read_line))
    return messages


@pytest.mark.parametrize(
    "lines, messages",
    [
        (("one", "two"), ["one", "two"]),
        (("one\\", "two\\", "three", "four"), ["one\ntwo\nthree", "four"]),
        (('"""', "one", "", "two", '"""', "three"), ["one\n\ntwo", "three"]),
        (('"""one', 'two"""'), ["one\ntwo"]),
        (('"""one"""',), ["one"]),
        (('"""', "\\", '"""'), ["\\"]),
        (("one\\",), ["one"]),
        (('"""', "one"), ["one"]),
        (("",), [""]),
    ],
)
def test_lines_become_messages(lines: tuple[str, ...], messages: list[str]) -> None:
    assert reader(*lines) == messages
