"""Python types to output formats, by way of Outlines; and what a user may write after `--schema`."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import ChoiceFormat, GrammarFormat, JsonSchemaFormat, OutputFormat, RegexFormat
from appliance.structured.report import StructuredLimits
from appliance.structured.short_form import short_form_schema

_REFERENCE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def format_of_type(python_type: object) -> OutputFormat:
    """Return the output format of a Python type or an Outlines term.

    A Pydantic model, dataclass or typed dictionary becomes its JSON Schema; a `Literal` or `Enum` of texts
    a choice; an Outlines regex or grammar stays one. Any other annotation, like `list[int]`, becomes the
    JSON Schema of its values.

    Raises:
        SchemaRejectedError: there is no format for it.
    """
    _keep_outlines_cache_private()
    from outlines.types.dsl import CFG, Alternatives, Choice, JsonSchema, Regex, python_types_to_terms

    try:
        term = python_types_to_terms(python_type)
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        return _schema_of_annotation(python_type, error)
    if isinstance(term, JsonSchema):
        return JsonSchemaFormat(schema_json=term.schema, name=getattr(python_type, "__name__", "answer"))
    if isinstance(term, Choice):
        return ChoiceFormat(choices=tuple(str(item) for item in term.items))
    if isinstance(term, CFG):
        return GrammarFormat(grammar=term.definition)
    if isinstance(term, Regex) and not isinstance(python_type, type):
        return RegexFormat(pattern=term.pattern)
    if isinstance(term, Alternatives) and (choices := _texts_of(term.terms)):
        return ChoiceFormat(choices=choices)
    return _schema_of_annotation(python_type, None)


def format_of_argument(argument: str) -> JsonSchemaFormat:
    """Return the format a user means: a file, inline JSON, a Pydantic model as `module:Class`, or a short form.

    Raises:
        SchemaRejectedError: it cannot be read or means nothing.
    """
    text = argument.strip()
    if text.startswith("{"):
        return JsonSchemaFormat(schema_json=text)
    path = Path(text).expanduser()
    if path.suffix == ".json" or path.is_file():
        return JsonSchemaFormat(schema_json=read_schema_file(path), name=path.stem)
    if _REFERENCE.fullmatch(text):
        return _schema_of_model(load_model(text))
    return JsonSchemaFormat(schema_json=json.dumps(short_form_schema(text)))


def is_model_reference(argument: str) -> bool:
    """Whether an argument is taken as `module:Class`."""
    text = argument.strip()
    return bool(_REFERENCE.fullmatch(text)) and not Path(text).expanduser().is_file()


def read_schema_file(path: Path) -> str:
    """Read the text of a schema file.

    Raises:
        SchemaRejectedError: it is missing, too large or no UTF-8.
    """
    limit = StructuredLimits().schema_bytes
    try:
        if path.stat().st_size > limit:
            raise SchemaRejectedError(
                f"{path} has more than {limit} bytes", hint="remove what the answer does not need"
            )
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SchemaRejectedError(f"{path} cannot be read: {error.strerror}", hint="check the path") from None
    except UnicodeDecodeError:
        raise SchemaRejectedError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from None


def load_model(reference: str) -> type[BaseModel]:
    """Import a Pydantic model named `module:Class`; modules of the working folder are found first.

    Raises:
        SchemaRejectedError: there is no such module or class, or it is no Pydantic model.
    """
    module_name, _, class_name = reference.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: object = import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise SchemaRejectedError(
            f"{reference} cannot be imported: {error}", hint="write module:Class, in a folder you run from"
        ) from error
    except Exception as error:  # the user's own code
        raise SchemaRejectedError(
            f"{module_name} failed while it was imported: {type(error).__name__}: {error}",
            hint="run it with python to see where",
        ) from error
    finally:
        sys.path.pop(0)
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        raise SchemaRejectedError(
            f"{reference} is no Pydantic model", hint="name a subclass of pydantic.BaseModel"
        )
    return found


def _schema_of_model(model: type[BaseModel]) -> JsonSchemaFormat:
    from pydantic.errors import PydanticUserError

    try:
        return JsonSchemaFormat(schema_json=json.dumps(model.model_json_schema()), name=model.__name__)
    except PydanticUserError as error:
        raise SchemaRejectedError(
            f"{model.__name__} has no JSON Schema: {error.message}", hint="use fields of types that JSON has"
        ) from None


def _texts_of(terms: object) -> tuple[str, ...]:
    from outlines.types.dsl import String

    if isinstance(terms, list) and terms and all(isinstance(term, String) for term in terms):
        return tuple(term.value for term in terms)
    return ()


def _schema_of_annotation(python_type: object, reason: Exception | None) -> JsonSchemaFormat:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[object] = TypeAdapter(python_type)  # type: ignore[arg-type]
        return JsonSchemaFormat(schema_json=json.dumps(adapter.json_schema()))
    except (PydanticUserError, TypeError) as error:
        raise SchemaRejectedError(
            f"there is no output format for {python_type!r}: {reason or error}",
            hint="use a Pydantic model, a Literal, or a type JSON has",
        ) from None


def _keep_outlines_cache_private() -> None:
    # Outlines opens a cache of pickles when it is imported; one that others can write to runs their code.
    if "OUTLINES_CACHE_DIR" not in os.environ:
        os.environ["OUTLINES_CACHE_DIR"] = tempfile.mkdtemp(prefix="outlines-")
