"""The exact validator: does a text hold one value that is valid under the schema, as the schema was given?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Protocol

from appliance.core.errors import SchemaRejectedError
from appliance.structured.document import parse_schema
from appliance.structured.formats import OWN_CHECKS
from appliance.structured.json_text import JsonScan, JsonValue, pointer_of, scan_json
from appliance.structured.keywords import Draft, draft_of
from appliance.structured.report import Problem, StructuredLimits

_BACKTRACK_LIMIT = 200_000
_MAX_PROBLEMS = 20


class _FoundError(Protocol):
    @property
    def message(self) -> str: ...
    @property
    def instance_path(self) -> list[str | int]: ...
    @property
    def schema_path(self) -> list[str | int]: ...


class _Validator(Protocol):
    def is_valid(self, instance: JsonValue) -> bool: ...
    def iter_errors(self, instance: JsonValue) -> Iterator[_FoundError]: ...


class SchemaValidator:
    """Validates values and texts under one schema."""

    def __init__(self, schema: JsonValue, draft: Draft) -> None:
        self._validator = _build(schema, draft)

    def is_valid(self, value: JsonValue) -> bool:
        """Whether a value is valid."""
        try:
            return self._validator.is_valid(value)
        except (ValueError, RecursionError):
            return False

    def problems(self, value: JsonValue) -> list[Problem]:
        """Return what is wrong with a value, at most twenty entries."""
        try:
            return [
                _to_problem(error)
                for error, _ in zip(self._validator.iter_errors(value), range(_MAX_PROBLEMS), strict=False)
            ]
        except (ValueError, RecursionError) as error:
            return [Problem(pointer="", keyword="", message=f"the value cannot be checked: {error}")]

    def check_text(self, text: str) -> tuple[JsonScan, list[Problem]]:
        """Scan a text and return what is wrong with it."""
        scan = scan_json(text)
        if not scan.is_complete:
            where = f"character {scan.error_at}" if scan.error_at >= 0 else "its end"
            return scan, [Problem(pointer="", keyword="", message=f"the text is not whole JSON at {where}")]
        if scan.problems:
            return scan, scan.problems
        return scan, self.problems(scan.value)


@lru_cache(maxsize=256)
def validator_of(schema_json: str) -> SchemaValidator:
    """Return the validator of an admitted schema's text."""
    schema = parse_schema(schema_json, StructuredLimits(schema_bytes=1 << 30, schema_depth=500))
    return SchemaValidator(schema, draft_of(schema))


def check_schema(schema: JsonValue, draft: Draft) -> None:
    """Check a schema against the meta-schema of its draft.

    Raises:
        SchemaRejectedError: it is no valid schema, or refers to something that is not there.
    """
    SchemaValidator(schema, draft)


def _build(schema: JsonValue, draft: Draft) -> _Validator:
    import jsonschema_rs

    kinds: dict[Draft, Callable[..., _Validator]] = {
        4: jsonschema_rs.Draft4Validator,
        6: jsonschema_rs.Draft6Validator,
        7: jsonschema_rs.Draft7Validator,
        2019: jsonschema_rs.Draft201909Validator,
        2020: jsonschema_rs.Draft202012Validator,
    }
    try:
        return kinds[draft](
            schema,
            formats=OWN_CHECKS,
            validate_formats=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT),
            offline=True,
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise _to_rejection(error, draft) from None


def _to_rejection(error: Exception, draft: Draft) -> SchemaRejectedError:
    instance_path = getattr(error, "instance_path", [])
    message = str(getattr(error, "message", error)).splitlines()[0][:300]
    keyword = next((str(part) for part in reversed(instance_path) if isinstance(part, str)), "")
    hint = "correct the keyword as the specification of JSON Schema says"
    if keyword == "items" and draft == 2020:
        hint = 'use "prefixItems" for a list of schemas, or name an older draft in "$schema"'
    if keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        hint = "write the bound itself as its value, or name draft 4 in $schema"
    return SchemaRejectedError(
        f"the schema is not valid: {message}",
        pointer=pointer_of(tuple(instance_path)),
        keyword=keyword,
        hint=hint,
    )


def _to_problem(error: _FoundError) -> Problem:
    keyword = next((str(part) for part in reversed(error.schema_path) if isinstance(part, str)), "")
    return Problem(
        pointer=pointer_of(tuple(error.instance_path)), keyword=keyword, message=error.message[:500]
    )
