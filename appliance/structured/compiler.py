"""Compile admitted formats for one vocabulary; keep the compiled grammars of the last ones."""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Final

from appliance.core.errors import SchemaRejectedError
from appliance.structured.admission import Admitted
from appliance.structured.closing import find_closing
from appliance.structured.constraint import Constraint
from appliance.structured.grammar import parser_limits
from appliance.structured.vocabulary import TokenVocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher

_CACHE_SIZE: Final = 64
_LONGEST_SHORTEST: Final = 1 << 20


class CompiledFormat:
    """An admitted format, compiled; every request starts its own copy."""

    def __init__(self, admitted: Admitted, matcher: LLMatcher, vocabulary: TokenVocabulary) -> None:
        self.admitted = admitted
        self.vocabulary = vocabulary
        self._matcher = matcher

    def start(self) -> Constraint:
        """Return a constraint at the beginning of the text."""
        return Constraint(self._matcher.deep_copy(), self.vocabulary)

    @cached_property
    def shortest(self) -> list[int] | None:
        """The shortest text known to satisfy the format, as tokens; `None` when the search finds none."""
        admitted = self.admitted
        return find_closing(
            self.start(), _LONGEST_SHORTEST, is_json=admitted.is_json, examples=admitted.examples
        )


class GrammarCompiler:
    """One for each loaded model; used by one thread."""

    def __init__(self, vocabulary: TokenVocabulary, *, cache_size: int = _CACHE_SIZE) -> None:
        self._vocabulary = vocabulary
        self._cache_size = cache_size
        self._compiled: OrderedDict[str, CompiledFormat] = OrderedDict()

    def compile(self, admitted: Admitted) -> CompiledFormat:
        """Compile, or take from the cache.

        Raises:
            SchemaRejectedError: the grammar does not compile for this vocabulary.
        """
        key = f"{admitted.grammar}\0{admitted.schema_json}"
        found = self._compiled.get(key)
        if found is None:
            found = CompiledFormat(admitted, self._build(admitted.grammar), self._vocabulary)
            self._compiled[key] = found
        self._compiled.move_to_end(key)
        while len(self._compiled) > self._cache_size:
            self._compiled.popitem(last=False)
        return found

    def _build(self, grammar: str) -> LLMatcher:
        from llguidance import LLMatcher

        if not grammar:
            raise SchemaRejectedError("free text has no grammar", hint="decode it without a constraint")
        matcher = LLMatcher(self._vocabulary.native, grammar, log_level=0, limits=parser_limits())
        if matcher.is_error():
            raise SchemaRejectedError(
                f"the grammar does not compile: {matcher.get_error().splitlines()[0][:200]}",
                hint="simplify the patterns and counts of the schema",
            )
        return matcher
