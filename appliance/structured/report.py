"""Values that say what happens to each keyword of a schema, and what is wrong with a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Enforcement = Literal["enforced", "checked_after", "annotation", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordReport:
    """What happens to one keyword at one place of a schema.

    `enforced`: the grammar cannot produce a violation. `checked_after`: an exact validator checks the
    finished text and generation goes back when it fails. `annotation`: the keyword carries no constraint.
    `refused`: the schema is not admitted.
    """

    pointer: str
    keyword: str
    status: Enforcement
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One reason why a text is not valid: the JSON pointer of the value, the keyword, and a sentence."""

    pointer: str
    keyword: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredLimits:
    """What a schema, a grammar and one output may cost."""

    schema_bytes: int = 1_000_000
    schema_depth: int = 100
    schema_nodes: int = 20_000
    enumeration_values: int = 20_000
    nested_enumeration_values: int = 1_000
    array_items: int = 1_000
    object_properties: int = 1_000
    string_characters: int = 100_000
    grammar_branches: int = 64
    grammar_bytes: int = 2_000_000
    repairs: int = 12
