"""Schemas that are broken, hostile or huge: a clear refusal or an answer, soon, and the program lives."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RunCli

CPU_LIMIT_S = 2.0
ANSWER = "value 7"


@pytest.fixture(autouse=True)
def script_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that answers with one value of the large enum."""
    path = tmp_path / "script.toml"
    steps = f"steps = [{{say = '\"{ANSWER}\"'}}]"
    path.write_text(f'[[model]]\nname = "scripted:value"\n[[model.turn]]\n{steps}\n', encoding="utf-8")
    monkeypatch.setenv("APPLIANCE_SCRIPT", str(path))


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def nested(levels: int) -> str:
    return '{"items": ' * levels + "{}" + "}" * levels


REFUSED: list[object] = [
    pytest.param(lambda: '{"type": "string"', "JSON", id="no JSON"),
    pytest.param(lambda: '{"type": "strin"}', "/type", id="no schema"),
    pytest.param(lambda: '{"$ref": "https://example.org/s.json"}', "refers outside", id="remote reference"),
    pytest.param(lambda: '{"$ref": "file:///etc/passwd"}', "refers outside", id="file reference"),
    pytest.param(lambda: json.dumps({"description": "x" * 5_000_000}), "more than", id="5 MB"),
    pytest.param(lambda: nested(5000), "schema", id="5000 levels"),
    pytest.param(lambda: nested(200), "schema", id="200 levels"),
    pytest.param(
        lambda: '{"type": "string", "pattern": "^(((a{1,100}){1,100}){1,100}){1,100}$"}',
        "pattern",
        id="repeats",
    ),
    pytest.param(
        lambda: '{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}',
        "no finite value",
        id="recursion without end",
    ),
    pytest.param(
        lambda: '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}',
        "refers to itself",
        id="references in a circle",
    ),
    pytest.param(lambda: '{"type": "string", "minLength": 5, "maxLength": 2}', "no", id="contradiction"),
]


@pytest.mark.parametrize("schema, named", REFUSED)
def test_a_bad_schema_is_refused_soon_and_clearly(
    run_cli: RunCli, tmp_path: Path, schema: Callable[[], str], named: str
) -> None:
    path = tmp_path / "schema.json"
    path.write_text(schema(), encoding="utf-8")
    before_s = children_cpu_s()

    shown = run_cli("ask", "-m", "scripted:value", "go", "--schema", str(path))

    assert (shown.returncode, shown.stdout) == (1, "")
    assert named in shown.stderr
    assert "bug" not in shown.stderr
    assert "Traceback" not in shown.stderr
    assert children_cpu_s() - before_s < CPU_LIMIT_S


ANSWERED: list[object] = [
    pytest.param({"enum": [f"value {i}" for i in range(10_000)]}, id="10,000 values"),
    pytest.param({"type": "string", "pattern": "^(v|(a+)+)*alue 7$"}, id="a pattern that backtracks"),
    pytest.param(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]}, id="recursion with an end"
    ),
]


@pytest.mark.parametrize("schema", ANSWERED)
def test_a_heavy_schema_is_answered_soon(run_cli: RunCli, tmp_path: Path, schema: dict[str, object]) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema), encoding="utf-8")
    before_s = children_cpu_s()

    shown = run_cli("ask", "-m", "scripted:value", "go", "--schema", str(path), "--no-schema-in-prompt")

    assert (shown.returncode, shown.stdout) == (0, f'"{ANSWER}"'), shown.stderr
    assert children_cpu_s() - before_s < CPU_LIMIT_S


def test_a_schema_too_long_for_the_prompt_says_how_to_leave_it_out(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"enum": [f"value {i}" for i in range(10_000)]}), encoding="utf-8")

    shown = run_cli("ask", "-m", "scripted:value", "go", "--schema", str(path))

    assert shown.returncode == 1
    assert "leave the schema out of the prompt" in shown.stderr
