"""`appliance ask` with a form of answer, and `appliance schema check`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli

SCRIPT = """
[[model]]
name = "scripted:person"
[[model.turn]]
steps = [{say = '{"name": "Ann", "age": 7}'}]
[[model.turn]]
steps = [{say = '{"name": "Ann", "age": 70}'}]

[[model]]
name = "scripted:child"
[[model.turn]]
steps = [{say = '{"name": "Tim", "age": 7}'}]

[[model]]
name = "scripted:yes"
[[model.turn]]
steps = [{say = "yes"}]
"""

SHAPES = """
from pydantic import BaseModel, field_validator

print("printed while it is imported")


class Person(BaseModel):
    name: str
    age: int


class Adult(Person):
    @field_validator("age")
    @classmethod
    def _adult(cls, age: int) -> int:
        if age < 18:
            raise ValueError("must be 18 or more")
        return age


class Unwritable(BaseModel):
    call: type(print)

    model_config = {"arbitrary_types_allowed": True}


nothing = 7
"""

PERSON = ("ask", "-m", "scripted:person", "who?")
CHILD = ("ask", "-m", "scripted:child", "who?")
YES = ("ask", "-m", "scripted:yes", "well?")


@pytest.fixture(autouse=True)
def script_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script, and a module of shapes that can be imported."""
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "shapes.py").write_text(SHAPES, encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.setenv("APPLIANCE_SCRIPT", str(path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return path


@pytest.fixture
def schema_file(tmp_path: Path) -> str:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    }
    path = tmp_path / "person.json"
    path.write_text(json.dumps(schema), encoding="utf-8")
    return str(path)


def test_a_schema_is_a_file_inline_json_a_short_form_or_a_class(run_cli: RunCli, schema_file: str) -> None:
    inline = Path(schema_file).read_text(encoding="utf-8")

    for schema in (schema_file, inline, "name, age int", "shapes:Person"):
        shown = run_cli(*PERSON, "--schema", schema)
        assert (shown.returncode, shown.stdout) == (0, '{"name": "Ann", "age": 7}'), (schema, shown.stderr)


def test_json_holds_text_value_and_the_cost_of_the_schema(run_cli: RunCli) -> None:
    shown = json.loads(run_cli(*PERSON, "--schema", "name, age int", "--json").stdout)
    hidden = run_cli(*PERSON, "--schema", "name, age int", "--json", "--no-schema-in-prompt")

    cost, answer = shown["format_in_prompt"], json.loads(hidden.stdout)
    assert shown["value"] == {"name": "Ann", "age": 7}
    assert json.loads(shown["text"]) == shown["value"]
    assert cost["characters"] > 100
    assert answer["format_in_prompt"] == {"characters": 0, "tokens": 0}
    assert shown["usage"]["input_tokens"] == answer["usage"]["input_tokens"] + cost["tokens"]


def test_free_text_has_no_value(run_cli: RunCli) -> None:
    assert json.loads(run_cli(*PERSON, "--json").stdout)["value"] is None


def test_a_class_judges_with_its_own_rules_and_one_repair(run_cli: RunCli) -> None:
    shown = run_cli(*PERSON, "--schema", "shapes:Adult")

    assert (shown.returncode, shown.stdout) == (0, '{"name": "Ann", "age": 70}')
    assert "printed while it is imported" in shown.stderr


def test_an_answer_that_stays_wrong_is_an_error_with_its_text_in_json(run_cli: RunCli) -> None:
    shown = run_cli(*CHILD, "--schema", "shapes:Adult")
    answer = json.loads(run_cli(*CHILD, "--schema", "shapes:Adult", "--json").stdout)

    assert (shown.returncode, shown.stdout) == (1, "")
    assert "must be 18 or more" in shown.stderr
    assert "hint: " in shown.stderr
    assert (answer["value"], answer["failure"]["kind"]) == (None, "malformed_output")
    assert answer["failure"]["details"]["raw_text"] == '{"name": "Tim", "age": 7}'


@pytest.mark.parametrize(
    "form, code",
    [
        (("--choice", "yes,no"), 0),
        (("--choice", " yes , no "), 0),
        (("--choice", '["yes", "no, thanks"]'), 0),
        (("--choice", "no,maybe"), 1),
        (("--regex", "[a-z]{3}"), 0),
        (("--regex", "[a-z]{2}"), 1),
    ],
)
def test_choices_and_patterns(run_cli: RunCli, form: tuple[str, str], code: int) -> None:
    shown = run_cli(*YES, *form)

    assert shown.returncode == code, shown.stderr
    assert ("error: " in shown.stderr) == bool(code)


def test_a_grammar_is_read_from_a_file(run_cli: RunCli, tmp_path: Path) -> None:
    allowed, other = tmp_path / "yes.lark", tmp_path / "no.lark"
    allowed.write_text('start: "yes" | "no"\n', encoding="utf-8")
    other.write_text('start: "maybe"\n', encoding="utf-8")

    assert run_cli(*YES, "--grammar", str(allowed)).returncode == 0
    assert run_cli(*YES, "--grammar", str(other)).returncode == 1


@pytest.mark.parametrize(
    "form, named",
    [
        (("--choice", "a,b", "--regex", "x"), "--choice and --regex"),
        (("--no-schema-in-prompt",), "goes with --schema"),
    ],
)
def test_options_that_contradict_are_wrong_usage(run_cli: RunCli, form: tuple[str, ...], named: str) -> None:
    shown = run_cli(*YES, *form)

    assert shown.returncode == 2
    assert named in shown.stderr


@pytest.mark.parametrize(
    "form, named",
    [
        (("--schema", "name, age in"), "'in' is no type"),
        (("--schema", ""), "needs a name"),
        (("--schema", "{oops"), "JSON"),
        (("--schema", "absent.json"), "absent.json cannot be read"),
        (("--schema", "shapes:Absent"), "cannot be imported"),
        (("--schema", "shapes:nothing"), "is no Pydantic model"),
        (("--schema", "shapes:Unwritable"), "has no JSON Schema"),
        (("--schema", "broken:Model"), "ZeroDivisionError"),
        (("--choice", ""), "at least one"),
        (("--choice", "a,a"), "twice"),
        (("--choice", "[1, 2]"), "list of texts"),
        (("--regex", "("), "regex"),
        (("--regex", "a(?=b)"), "lookarounds"),
        (("--grammar", "absent.lark"), "absent.lark cannot be read"),
        (("--schema", "name", "--stop", "x"), "stop strings"),
    ],
)
def test_a_form_that_cannot_be_used_is_refused_with_cause_and_way_out(
    run_cli: RunCli, form: tuple[str, ...], named: str
) -> None:
    shown = run_cli(*PERSON, *form)

    assert (shown.returncode, shown.stdout) == (1, "")
    assert named in shown.stderr
    assert "hint: " in shown.stderr
    assert "bug" not in shown.stderr


def test_check_says_what_is_enforced_keyword_by_keyword(run_cli: RunCli) -> None:
    schema = '{"type": "array", "items": {"type": "integer", "description": "n"}, "uniqueItems": true}'
    shown = run_cli("schema", "check", schema, "--json")
    table = run_cli("schema", "check", schema)

    report = json.loads(shown.stdout)
    statuses = {(row["pointer"], row["keyword"]): row["status"] for row in report["keywords"]}
    assert report["admitted"] is True
    assert statuses[("", "uniqueItems")] in ("enforced", "checked_after")
    assert statuses[("/items", "type")] == "enforced"
    assert (shown.returncode, table.returncode) == (0, 0)
    assert "uniqueItems" in table.stdout


def test_check_of_a_refused_schema_fails_and_says_where(run_cli: RunCli) -> None:
    shown = run_cli("schema", "check", '{"properties": {"a": {"$ref": "https://x.org/y"}}}', "--json")

    report = json.loads(shown.stdout)
    assert shown.returncode == 1
    assert report["admitted"] is False
    assert report["keywords"][0]["pointer"] == "/properties/a/$ref"
    assert "/properties/a" in shown.stderr
