"""From a rendered prompt to tokens, with the guarantee that content never becomes a control token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from appliance.engine.chat_template import PromptPiece
from appliance.engine.open_turn import OpenPrompt


class TextTokenizer(Protocol):
    """What is needed of a vocabulary."""

    adds_bos: bool
    bos: int
    size: int

    def tokenize(self, text: str, *, add_bos: bool = False, parse_special: bool = False) -> list[int]: ...
    def is_control(self, token: int) -> bool: ...
    def is_user_defined(self, token: int) -> bool: ...
    def is_end(self, token: int) -> bool: ...
    def token_text(self, token: int) -> str: ...
    def piece(self, token: int) -> bytes: ...


class PromptTokenizer:
    """Tokenises prompt pieces; knows which texts must be guarded for a template."""

    def __init__(self, vocabulary: TextTokenizer, template_source: str) -> None:
        self._vocabulary = vocabulary
        self._always_matched: set[str] = set()
        self.guarded = self._find_guarded(template_source)

    def _find_guarded(self, template_source: str) -> tuple[str, ...]:
        """Control tokens, and tokens matched in any text that the template writes itself or that end a turn."""
        vocabulary = self._vocabulary
        guarded = []
        for token in range(vocabulary.size):
            text = vocabulary.token_text(token)
            if vocabulary.is_control(token):
                guarded.append(text)
            elif vocabulary.is_user_defined(token) and self._is_marker(token, text, template_source):
                guarded.append(text)
                self._always_matched.add(text)
        return tuple(guarded)

    def _is_marker(self, token: int, text: str, template_source: str) -> bool:
        return self._vocabulary.is_end(token) or (len(text.strip()) > 2 and text in template_source)

    def tokenize(self, pieces: Sequence[PromptPiece]) -> list[int]:
        """Tokenise a rendered prompt; the beginning-of-text token is added once where the model wants it."""
        vocabulary = self._vocabulary
        tokens: list[int] = []
        for piece in pieces:
            if piece.is_literal:
                tokens += self._tokenize_literal(piece.text)
            else:
                tokens += vocabulary.tokenize(piece.text, parse_special=True)
        has_bos = bool(tokens) and tokens[0] == vocabulary.bos
        if vocabulary.adds_bos and vocabulary.bos >= 0 and not has_bos:
            tokens.insert(0, vocabulary.bos)
        return tokens

    def tokenize_open(self, prompt: OpenPrompt) -> list[int]:
        """Tokenise a prompt that ends inside the assistant's turn.

        The turn's text is tokenised by itself, as the model wrote it. A vocabulary that puts a space before the
        first word of any text would then add one that nobody wrote; there it is tokenised with what is before it.
        """
        before, text = list(prompt.before), list(prompt.text)
        if self._adds_space and before and text and not (before[-1].is_literal or text[0].is_literal):
            text[0] = PromptPiece(before.pop().text + text[0].text, is_literal=False)
        return self.tokenize([*before, *text])

    @property
    def _adds_space(self) -> bool:
        tokens = self._vocabulary.tokenize("x")
        return bool(tokens) and self._vocabulary.piece(tokens[0]).startswith(b" ")

    def _tokenize_literal(self, text: str) -> list[int]:
        vocabulary = self._vocabulary
        if text not in self._always_matched:
            return vocabulary.tokenize(text, parse_special=False)
        return vocabulary.tokenize(text[:1]) + vocabulary.tokenize(text[1:])
