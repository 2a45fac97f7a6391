"""Reads scripted models from a TOML file.

    [[model]]
    name = "scripted:slow"              # optional: context_window, load_s, prefill_token_s
    [[model.turn]]
    steps = [{think = "Let me see."}, {say = "Paris.", token_s = 0.1}]

A step is one of `say`, `think` (with `token_s`), `call` (with `arguments`), `echo = true`, `wait`, and
`fail` (a failure kind, with `message`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast, get_args

from appliance.core.errors import ConfigError, Failure, FailureKind, InvalidRequestError
from appliance.providers.script import CallTool, EchoQuestion, Fail, Say, ScriptedModel, Step, Think, Wait

Table = Mapping[str, object]


def read_script_file(path: Path) -> list[ScriptedModel]:
    """Read the models of a script file.

    Raises:
        ConfigError: the file cannot be read or is no script; the message says where.
    """
    try:
        values: Table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"the script {path} cannot be read: {exc.strerror}") from exc
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"the script {path} is not valid TOML: {exc}") from exc
    try:
        return [_model(table) for table in _tables(values, "model")]
    except (InvalidRequestError, TypeError, ValueError) as exc:
        raise ConfigError(f"the script {path} is not valid: {exc}") from exc


def _model(table: Table) -> ScriptedModel:
    name = _text(table, "name")
    turns = tuple(tuple(_step(step) for step in _tables(turn, "steps")) for turn in _tables(table, "turn"))
    return ScriptedModel(
        name=name,
        turns=turns,
        context_window=int(_number(table, "context_window", 4096)),
        load_s=_number(table, "load_s", 0.0),
        prefill_token_s=_number(table, "prefill_token_s", 0.0),
    )


def _step(table: Table) -> Step:
    match table:
        case {"say": str(text)}:
            return Say(text=text, token_s=_number(table, "token_s", 0.0))
        case {"think": str(text)}:
            return Think(text=text, token_s=_number(table, "token_s", 0.0))
        case {"call": str(name)}:
            return CallTool(name=name, arguments_json=_text(table, "arguments"))
        case {"echo": True}:
            return EchoQuestion(token_s=_number(table, "token_s", 0.0))
        case {"wait": int() | float()}:
            return Wait(duration_s=_number(table, "wait", 0.0))
        case {"fail": str(kind)} if kind in get_args(FailureKind):
            return Fail(failure=Failure(kind=cast(FailureKind, kind), message=_text(table, "message")))
        case _:
            raise ValueError(f"{dict(table)} is no step")


def _tables(table: Table, key: str) -> list[Table]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise TypeError(f"{key} must be a list of tables")
    return value


def _text(table: Table, key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise TypeError(f"{key} must be a text")
    return value


def _number(table: Table, key: str, default: float) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise TypeError(f"{key} must be a number from 0 up")
    return float(value)
