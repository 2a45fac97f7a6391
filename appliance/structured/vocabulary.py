"""A model's vocabulary as bytes, and the one tokenizer object the grammars of that model share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from appliance.core.errors import InternalError

if TYPE_CHECKING:
    from llguidance import LLTokenizer

_OUTSIDE_STRINGS: Final = b'}],0123456789"[{ntf-: .eE+'
_INSIDE_STRINGS: Final = b'":./-_@ #+0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
_FILLERS: Final = 12
_FILLER_LENGTHS: Final = (4, 8)

Tokenize = Callable[[str], Sequence[int]]


class TokenVocabulary:
    """Built once for a loaded model, in the process that decodes.

    Args:
        token_bytes: the bytes each token id adds to the output; empty for control tokens.
        end_token_ids: the tokens that end an answer; the first is the main one.
        special_token_ids: control tokens, which no constrained text may contain.
        tokenize: text to token ids, without added special tokens and without parsing control tokens.
    """

    def __init__(
        self,
        *,
        token_bytes: Sequence[bytes],
        end_token_ids: Sequence[int],
        special_token_ids: Iterable[int],
        tokenize: Tokenize,
    ) -> None:
        if not end_token_ids:
            raise InternalError("a vocabulary needs at least one token that ends an answer")
        self.token_bytes = list(token_bytes)
        self.end_token_ids = frozenset(end_token_ids)
        self.special_token_ids = frozenset(special_token_ids) | self.end_token_ids
        self._tokenize = tokenize
        self._ids: dict[bytes, int] = {}
        for token, text in enumerate(self.token_bytes):
            if text and token not in self.special_token_ids:
                self._ids.setdefault(text, token)
        self._longest = max((len(text) for text in self._ids), default=1)
        self.closing_pools = {False: self._pool(_OUTSIDE_STRINGS), True: self._pool(_INSIDE_STRINGS)}
        self.closing_pools[True] += self._fillers()
        self._native = self._build(end_token_ids)

    def __len__(self) -> int:
        return len(self.token_bytes)

    @property
    def native(self) -> LLTokenizer:
        """The tokenizer object of the grammar library."""
        return self._native

    def token_of(self, text: bytes) -> int | None:
        """Return a token with exactly these bytes."""
        return self._ids.get(text)

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Join the bytes of tokens."""
        return b"".join(self.token_bytes[token] for token in tokens)

    def tokenize(self, text: str | bytes) -> list[int]:
        """Tokenize so that the tokens' bytes are exactly the text's."""
        data = text.encode() if isinstance(text, str) else text
        try:
            tokens = list(self._tokenize(data.decode()))
        except UnicodeDecodeError:
            return self._longest_match(data)
        return tokens if self.decode(tokens) == data else self._longest_match(data)

    def _pool(self, characters: bytes) -> list[int]:
        found = (self.token_of(bytes((character,))) for character in characters)
        return [token for token in found if token is not None]

    def _fillers(self) -> list[int]:
        """Return long words, for strings that must be long."""
        words = [text for text in self._ids if text.isalpha() and text.islower() and len(text) > 3]
        words.sort(key=len, reverse=True)
        shorter = [text for length in _FILLER_LENGTHS for text in words if len(text) == length][:_FILLERS]
        return [self._ids[text] for text in (*words[:_FILLERS], *shorter)]

    def _longest_match(self, data: bytes) -> list[int]:
        tokens: list[int] = []
        position = 0
        while position < len(data):
            for length in range(min(self._longest, len(data) - position), 0, -1):
                token = self._ids.get(data[position : position + length])
                if token is not None:
                    tokens.append(token)
                    position += length
                    break
            else:
                raise InternalError(f"no token of the model writes the byte {data[position]:#04x}")
        return tokens

    def _build(self, end_token_ids: Sequence[int]) -> LLTokenizer:
        from llguidance import LLTokenizer, TokenizerWrapper

        wrapper = TokenizerWrapper(_Wrapped(self, end_token_ids[0]))
        native: LLTokenizer = LLTokenizer(
            wrapper,
            n_vocab=len(self.token_bytes),
            eos_token=list(end_token_ids),
            slices=LLTokenizer.json_slices(),
        )
        return native


class _Wrapped:
    """What the grammar library asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, vocabulary: TokenVocabulary, end_token_id: int) -> None:
        self.eos_token_id = end_token_id
        self.tokens = vocabulary.token_bytes
        self.special_token_ids = sorted(vocabulary.special_token_ids)
        self._vocabulary = vocabulary

    def __call__(self, text: str | bytes) -> list[int]:
        return self._vocabulary.tokenize(text)
