"""Grammar texts for llguidance, and the check that one compiles within the limits."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from appliance.structured.json_text import ITEM_SEPARATOR, KEY_SEPARATOR, JsonValue

if TYPE_CHECKING:
    from llguidance import LLParserLimits

_LIMITS: Final[dict[str, int]] = {
    "initial_lexer_fuel": 5_000_000,
    "step_lexer_fuel": 1_000_000,
    "step_max_items": 100_000,
    "max_lexer_states": 100_000,
    "max_grammar_size": 500_000,
}
_LEAF_CACHE: Final = 4096
_QUICK_BYTES: Final = 16_000
_CHILD_CPU_S: Final = 0.6
_CHILD_WALL_S: Final = 10.0
_CHILD: Final = """
import json, signal, sys
from llguidance import LLMatcher, LLParserLimits
signal.setitimer(signal.ITIMER_PROF, float(sys.argv[2]))
limits = LLParserLimits(**json.loads(sys.argv[1]), verbose_errors=False)
failed, messages = LLMatcher.validate_grammar_with_warnings(sys.stdin.read(), limits=limits)
sys.stdout.write(messages[0] if failed and messages else "")
"""
TOO_SLOW: Final = "it takes too long to compile"


def parser_limits() -> LLParserLimits:
    """Return the limits every grammar is compiled and run with; each bounds work, so none can hang."""
    from llguidance import LLParserLimits

    return LLParserLimits(
        initial_lexer_fuel=_LIMITS["initial_lexer_fuel"],
        step_lexer_fuel=_LIMITS["step_lexer_fuel"],
        step_max_items=_LIMITS["step_max_items"],
        max_lexer_states=_LIMITS["max_lexer_states"],
        max_grammar_size=_LIMITS["max_grammar_size"],
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
    """Return why a grammar does not compile, or an empty string.

    What may take long is tried in a child process that ends itself after its share of processor time.
    """
    if len(grammar) < _QUICK_BYTES and "patternProperties" not in grammar:
        return _compile_error(grammar)
    # The child gets no arguments of ours and reads the grammar as data.
    command = [sys.executable, "-I", "-c", _CHILD, json.dumps(_LIMITS), str(_CHILD_CPU_S)]
    try:
        done = subprocess.run(
            command, input=grammar.encode(), capture_output=True, timeout=_CHILD_WALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return TOO_SLOW
    if done.returncode == 0:
        return done.stdout.decode("utf-8", errors="replace")
    return TOO_SLOW


def _compile_error(grammar: str) -> str:
    from llguidance import LLMatcher

    is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar, limits=parser_limits())
    return messages[0] if is_error and messages else ""


@lru_cache(maxsize=_LEAF_CACHE)
def leaf_error(schema_json: str) -> str:
    """Return why the grammar cannot hold a small schema; empty when it can or when nothing satisfies it."""
    error = _compile_error(json_grammar(json.loads(schema_json)))
    return "" if "nsatisfiable" in error else error
