"""The keys of the terminal interface: which there are, and other ones that a user gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from appliance.config.tables import Table

USUAL_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "help": "f1",
        "chats": "f2",
        "library": "f3",
        "models": "f4",
        "settings": "f5",
        "log": "f6",
        "memory": "f7",
        "extract": "f8",
        "bench": "f9",
        "new_chat": "ctrl+n",
        "receipt": "ctrl+t",
        "palette": "ctrl+p",
        "quit": "ctrl+q",
    }
)
"""What can be done by key from everywhere, and the key it has by default."""

_KEY = re.compile(r"(?:shift\+)?f(?:[1-9]|1[0-9]|2[0-4])|(?:ctrl|alt|ctrl\+shift|ctrl\+alt)\+[a-z0-9_]+")
_TAKEN = MappingProxyType(
    {
        "ctrl+c": "copies or stops",
        "ctrl+j": "begins a new line",
        "ctrl+g": "opens the editor",
        "ctrl+r": "searches what was asked",
        "ctrl+m": "is Enter",
        "ctrl+i": "is Tab",
        "ctrl+z": "is undo",
        "ctrl+x": "cuts",
        "ctrl+v": "pastes",
    }
)


def parse_keys(table: Table) -> Mapping[str, str]:
    """Read the table `keys`: the whole map, with what was not stated as usual.

    Raises:
        ConfigError: an action is unknown, a key cannot be used, or two actions have one key.
    """
    keys = {action: table.text(action, usual).lower() for action, usual in USUAL_KEYS.items()}
    table.finish()
    for action, key in keys.items():
        if key in _TAKEN:
            raise table.wrong(action, f"another key is expected: {key} {_TAKEN[key]}")
        if not _KEY.fullmatch(key):
            raise table.wrong(
                action, "a key like f5, ctrl+n or alt+m is expected; letters alone are for writing"
            )
        if same := [other for other in keys if other != action and keys[other] == key]:
            which = action if action in table else same[0]
            raise table.wrong(which, f"a key of its own is expected: {action} and {same[0]} both have {key}")
    return MappingProxyType(keys)
