"""A vocabulary of bytes and words, and a model whose logits follow a text or a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.core.requests import OutputFormat
from appliance.structured.admission import Admitted, admit
from appliance.structured.compiler import GrammarCompiler
from appliance.structured.decoder import ConstrainedDecoder, DecodeOptions, DecodeOutcome
from appliance.structured.vocabulary import TokenVocabulary

END = 256
WORDS = (
    '{"', '": "', '", "', '": ', ', "', '"}', '"]', '["', "}]", "name", "age", "tag", "red", "blue", "true", "null",
    "日本", "abc", "2024", "12", "the", "  ", ": ", ", ", "[{", '"a', '"b',
)  # fmt: skip


def build_vocabulary() -> TokenVocabulary:
    """Every byte, an end token, and words that cross the borders of JSON tokens."""
    texts = [bytes((byte,)) for byte in range(256)] + [b""] + [word.encode() for word in WORDS]
    longest_first = sorted(range(257, len(texts)), key=lambda token: -len(texts[token]))

    def tokenize(text: str) -> list[int]:
        data, tokens = text.encode(), []
        while data:
            token = next((token for token in longest_first if data.startswith(texts[token])), data[0])
            tokens.append(token)
            data = data[len(texts[token]) :]
        return tokens

    return TokenVocabulary(token_bytes=texts, end_token_ids=[END], special_token_ids=[END], tokenize=tokenize)


VOCABULARY = build_vocabulary()
COMPILER = GrammarCompiler(VOCABULARY)
Rows = Callable[[Sequence[int]], NDArray[np.float32]]


def follows(text: str) -> Rows:
    """Logits of a model that wants to write a text, and ends when it stands."""

    def row(output: Sequence[int]) -> NDArray[np.float32]:
        logits = np.zeros(len(VOCABULARY), dtype=np.float32)
        written = VOCABULARY.decode(output)
        rest = text.encode()[len(written) :] if text.encode().startswith(written) else b""
        for token, data in enumerate(VOCABULARY.token_bytes):
            if data and rest.startswith(data):
                logits[token] = 10 + len(data)
        logits[END] = 0 if rest else 5
        return logits

    return row


def by_seed(seed: int) -> Rows:
    """Logits that depend on nothing but the seed and the output so far."""

    def row(output: Sequence[int]) -> NDArray[np.float32]:
        digest = hashlib.blake2b(f"{seed} {list(output)}".encode(), digest_size=8).digest()
        generator = np.random.default_rng(int.from_bytes(digest))
        return generator.standard_normal(len(VOCABULARY)).astype(np.float32)

    return row


def decode(
    asked: OutputFormat | Admitted, rows: Rows, options: DecodeOptions, prompt: str = ""
) -> tuple[ConstrainedDecoder, DecodeOutcome, str]:
    """Drive a decoder as an engine does, checking that the cells it keeps hold what it thinks."""
    decoder = ConstrainedDecoder(
        COMPILER.compile(asked if isinstance(asked, Admitted) else admit(asked)),
        prompt_tokens=VOCABULARY.tokenize(prompt),
        options=options,
        choose=lambda row, _output: int(row.argmax()),
    )
    cells: list[int] = []
    streamed = ""
    while True:
        step = decoder.next_step()
        if decoder.state != "running":
            outcome = decoder.outcome()
            break
        cells = cells[: step.keep] + list(step.tokens)
        assert tuple(cells[: len(decoder.output_tokens)]) == decoder.output_tokens
        positions = [len(cells) - back for back in step.logits_at]
        outcome = decoder.on_logits([rows(cells[:position]) for position in positions])
        streamed += outcome.text
        if outcome.state != "running":
            return decoder, outcome, streamed
    return decoder, outcome, streamed + outcome.text
