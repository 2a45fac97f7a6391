"""The child process of the self-test: loads a model, evaluates a prompt, decodes, and prints the figures."""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import llama_cpp
import llama_cpp.llama_cpp as lib
import numpy as np

from appliance.core.errors import ApplianceError, InternalError
from appliance.engine import native
from appliance.engine.params import EngineParams
from appliance.engine.processor import detect_processor
from appliance.engine.selftest import RESULT_MARK, Measurement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appliance.engine.native import FloatRow

# A build that crashes on batches still decodes single tokens, and small batches take other code paths.
MIN_PROMPT_TOKENS = 64
DECODED_TOKENS = 16

_CONTEXT_TOKENS = 512
# One is used; the engine grants logits to some tokens a sequence, and here every token needs them.
_SEQUENCES = 16
_PROMPT = (
    "The water of the sea evaporates in the warmth of the sun and rises into the air. High above the ground "
    "the air is cold, and there the water turns into small drops, which form clouds. When the drops grow too "
    "heavy they fall down as rain. The rain fills the rivers, and the rivers carry the water back to the "
    "sea. In this way the same water travels around again and again. The capital of France is Paris, and the "
    "capital of Italy is"
)
# Larger than any bound, and unlike infinity it can be written as JSON.
_NOT_FINITE = 1e9


def measure(model_path: Path, *, threads: int) -> Measurement:
    """Evaluate the prompt, decode an answer twice, and evaluate all of it once more as one batch."""
    native.initialise()
    started_s = time.perf_counter()
    runner = _Runner(model_path, threads=threads or detect_processor().physical_cores)
    load_s = time.perf_counter() - started_s
    prompt = runner.tokenize(_PROMPT)
    first = runner.answer(prompt)
    second = runner.answer(prompt)
    batched = runner.evaluate([*prompt, *first.tokens])
    mean_surprise = _mean_surprise(batched[: len(prompt) - 1], np.array(prompt[1:]))
    disagreement = 1.0 - _least_cosine(batched[len(prompt) :], first.logits)
    return Measurement(
        prompt_tokens=len(prompt),
        decoded_tokens=len(first.tokens),
        text=runner.text(first.tokens),
        is_finite=bool(np.isfinite(batched).all() and np.isfinite(first.logits).all()),
        is_deterministic=first.tokens == second.tokens,
        mean_surprise=_writable(mean_surprise),
        agreement=1.0 - _writable(disagreement),
        prompt_tokens_per_s=len(prompt) / second.prompt_s,
        decode_tokens_per_s=len(second.tokens) / second.decode_s,
        load_s=load_s,
        threads=runner.threads,
        system_info=native.system_info(),
        supports_gpu=bool(lib.llama_supports_gpu_offload()),
        library_version=llama_cpp.__version__,
    )


def _writable(value: float) -> float:
    return value if math.isfinite(value) else _NOT_FINITE


def _mean_surprise(logits: FloatRow, following: NDArray[np.int64]) -> float:
    """Mean of -ln p(next token) in nats."""
    top = logits.max(axis=1)
    normaliser = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return float((normaliser - logits[np.arange(len(following)), following]).mean())


def _least_cosine(first: FloatRow, second: FloatRow) -> float:
    products = (first * second).sum(axis=1)
    return float((products / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))).min())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """Greedy tokens, the logits after each, and what they took."""

    tokens: list[int]
    logits: FloatRow
    prompt_s: float
    decode_s: float


class _Runner:
    """One model and one context, as the engine makes them."""

    def __init__(self, model_path: Path, *, threads: int) -> None:
        self.threads = threads
        params = EngineParams(
            model_path=model_path,
            model_name="self-test",
            model_digest="",
            context_window=_CONTEXT_TOKENS,
            parallel=_SEQUENCES,
            kv_cells=_CONTEXT_TOKENS,
            batch_tokens=_CONTEXT_TOKENS,
            ubatch_tokens=_CONTEXT_TOKENS,
            kept_sequences=0,
        )
        self._model = native.Model(
            model_path, gpu_layers=params.gpu_layers, on_progress=lambda _fraction: None
        )
        self._context = native.Context(self._model, params, threads=threads)
        self._batch = native.Batch(_CONTEXT_TOKENS)

    def tokenize(self, text: str) -> list[int]:
        vocabulary = self._model.vocabulary
        tokens = vocabulary.tokenize(text, add_bos=vocabulary.adds_bos)
        if not MIN_PROMPT_TOKENS <= len(tokens) <= self._context.output_limit - DECODED_TOKENS:
            raise InternalError(f"the self-test's prompt has {len(tokens)} tokens in this vocabulary")
        return tokens

    def text(self, tokens: list[int]) -> str:
        return b"".join(self._model.vocabulary.piece(token) for token in tokens).decode("utf-8", "replace")

    def answer(self, prompt: list[int]) -> _Answer:
        """Evaluate the prompt and decode greedily."""
        started_s = time.perf_counter()
        row = self.evaluate(prompt)[-1]
        prompt_s = time.perf_counter() - started_s
        tokens: list[int] = []
        rows: list[FloatRow] = []
        for position in range(len(prompt), len(prompt) + DECODED_TOKENS):
            tokens.append(int(np.argmax(row)))
            row = self._decode(tokens[-1:], position)[0]
            rows.append(row)
        decode_s = time.perf_counter() - started_s - prompt_s
        return _Answer(tokens=tokens, logits=np.stack(rows), prompt_s=prompt_s, decode_s=decode_s)

    def evaluate(self, tokens: list[int]) -> FloatRow:
        """Evaluate tokens as one batch from an empty cache; return the logits of each."""
        self._context.remove(0)
        return self._decode(tokens, 0)

    def _decode(self, tokens: list[int], position: int) -> FloatRow:
        self._batch.clear()
        self._batch.add_many(tokens, position, 0, outputs=range(len(tokens)))
        status = self._context.decode(self._batch)
        if status != 0:
            raise InternalError(f"llama_decode returned {status} for {len(tokens)} tokens")
        return self._context.logits(len(tokens)).copy()


def main() -> int:
    """Run `python -m appliance.engine.selftest_measurement MODEL THREADS`."""
    try:
        measured = measure(Path(sys.argv[1]), threads=int(sys.argv[2]))
    except ApplianceError as exc:
        print(exc.message, file=sys.stderr)
        return 1
    print(f"\n{RESULT_MARK}{json.dumps(asdict(measured))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
