"""Check a finished text against an admitted format, whoever wrote it and with whatever tokenizer."""

from __future__ import annotations

from functools import lru_cache

from appliance.core.errors import ApplianceError
from appliance.core.requests import ChoiceFormat, GrammarFormat, RegexFormat
from appliance.structured.admission import Admitted
from appliance.structured.compiler import GrammarCompiler
from appliance.structured.report import Problem
from appliance.structured.vocabulary import TokenVocabulary

_END = 256


def problems_of(admitted: Admitted, text: str) -> list[Problem]:
    """Return what is wrong with a text; nothing for one that satisfies the format."""
    match admitted.format:
        case ChoiceFormat(choices=choices):
            return [] if text in choices else [_problem("choices", "it is none of the choices")]
        case RegexFormat():
            return [] if _matches(admitted, text) else [_problem("regex", "it does not match the pattern")]
        case GrammarFormat():
            return [] if _matches(admitted, text) else [_problem("grammar", "the grammar does not allow it")]
        case _:
            return admitted.problems(text)


def _problem(keyword: str, message: str) -> Problem:
    return Problem(pointer="", keyword=keyword, message=message)


def _matches(admitted: Admitted, text: str) -> bool:
    constraint = _byte_compiler().compile(admitted).start()
    try:
        constraint.accept(list(text.encode("utf-8", errors="surrogatepass")))
    except ApplianceError:
        return False
    return constraint.can_stop or constraint.is_complete


@lru_cache(maxsize=1)
def _byte_compiler() -> GrammarCompiler:
    """A vocabulary of single bytes stands for any: which texts a grammar allows does not depend on tokens."""
    single_bytes = [bytes((byte,)) for byte in range(256)]
    return GrammarCompiler(
        TokenVocabulary(
            token_bytes=[*single_bytes, b""],
            end_token_ids=[_END],
            special_token_ids=[_END],
            tokenize=lambda text: list(text.encode()),
        )
    )
