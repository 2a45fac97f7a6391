"""Grammar texts for llguidance, and the check that one compiles within the limits."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from appliance.structured.json_text import ITEM_SEPARATOR, KEY_SEPARATOR, JsonValue

if TYPE_CHECKING:
    from llguidance import LLParserLimits

_LEXER_FUEL: Final = 5_000_000
_STEP_FUEL: Final = 1_000_000
_STEP_ITEMS: Final = 100_000
_LEXER_STATES: Final = 100_000
_GRAMMAR_SYMBOLS: Final = 500_000
_LEAF_CACHE: Final = 4096


def parser_limits() -> LLParserLimits:
    """Return the limits every grammar is compiled and run with; each bounds work, so none can hang."""
    from llguidance import LLParserLimits

    return LLParserLimits(
        initial_lexer_fuel=_LEXER_FUEL,
        step_lexer_fuel=_STEP_FUEL,
        step_max_items=_STEP_ITEMS,
        max_lexer_states=_LEXER_STATES,
        max_grammar_size=_GRAMMAR_SYMBOLS,
        verbose_errors=False,
    )


def json_options() -> dict[str, str | bool]:
    """Return the options that fix the separators and leave no room for free whitespace."""
    return {
        "item_separator": ITEM_SEPARATOR,
        "key_separator": KEY_SEPARATOR,
        "whitespace_flexible": False,
    }


def json_grammar(schema: JsonValue) -> str:
    """Return the grammar of JSON texts under a schema that has only supported keywords."""
    from llguidance import LLMatcher

    wrapped = schema if isinstance(schema, dict) else {"allOf": [schema]}
    text = json.dumps(wrapped, ensure_ascii=False)
    return str(LLMatcher.grammar_from_json_schema(text, overrides=json_options()))  # type: ignore[arg-type]


def regex_grammar(pattern: str) -> str:
    """Return the grammar of texts that a regular expression matches as a whole."""
    from llguidance import LLMatcher

    return str(LLMatcher.grammar_from_regex(pattern))


def lark_grammar(grammar: str) -> str:
    """Return the grammar of a Lark text."""
    from llguidance import LLMatcher

    return str(LLMatcher.grammar_from_lark(grammar))


def grammar_error(grammar: str) -> str:
    """Return why a grammar does not compile, or an empty string."""
    from llguidance import LLMatcher

    is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar, limits=parser_limits())
    return messages[0] if is_error and messages else ""


@lru_cache(maxsize=_LEAF_CACHE)
def leaf_error(schema_json: str) -> str:
    """Return why the grammar cannot hold a small schema; empty when it can or when nothing satisfies it."""
    error = grammar_error(json_grammar(json.loads(schema_json)))
    return "" if "nsatisfiable" in error else error
