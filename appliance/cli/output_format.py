"""The options of `ask` that say what form the answer has, and the format they mean."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

import click

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import ChoiceFormat, GrammarFormat, OutputFormat, RegexFormat, TextFormat

if TYPE_CHECKING:
    from appliance.core.requests import JsonSchemaFormat

_Command = TypeVar("_Command", bound=Callable[..., object])

_GRAMMAR_LIMIT_BYTES = 1_000_000


class FormatFlags(TypedDict):
    """What the options said; `None` is an option not given."""

    schema: str | None
    choice: str | None
    regex: str | None
    grammar: str | None
    hides_schema: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedForm:
    """The form of an answer. `answer_type` is the class whose own validators judge it as well."""

    output: OutputFormat
    answer_type: type | None = None


_OPTIONS = (
    click.option(
        "--schema",
        metavar="SCHEMA",
        help='JSON that satisfies a schema: a FILE, inline JSON, module:Class, or "name, age int, tags [str]".',
    ),
    click.option(
        "--choice", metavar="A,B,C", help="Exactly one of these; a JSON list where a comma is meant."
    ),
    click.option("--regex", metavar="PATTERN", help="Text that a regular expression matches as a whole."),
    click.option("--grammar", metavar="FILE", help="Text of a context-free grammar in Lark syntax."),
    click.option(
        "--no-schema-in-prompt", "hides_schema", is_flag=True, help="Do not show the schema to the model."
    ),
)


def format_options(command: _Command) -> _Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def form_of(flags: FormatFlags) -> AskedForm:
    """Return the form that was asked for; free text when none was.

    Raises:
        UsageError: two forms were asked for.
        SchemaRejectedError: a file cannot be read, or the argument means nothing.
    """
    given = [name for name in ("schema", "choice", "regex", "grammar") if flags[name] is not None]
    if len(given) > 1:
        raise click.UsageError(f"--{given[0]} and --{given[1]} exclude each other: an answer has one form")
    if flags["hides_schema"] and flags["schema"] is None:
        raise click.UsageError("--no-schema-in-prompt goes with --schema")
    if flags["schema"] is not None:
        return _schema_form(flags["schema"], in_prompt=not flags["hides_schema"])
    if flags["choice"] is not None:
        return AskedForm(output=ChoiceFormat(choices=_choices(flags["choice"])))
    if flags["regex"] is not None:
        return AskedForm(output=RegexFormat(pattern=flags["regex"]))
    if flags["grammar"] is not None:
        return AskedForm(output=GrammarFormat(grammar=_grammar_text(Path(flags["grammar"]))))
    return AskedForm(output=TextFormat())


def format_of_schema(argument: str) -> JsonSchemaFormat:
    """Return the format a schema argument means; what a module prints on import goes to standard error."""
    from appliance.structured.python_types import format_of_argument

    with redirect_stdout(sys.stderr):
        return format_of_argument(argument)


def _schema_form(argument: str, *, in_prompt: bool) -> AskedForm:
    from appliance.structured.python_types import is_model_reference, load_model

    output = replace(format_of_schema(argument), in_prompt=in_prompt)
    answer_type = load_model(argument.strip()) if is_model_reference(argument) else None
    return AskedForm(output=output, answer_type=answer_type)


def _choices(argument: str) -> tuple[str, ...]:
    if not argument.lstrip().startswith("["):
        return tuple(choice.strip() for choice in argument.split(","))
    try:
        listed: object = json.loads(argument)
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not all(isinstance(choice, str) for choice in listed):
        raise SchemaRejectedError(
            "--choice begins like a JSON list but is no list of texts",
            keyword="choices",
            hint="""write --choice a,b or --choice '["a, b", "c"]'""",
        )
    return tuple(listed)


def _grammar_text(path: Path) -> str:
    try:
        if path.stat().st_size > _GRAMMAR_LIMIT_BYTES:
            raise SchemaRejectedError(f"{path} has more than {_GRAMMAR_LIMIT_BYTES} bytes", keyword="grammar")
        return path.read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise SchemaRejectedError(
            f"{path} cannot be read: {exc.strerror}", keyword="grammar", hint="check the path"
        ) from exc
    except UnicodeDecodeError as exc:
        raise SchemaRejectedError(
            f"{path} is not UTF-8 text", keyword="grammar", hint="save it as UTF-8"
        ) from exc
