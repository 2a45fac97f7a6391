"""Compiles output formats in a thread of its own: a large vocabulary or schema must not stop other answers."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from appliance.structured.admission import Admitted
from appliance.structured.compiler import CompiledFormat, GrammarCompiler
from appliance.structured.vocabulary import TokenVocabulary

if TYPE_CHECKING:
    from appliance.engine.native import Vocabulary


class FormatCompiler:
    """One for each loaded model. The vocabulary is prepared once, when that is first asked for."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="formats")
        self._compiler: GrammarCompiler | None = None

    def prepare(self) -> None:
        """Begin to prepare the vocabulary unless that has begun: a fraction of a second, or a few for a large one."""
        self._executor.submit(self._opened)

    def compile(self, admitted: Admitted) -> Future[CompiledFormat]:
        """Begin to compile; the result may be a SchemaRejectedError."""
        return self._executor.submit(self._compile, admitted)

    def _compile(self, admitted: Admitted) -> CompiledFormat:
        compiled = self._opened().compile(admitted)
        _ = compiled.shortest  # searched for here, where no answer waits for it
        return compiled

    def _opened(self) -> GrammarCompiler:
        if self._compiler is None:
            self._compiler = GrammarCompiler(_token_vocabulary(self._vocabulary))
        return self._compiler


def _token_vocabulary(vocabulary: Vocabulary) -> TokenVocabulary:
    others = sorted(vocabulary.end_tokens() - {vocabulary.eos})
    return TokenVocabulary(
        token_bytes=[vocabulary.piece(token) for token in range(vocabulary.size)],
        end_token_ids=[vocabulary.eos, *others],
        special_token_ids=[token for token in range(vocabulary.size) if vocabulary.is_control(token)],
        tokenize=vocabulary.tokenize,
    )
