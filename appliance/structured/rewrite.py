"""Rewrite a schema into one whose every keyword the grammar enforces; say what that leaves to check."""

from __future__ import annotations

import json
from math import prod
from typing import Final, Literal

from appliance.core.errors import SchemaRejectedError
from appliance.structured.closed_objects import ClosedObjects, Mentions, Names, union
from appliance.structured.document import JsonObject, SchemaDocument
from appliance.structured.json_text import JsonValue
from appliance.structured.keywords import ANNOTATIONS
from appliance.structured.leaf_keywords import LeafKeywords, Relaxed
from appliance.structured.report import Enforcement, KeywordReport, StructuredLimits
from appliance.structured.set_algebra import SetAlgebra
from appliance.structured.validator import SchemaValidator

Relaxation = Literal["counts", "reference siblings", "conditions", "patterns", "branches"]
RELAXATIONS: Final[tuple[Relaxation, ...]] = (
    "counts",
    "reference siblings",
    "conditions",
    "patterns",
    "branches",
)

_HOIST_DEPTH: Final = 8
_MAX_COMPARED: Final = 30
_MAX_ALTERNATIVES: Final = 512
_STATUS_ORDER: Final = ("enforced", "annotation", "checked_after", "refused")
_VALUES: Final = ("enum", "const")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class Rewriter:
    """One rewrite of one document.

    `closes_objects`: an object that names properties holds no others unless the schema says so.
    `relaxed` names what a former attempt could not compile; it is left to the exact check.
    """

    def __init__(
        self,
        document: SchemaDocument,
        limits: StructuredLimits,
        *,
        closes_objects: bool,
        relaxed: frozenset[Relaxation] = frozenset(),
    ) -> None:
        self._document = document
        self._limits = limits
        self._relaxed = relaxed
        self._top_scope: Names | None = () if closes_objects else None
        self._closed = ClosedObjects(document)
        self._algebra = SetAlgebra(document, self._closed)
        self._leaves = LeafKeywords(
            document,
            limits,
            self._child,
            drops_patterns="patterns" in relaxed,
            drops_counts="counts" in relaxed,
        )
        self._reports: dict[tuple[str, str], KeywordReport] = {}
        self._definitions: dict[str, JsonValue] = {}
        self._names: dict[tuple[int, Names | None], str] = {}
        self._unfinished: set[int] = set()
        self._in_place: list[int] = []
        self._depth = 0
        self._nodes = 0

    def run(self) -> JsonObject:
        """Return the schema for the grammar.

        Raises:
            SchemaRejectedError: a keyword cannot be enforced and cannot be left to the check either.
        """
        root = self._child(self._document.root)
        schema: JsonObject = dict(root) if isinstance(root, dict) else {"allOf": [root]}
        if self._definitions:
            schema = {**schema, "$defs": self._definitions}
        return schema

    @property
    def reports(self) -> tuple[KeywordReport, ...]:
        """What happens to each keyword that was met."""
        return tuple(self._reports.values())

    def _report(self, schema: JsonObject, keyword: str, status: Enforcement, note: str) -> None:
        pointer = self._document.pointer(schema)
        if pointer is None:
            return
        found = self._reports.get((pointer, keyword))
        if found is None or _STATUS_ORDER.index(status) > _STATUS_ORDER.index(found.status):
            self._reports[pointer, keyword] = KeywordReport(
                pointer=pointer, keyword=keyword, status=status, note=note
            )

    def _leave_to_check(self, schema: JsonObject, keyword: str, note: str) -> None:
        self._report(schema, keyword, "checked_after", note)

    def _child(self, schema: JsonValue) -> JsonValue:
        """Rewrite the schema of a value inside the current one; deep ones move to a definition."""
        outer, self._in_place = self._in_place, []
        self._depth += 1
        try:
            if self._depth % _HOIST_DEPTH == 0 and isinstance(schema, dict):
                return self._definition(schema, self._top_scope)
            return self._rewrite(schema, self._top_scope)
        finally:
            self._depth -= 1
            self._in_place = outer

    def _rewrite(self, schema: JsonValue, scope: Names | None) -> JsonValue:
        if not isinstance(schema, dict):
            return schema if isinstance(schema, bool) else True
        self._nodes += 1
        if self._nodes > self._limits.schema_nodes:
            raise SchemaRejectedError(
                f"the schema has more than {self._limits.schema_nodes} parts, references followed",
                hint="keep the definitions the answer needs and remove the rest",
            )
        constraints = self._document.constraints(schema)
        self._report_all(schema, constraints)
        if not constraints:
            return True
        if id(schema) in self._in_place:
            raise SchemaRejectedError(
                "the schema refers to itself without going into a value, so no text can satisfy it",
                pointer=self._document.pointer(schema) or "",
                keyword="$ref",
                hint="put the reference under properties or items",
            )
        self._in_place.append(id(schema))
        try:
            if set(constraints) == {"$ref"}:
                return self._reference(schema, str(constraints["$ref"]), scope)
            if (only := _only_part(constraints)) is not None:
                return self._rewrite(only, scope)
            if "enum" in constraints or "const" in constraints:
                return self._values(schema, constraints, scope)
            return self._composite(schema, constraints, scope)
        finally:
            self._in_place.pop()

    def _report_all(self, schema: JsonObject, constraints: JsonObject) -> None:
        for keyword in schema:
            if keyword in constraints:
                self._report(schema, keyword, "enforced", "")
            elif keyword in ANNOTATIONS:
                self._report(schema, keyword, "annotation", "describes; constrains nothing")
            else:
                note = (
                    "drafts 4 to 7 ignore it beside $ref"
                    if self._document.draft <= 7 and "$ref" in schema
                    else f"no keyword of draft {self._document.draft}; constrains nothing"
                )
                self._report(schema, keyword, "annotation", note)

    def _reference(self, schema: JsonObject, reference: str, scope: Names | None) -> JsonValue:
        if self._document.is_meta_schema(reference):
            self._leave_to_check(schema, "$ref", "a published meta-schema; the validator carries it")
            return True
        target = self._document.resolve(schema, reference)
        if not isinstance(target, dict):
            return target
        if id(target) in self._in_place:
            return self._rewrite(target, scope)
        return self._definition(target, scope)

    def _definition(self, target: JsonObject, scope: Names | None) -> JsonValue:
        key = (id(target), scope)
        name = self._names.get(key)
        if name is None:
            name = f"d{len(self._names)}"
            self._names[key] = name
            self._unfinished.add(id(target))
            depth, self._depth = self._depth, 0
            self._definitions[name] = self._rewrite(target, scope)
            self._depth = depth
            self._unfinished.discard(id(target))
        return {"$ref": f"#/$defs/{name}"}

    def _values(self, schema: JsonObject, constraints: JsonObject, scope: Names | None) -> JsonValue:
        listed = constraints["enum"] if "enum" in constraints else [constraints["const"]]
        values = listed if isinstance(listed, list) else []
        if len(values) > self._limits.enumeration_values:
            raise SchemaRejectedError(
                f"an enum lists {len(values)} values; {self._limits.enumeration_values} is the limit",
                pointer=f"{self._document.pointer(schema) or ''}/enum",
                keyword="enum",
                hint="use a pattern, or check the value against the list afterwards",
            )
        rest = {
            keyword: value
            for keyword, value in constraints.items()
            if keyword != "enum" or "const" in constraints
        }
        if set(constraints) <= {"enum", "type"} and "enum" in constraints:
            kept = [value for value in values if _has_type(value, constraints.get("type"))]
            return self._enumeration(schema, kept)
        if not _mentions_reference(rest):
            validator = SchemaValidator(rest, self._document.draft)
            return self._enumeration(schema, [value for value in values if validator.is_valid(value)])
        others = {keyword: value for keyword, value in rest.items() if keyword not in _VALUES}
        self._document.adopt(others, schema)
        return {"allOf": [self._enumeration(schema, values), self._rewrite(others, scope)]}

    def _enumeration(self, schema: JsonObject, values: list[JsonValue]) -> JsonValue:
        nested = sum(isinstance(value, (list, dict)) for value in values)
        if nested > self._limits.nested_enumeration_values:
            raise SchemaRejectedError(
                f"an enum lists {nested} objects or arrays; {self._limits.nested_enumeration_values} is the limit",
                pointer=f"{self._document.pointer(schema) or ''}/enum",
                keyword="enum",
                hint="list short names and look the objects up afterwards",
            )
        for value in values:
            _check_exact_numbers(value, self._document.pointer(schema) or "")
        unique = {json.dumps(value): value for value in values}
        return {"enum": list(unique.values())} if unique else False

    def _composite(self, schema: JsonObject, constraints: JsonObject, scope: Names | None) -> JsonValue:
        mentions = self._closed.mentions(schema)
        if "unevaluatedProperties" in constraints and scope is None:
            scope = self._scope_of_unevaluated(schema, constraints, mentions)
        if mentions.is_open:
            scope = None
        closes = scope is not None and bool(scope or mentions.names or mentions.patterns)
        inner_scope = union(scope or (), mentions.names) if closes else None
        relaxed: list[Relaxed] = []
        base = self._leaves.rewrite(schema, constraints, relaxed)
        for item in relaxed:
            self._report(schema, item.keyword, item.status, item.note)
        is_closed = closes and inner_scope is not None and not mentions.has_open_branch
        names = union(mentions.names, scope or ()) if is_closed else mentions.names
        self._arrange(base, constraints, names)
        if is_closed:
            self._close(base, constraints, mentions)
        parts = self._parts(schema, constraints, inner_scope)
        parts += self._groups(schema, constraints, scope if closes else None)
        parts = [part for part in parts if part is not True]
        if "reference siblings" in self._relaxed and self._meets_itself(constraints) and len(parts) == 1:
            # The grammar cannot intersect with what is not finished yet.
            self._leave_to_check(schema, "$ref", "an alternative is recursive and has keywords beside it")
            base = {}
        if any(part is False for part in parts):
            return False
        parts = self._affordable(schema, parts)
        if not parts:
            return base or True
        return {"allOf": [base, *parts]} if base else ({"allOf": parts} if len(parts) > 1 else parts[0])

    def _affordable(self, schema: JsonObject, parts: list[JsonValue]) -> list[JsonValue]:
        """Leave parts to the check whose alternatives would multiply beyond what the grammar can hold."""
        kept = sorted(parts, key=_alternatives)
        while len(kept) > 1 and prod(_alternatives(part) for part in kept) > _MAX_ALTERNATIVES:
            kept.pop()
            keyword = next((word for word in ("allOf", "anyOf", "oneOf") if word in schema), "anyOf")
            self._leave_to_check(schema, keyword, "too many combinations for the grammar")
        return [part for part in parts if any(part is other for other in kept)]

    def _meets_itself(self, constraints: JsonObject) -> bool:
        for keyword in ("anyOf", "oneOf"):
            branches = constraints.get(keyword)
            for branch in branches if isinstance(branches, list) else ():
                reference = branch.get("$ref") if isinstance(branch, dict) else None
                if isinstance(branch, dict) and isinstance(reference, str):
                    target = self._document.resolve(branch, reference)
                    if isinstance(target, dict) and id(target) in self._unfinished:
                        return True
        return False

    def _scope_of_unevaluated(
        self, schema: JsonObject, constraints: JsonObject, mentions: Mentions
    ) -> Names | None:
        if constraints["unevaluatedProperties"] is False and not mentions.is_open:
            return ()
        if constraints["unevaluatedProperties"] is not True:
            self._leave_to_check(schema, "unevaluatedProperties", "depends on which alternatives apply")
        return None

    def _arrange(self, base: JsonObject, constraints: JsonObject, names: Names) -> None:
        """List every name the parts mention, so that one order holds for the whole object."""
        kinds = constraints.get("type")
        if constraints.get("additionalProperties", True) is not True or not _allows(kinds, "object"):
            return
        properties = base.get("properties")
        own = properties if isinstance(properties, dict) else {}
        if names and (len(names) > len(own) or list(own) != list(names)):
            base["properties"] = {name: own.get(name, True) for name in names}

    def _close(self, base: JsonObject, constraints: JsonObject, mentions: Mentions) -> None:
        if "additionalProperties" in constraints or not _allows(constraints.get("type"), "object"):
            return
        patterns = base.get("patternProperties")
        own_patterns = patterns if isinstance(patterns, dict) else {}
        if set(self._leaves.grammar_patterns(mentions.patterns) or ()) - set(own_patterns):
            return
        if len(mentions.patterns) == len(own_patterns):
            base["additionalProperties"] = False

    def _parts(self, schema: JsonObject, constraints: JsonObject, scope: Names | None) -> list[JsonValue]:
        parts: list[JsonValue] = []
        for keyword, value in constraints.items():
            if keyword == "allOf" and isinstance(value, list):
                parts.extend(self._part(item, scope) for item in value)
            elif keyword == "$ref":
                parts.append(self._sibling_reference(schema, str(value), scope))
            elif keyword in _REFERENCES:
                self._leave_to_check(
                    schema, keyword, "a dynamic reference; the grammar allows any value there"
                )
            elif keyword == "not":
                parts.append(self._complement(schema, value))
        return parts

    def _part(self, part: JsonValue, scope: Names | None) -> JsonValue:
        constraints = self._document.constraints(part) if isinstance(part, dict) else {}
        if isinstance(part, dict) and set(constraints) == {"$ref"}:
            return self._sibling_reference(part, str(constraints["$ref"]), scope)
        return self._rewrite(part, scope)

    def _sibling_reference(self, schema: JsonObject, reference: str, scope: Names | None) -> JsonValue:
        is_local = not self._document.is_meta_schema(reference)
        target = self._document.resolve(schema, reference) if is_local else True
        is_recursive = (
            isinstance(target, dict) and id(target) in self._unfinished and id(target) not in self._in_place
        )
        if is_recursive or "reference siblings" in self._relaxed:
            self._leave_to_check(schema, "$ref", "the reference is recursive and has keywords beside it")
            return True
        return self._reference(schema, reference, scope)

    def _complement(self, schema: JsonObject, excluded: JsonValue) -> JsonValue:
        found, is_exact = self._algebra.complement(excluded, schema)
        if not is_exact:
            self._leave_to_check(schema, "not", "the grammar allows some values it excludes")
        if "conditions" in self._relaxed and found is not False:
            self._leave_to_check(schema, "not", "too complex for the grammar here")
            return True
        self._document.adopt(found, schema)
        return self._rewrite(found, None)

    def _groups(self, schema: JsonObject, constraints: JsonObject, scope: Names | None) -> list[JsonValue]:
        groups: list[tuple[str, list[JsonValue]]] = []
        for keyword, value in constraints.items():
            if keyword in ("anyOf", "oneOf") and isinstance(value, list):
                groups.append((keyword, value))
            elif keyword == "if":
                groups.extend(self._condition(schema, constraints))
            elif keyword in ("dependentRequired", "dependentSchemas", "dependencies") and isinstance(
                value, dict
            ):
                groups.extend(
                    (keyword, self._dependency(schema, name, needed)) for name, needed in value.items()
                )
        rewritten: list[JsonValue] = []
        product = 1
        for keyword, branches in sorted(groups, key=lambda group: group[0] not in ("anyOf", "oneOf")):
            drops = "branches" if keyword in ("anyOf", "oneOf") else "conditions"
            product *= max(1, len(branches)) if len(groups) > 1 else 1
            if drops in self._relaxed or product > self._limits.grammar_branches:
                self._leave_to_check(schema, keyword, "too many combinations for the grammar")
                continue
            rewritten.append(self._branches(schema, keyword, branches, scope))
        return rewritten

    def _branches(
        self, schema: JsonObject, keyword: str, branches: list[JsonValue], scope: Names | None
    ) -> JsonValue:
        branch_scope: Names | None = None
        if scope is not None:
            outside = self._closed.mentions_without(schema, keyword)
            branch_scope = union(scope, outside.names)
        if keyword == "oneOf":
            self._check_one_of(branches, schema, branch_scope)
        kept = [self._rewrite(branch, branch_scope) for branch in branches]
        possible = [branch for branch in kept if branch is not False]
        if not possible:
            return False
        if any(branch is True for branch in possible):
            return True
        return possible[0] if len(possible) == 1 else {"anyOf": possible}

    def _check_one_of(self, branches: list[JsonValue], schema: JsonObject, scope: Names | None) -> None:
        if self._algebra.have_discriminator(branches):
            return
        pairs = ((one, two) for index, one in enumerate(branches) for two in branches[index + 1 :])
        if len(branches) <= _MAX_COMPARED and all(
            self._algebra.are_disjoint(one, two, scope) for one, two in pairs
        ):
            return
        self._leave_to_check(schema, "oneOf", "a value may satisfy more than one alternative")

    def _condition(self, schema: JsonObject, constraints: JsonObject) -> list[tuple[str, list[JsonValue]]]:
        if not {"then", "else"} & set(constraints):
            return []
        condition = constraints["if"]
        otherwise, is_exact = self._algebra.complement(condition, schema)
        if not is_exact:
            for keyword in ("if", "then", "else"):
                if keyword in constraints:
                    self._leave_to_check(
                        schema, keyword, "when the condition holds is not known to the grammar"
                    )
        holds: JsonValue = {"allOf": [condition, constraints.get("then", True)]}
        fails: JsonValue = {"allOf": [otherwise, constraints.get("else", True)]}
        self._document.adopt(holds, schema)
        self._document.adopt(fails, schema)
        return [("if", [holds, fails])]

    def _dependency(self, schema: JsonObject, name: str, needed: JsonValue) -> list[JsonValue]:
        absent: JsonValue = {"properties": {name: False}}
        present: JsonValue = (
            {"required": [name, *needed]}
            if isinstance(needed, list)
            else {"allOf": [{"required": [name]}, needed]}
        )
        self._document.adopt(absent, schema)
        self._document.adopt(present, schema)
        return [absent, present]


def _only_part(constraints: JsonObject) -> JsonValue:
    """Return the one schema that a combination of one stands for."""
    if len(constraints) == 1:
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = constraints.get(keyword)
            if isinstance(parts, list) and len(parts) == 1:
                return parts[0]
    return None


def _alternatives(schema: JsonValue) -> int:
    if not isinstance(schema, dict):
        return 1
    parts, branches = schema.get("allOf"), schema.get("anyOf")
    count = prod(_alternatives(part) for part in parts) if isinstance(parts, list) else 1
    return count * (sum(_alternatives(branch) for branch in branches) if isinstance(branches, list) else 1)


def _allows(kinds: JsonValue, kind: str) -> bool:
    return kinds is None or kinds == kind or (isinstance(kinds, list) and kind in kinds)


def _has_type(value: JsonValue, kinds: JsonValue) -> bool:
    if kinds is None:
        return True
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if isinstance(value, bool):
        return "boolean" in names
    if isinstance(value, (int, float)):
        return "number" in names or ("integer" in names and float(value).is_integer())
    kind = "null" if value is None else {str: "string", list: "array", dict: "object"}[type(value)]
    return kind in names


def _mentions_reference(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(key in _REFERENCES or _mentions_reference(item) for key, item in value.items())
    return isinstance(value, list) and any(_mentions_reference(item) for item in value)


def _check_exact_numbers(value: JsonValue, pointer: str) -> None:
    if isinstance(value, list):
        for item in value:
            _check_exact_numbers(item, pointer)
    elif isinstance(value, dict):
        for item in value.values():
            _check_exact_numbers(item, pointer)
    elif isinstance(value, int) and abs(value) >= 1 << 53:
        raise SchemaRejectedError(
            f"the value {str(value)[:40]} cannot be told apart from its neighbours as a JSON number",
            pointer=pointer,
            keyword="enum",
            hint="write the value as a string",
        )
