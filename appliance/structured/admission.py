"""Admission: turn an output format into a grammar and an exact check, or refuse it before a model runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, assert_never

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import (
    ChoiceFormat,
    GrammarFormat,
    JsonSchemaFormat,
    OutputFormat,
    RegexFormat,
    TextFormat,
)
from appliance.structured.call_check import CallCheck
from appliance.structured.document import SchemaDocument, parse_schema
from appliance.structured.finiteness import has_finite_value
from appliance.structured.grammar import TOO_SLOW, grammar_error, json_grammar, lark_grammar, regex_grammar
from appliance.structured.json_text import JsonScan, JsonValue, dump_json
from appliance.structured.pattern_example import pattern_example
from appliance.structured.report import KeywordReport, Problem, StructuredLimits
from appliance.structured.rewrite import RELAXATIONS, Rewriter
from appliance.structured.validator import check_schema, validator_of

_CACHE_SIZE: Final = 256
_MAX_EXAMPLES: Final = 32
_PREFERRED_HINT: Final = "run `appliance schema check` on the file to see what each keyword does"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """An output format that can be enforced. It holds text only, so it can cross a process.

    `grammar` generates only texts worth checking; `schema_json` is the schema as it was given, for the
    exact check, and empty when the grammar by itself decides. `is_exact` says that the grammar by itself
    already excludes every invalid text that the reports know of. `examples` satisfy patterns of the schema.
    `names_may_repeat`: some object takes names that are not declared, and the grammar does not compare them.
    `calls` is the exact check of an answer that calls tools.
    """

    format: OutputFormat
    grammar: str
    schema_json: str = ""
    reports: tuple[KeywordReport, ...] = ()
    examples: tuple[str, ...] = ()
    names_may_repeat: bool = False
    calls: CallCheck | None = None

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON."""
        return bool(self.schema_json)

    @property
    def is_exact(self) -> bool:
        """Whether no keyword is left to the check after generation."""
        return not self.names_may_repeat and all(report.status != "checked_after" for report in self.reports)

    def check(self, text: str) -> tuple[JsonScan | None, list[Problem]]:
        """Scan a finished text and return what is wrong with it."""
        if self.calls is not None:
            return self.calls.check(text)
        if not self.schema_json:
            return None, []
        return validator_of(self.schema_json).check_text(text)

    def problems(self, text: str) -> list[Problem]:
        """Return what is wrong with a finished text; nothing for a valid one."""
        return self.check(text)[1]

    def prompt_text(self) -> str:
        """Return the sentences that tell a model the shape of its answer; empty when it is not wanted."""
        return _prompt_text(self.format)


def admit(
    output: OutputFormat, limits: StructuredLimits | None = None, *, closes_objects: bool = True
) -> Admitted:
    """Admit an output format, before a model runs and without a tokenizer.

    `closes_objects` is the rule of this appliance: an object that names properties holds no others unless
    the schema says `additionalProperties` or `unevaluatedProperties`. It narrows what is generated, never
    what is valid. Without it, objects are open as JSON Schema has them.

    Raises:
        SchemaRejectedError: the format cannot be enforced; names the place, the keyword and a way out.
    """
    return _admit(output, limits or StructuredLimits(), closes_objects)


def audit(output: OutputFormat, limits: StructuredLimits | None = None) -> tuple[KeywordReport, ...]:
    """Report on every keyword without raising; a refusal is a report with the status `refused`."""
    try:
        return admit(output, limits).reports
    except SchemaRejectedError as error:
        note = f"{error.message}. {error.hint}" if error.hint else error.message
        return (KeywordReport(pointer=error.pointer, keyword=error.keyword, status="refused", note=note),)


@lru_cache(maxsize=_CACHE_SIZE)
def _admit(output: OutputFormat, limits: StructuredLimits, closes_objects: bool) -> Admitted:
    match output:
        case TextFormat():
            return Admitted(format=output, grammar="")
        case JsonSchemaFormat():
            return _admit_schema(output, limits, closes_objects)
        case ChoiceFormat():
            return Admitted(format=output, grammar=_choice_grammar(output, limits))
        case RegexFormat():
            return Admitted(format=output, grammar=_checked(regex_grammar(output.pattern), limits, "regex"))
        case GrammarFormat():
            return Admitted(format=output, grammar=_checked(lark_grammar(output.grammar), limits, "grammar"))
        case _:
            assert_never(output)


def _admit_schema(output: JsonSchemaFormat, limits: StructuredLimits, closes_objects: bool) -> Admitted:
    schema = parse_schema(output.schema_json, limits)
    document = SchemaDocument(schema)
    document.check_references()
    check_schema(schema, document.draft)
    error = ""
    attempts = [frozenset(RELAXATIONS[:count]) for count in range(len(RELAXATIONS) + 1)]
    while attempts:
        rewriter = Rewriter(document, limits, closes_objects=closes_objects, relaxed=attempts.pop(0))
        rewritten = rewriter.run()
        if not has_finite_value(rewritten):
            raise SchemaRejectedError(
                "no finite value can satisfy the schema: it needs itself inside itself, or contradicts itself",
                hint="make the recursive property optional, or allow null or an empty array there",
            )
        grammar = json_grammar(rewritten)
        error = _size_error(grammar, limits) or grammar_error(grammar)
        if not error:
            return Admitted(
                format=output,
                grammar=grammar,
                schema_json=output.schema_json,
                reports=rewriter.reports,
                examples=_examples(rewritten),
                names_may_repeat=_is_open(rewritten),
            )
        if "nsatisfiable" in error:
            raise SchemaRejectedError(
                f"no value can satisfy the schema: {_first_line(error)}",
                hint="look for contradictions: required names that are not allowed, bounds that cross",
            )
        if error == TOO_SLOW:
            # Every attempt costs its share of time: leave out the costly parts at once.
            attempts = attempts[-1:]
    raise SchemaRejectedError(
        f"the grammar cannot hold the schema: {_first_line(error)}", hint=_PREFERRED_HINT
    )


def _is_open(schema: JsonValue) -> bool:
    if not isinstance(schema, dict):
        return schema is True
    definitions = schema.get("$defs")
    inner = list(definitions.values()) if isinstance(definitions, dict) else []
    for keyword in ("allOf", "anyOf", "prefixItems"):
        parts = schema.get(keyword)
        inner.extend(parts if isinstance(parts, list) else ())
    properties = schema.get("properties")
    inner.extend(properties.values() if isinstance(properties, dict) else ())
    kinds = schema.get("type", ["array", "object"])
    if (
        isinstance(kinds, (str, list))
        and "array" in kinds
        and not {"allOf", "anyOf", "enum", "$ref"} & set(schema)
    ):
        inner.append(schema.get("items", True))
    is_combined = bool({"allOf", "anyOf", "enum", "$ref"} & set(schema))
    takes_objects = isinstance(kinds, (str, list)) and "object" in kinds
    if takes_objects and not is_combined and schema.get("additionalProperties") is not False:
        return True
    return any(_is_open(part) for part in inner)


def _examples(schema: JsonValue) -> tuple[str, ...]:
    patterns: dict[str, None] = {}
    pending: list[JsonValue] = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pattern = value.get("pattern")
            if isinstance(pattern, str):
                patterns[pattern] = None
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return tuple(text for text in (pattern_example(pattern) for pattern in patterns) if text)[:_MAX_EXAMPLES]


def _choice_grammar(output: ChoiceFormat, limits: StructuredLimits) -> str:
    choices = output.choices
    if not choices or any(not choice for choice in choices):
        raise SchemaRejectedError(
            "a choice needs at least one text, and none of them empty",
            keyword="choices",
            hint="write --choice a,b",
        )
    if len(choices) > limits.enumeration_values:
        raise SchemaRejectedError(
            f"there are {len(choices)} choices; {limits.enumeration_values} is the limit", keyword="choices"
        )
    if len(set(choices)) < len(choices):
        raise SchemaRejectedError("a choice is listed twice", keyword="choices", hint="keep one of them")
    alternatives = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    return _checked(lark_grammar(f"start: CHOICE\nCHOICE: {alternatives}\n"), limits, "choices")


def _checked(grammar: str, limits: StructuredLimits, keyword: str) -> str:
    error = _size_error(grammar, limits) or grammar_error(grammar)
    if error:
        raise SchemaRejectedError(
            f"the {keyword} cannot be used: {_first_line(error)}",
            keyword=keyword,
            hint="lookarounds and backreferences are not supported; write what the text may be",
        )
    return grammar


def _size_error(grammar: str, limits: StructuredLimits) -> str:
    try:
        size = len(grammar.encode())
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair"
    return (
        f"it has {size} bytes as a grammar; {limits.grammar_bytes} is the limit"
        if size > limits.grammar_bytes
        else ""
    )


def _first_line(message: str) -> str:
    return (message.splitlines() or [""])[0][:300]


def _prompt_text(output: OutputFormat) -> str:
    match output:
        case JsonSchemaFormat():
            if not output.in_prompt:
                return ""
            schema: JsonValue = json.loads(output.schema_json)
            shape = dump_json(schema)
            return f"Answer with one JSON value that satisfies this JSON Schema, and nothing else:\n{shape}"
        case ChoiceFormat():
            return "Answer with exactly one of these and nothing else: " + ", ".join(output.choices)
        case RegexFormat():
            return (
                f"Answer with text that matches this regular expression, and nothing else: {output.pattern}"
            )
        case TextFormat() | GrammarFormat():
            return ""
        case _:
            assert_never(output)
