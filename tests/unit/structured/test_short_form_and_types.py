"""What a user may write for a schema: a short form, a file, a model, a Python type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import ChoiceFormat, GrammarFormat, JsonSchemaFormat, RegexFormat
from appliance.structured.python_types import format_of_argument, format_of_type, load_model
from appliance.structured.short_form import short_form_schema


class Invoice(BaseModel):
    number: str
    total: float


def test_the_short_form_names_fields_types_lists_objects_and_choices() -> None:
    assert short_form_schema("name, age int, tags [str], at {zip int?}, size s|m|l, note?") == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "at": {
                "type": "object",
                "properties": {"zip": {"type": "integer"}},
                "required": [],
                "additionalProperties": False,
            },
            "size": {"enum": ["s", "m", "l"]},
            "note": {"type": "string"},
        },
        "required": ["name", "age", "tags", "at", "size"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "text",
    ["", "a,,b", "a foo", "a [int", "a {b", "a, a", "a $", "a s||m", "a int extra", "{a}", "a " + "[" * 60],
)
def test_a_short_form_that_is_not_understood_says_how_to_write_one(text: str) -> None:
    with pytest.raises(SchemaRejectedError) as caught:
        short_form_schema(text)
    assert "name, age int" in caught.value.hint


def test_python_types_become_formats_by_way_of_outlines() -> None:
    from outlines.types import CFG, Regex

    model = format_of_type(Invoice)
    assert isinstance(model, JsonSchemaFormat)
    assert list(json.loads(model.schema_json)["properties"]) == ["number", "total"]
    assert format_of_type(Literal["a", "b"]) == ChoiceFormat(choices=("a", "b"))
    assert format_of_type(Regex("[a-c]+")) == RegexFormat(pattern="[a-c]+")
    assert format_of_type(CFG('start: "a"')) == GrammarFormat(grammar='start: "a"')
    assert format_of_type(list[int]) == JsonSchemaFormat(
        schema_json='{"items": {"type": "integer"}, "type": "array"}'
    )


def test_an_argument_may_be_a_file_a_model_inline_json_or_a_short_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "invoice.json").write_text('{"type": "string"}')
    (tmp_path / "made_up_models.py").write_text(
        "from pydantic import BaseModel\nclass Row(BaseModel):\n    x: int\n"
    )
    assert format_of_argument("invoice.json") == JsonSchemaFormat(
        schema_json='{"type": "string"}', name="invoice"
    )
    assert format_of_argument("made_up_models:Row").name == "Row"
    assert format_of_argument('{"type": "null"}').schema_json == '{"type": "null"}'
    assert json.loads(format_of_argument("name, n int").schema_json)["required"] == ["name", "n"]
    assert load_model("made_up_models:Row").model_fields.keys() == {"x"}


@pytest.mark.parametrize("argument", ["absent.json", "absent_module:Row", "json:dumps", "json:Absent"])
def test_an_argument_that_means_nothing_is_refused(argument: str) -> None:
    with pytest.raises(SchemaRejectedError):
        format_of_argument(argument)
