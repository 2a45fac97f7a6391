"""The child process of an evaluation: scores windows of a text with one model or with two of one vocabulary."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from appliance.catalog.gguf import read_gguf
from appliance.core.errors import ApplianceError, EngineCrashedError, InvalidRequestError
from appliance.engine import native
from appliance.engine.evaluation import ChildLine, EvaluationJob, EvaluationResult, check_text
from appliance.engine.loader import default_threads
from appliance.engine.params import EngineParams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appliance.engine.native import FloatRow

# The engine grants logits to some tokens a sequence; here half of a window needs them.
_TOKENS_A_SEQUENCE = 8
_LEAST_CELLS = 256
_LEAST_WINDOW, _MOST_WINDOW = 64, 1024

OnWindow = Callable[[int, int], None]


def measure(job: EvaluationJob, on_window: OnWindow) -> EvaluationResult:
    """Do a job.

    Raises:
        ApplianceError: the weights or the text cannot be used.
    """
    native.initialise()
    if job.kind == "end_tokens":
        model = _load(job.model_path, job.gpu_layers)
        return EvaluationResult(end_tokens=tuple(sorted(model.vocabulary.end_tokens())))
    if not _LEAST_WINDOW <= job.window_tokens <= _MOST_WINDOW:
        raise InvalidRequestError(
            f"a window of {job.window_tokens} tokens; it must have {_LEAST_WINDOW} to {_MOST_WINDOW}"
        )
    if job.kind == "perplexity":
        return _perplexity(job, on_window)
    return _divergence(job, on_window)


def _perplexity(job: EvaluationJob, on_window: OnWindow) -> EvaluationResult:
    scorer = _Scorer(job.model_path, job)
    windows = scorer.windows(job.text)
    surprises = []
    for number, window in enumerate(windows):
        surprises.append(_surprises(scorer.log_probabilities(window), window))
        on_window(number + 1, len(windows))
    mean, error = _mean_and_error(np.concatenate(surprises))
    return EvaluationResult(
        scored_tokens=sum(len(each) for each in surprises),
        perplexity=math.exp(mean),
        perplexity_error=math.exp(mean) * error,
        window_surprises=tuple(float(each.mean()) for each in surprises),
    )


def _divergence(job: EvaluationJob, on_window: OnWindow) -> EvaluationResult:
    if job.reference_path is None:
        raise InvalidRequestError("a divergence needs a reference")
    scorer, reference = _Scorer(job.model_path, job), _Scorer(job.reference_path, job)
    windows = scorer.windows(job.text)
    if reference.windows(job.text) != windows:
        raise InvalidRequestError(
            "the model and the reference split the text into different tokens, so they cannot be compared",
            hint="a reference is the same model in another quantisation, such as F16",
        )
    divergences, agreements, surprises, references = [], [], [], []
    for number, window in enumerate(windows):
        ours, theirs = scorer.log_probabilities(window), reference.log_probabilities(window)
        width = min(ours.shape[1], theirs.shape[1])
        ours, theirs = ours[:, :width], theirs[:, :width]
        divergences.append((np.exp(theirs) * (theirs - ours)).sum(axis=1))
        agreements.append(ours.argmax(axis=1) == theirs.argmax(axis=1))
        surprises.append(_surprises(ours, window))
        references.append(_surprises(theirs, window))
        on_window(number + 1, len(windows))
    mean, error = _mean_and_error(np.concatenate(surprises))
    return EvaluationResult(
        scored_tokens=sum(len(each) for each in surprises),
        perplexity=math.exp(mean),
        perplexity_error=math.exp(mean) * error,
        reference_perplexity=math.exp(float(np.concatenate(references).mean())),
        window_surprises=tuple(float(each.mean()) for each in surprises),
        # Rounding can leave a sum a hair below zero where both models are the same.
        divergences=tuple(float(max(value, 0.0)) for value in np.concatenate(divergences)),
        agreement=float(np.concatenate(agreements).mean()),
    )


@dataclass(slots=True, init=False)
class _Scorer:
    """One model with a context of one window."""

    _model: native.Model
    _context: native.Context
    _batch: native.Batch
    _window_tokens: int

    def __init__(self, path: Path, job: EvaluationJob) -> None:
        self._window_tokens = job.window_tokens
        self._model = _load(path, job.gpu_layers)
        params = EngineParams(
            model_path=path,
            model_name=path.name,
            model_digest="",
            context_window=job.window_tokens,
            parallel=max(4, -(-job.window_tokens // 2 // _TOKENS_A_SEQUENCE)),
            kv_cells=max(job.window_tokens, _LEAST_CELLS),
            batch_tokens=job.window_tokens,
            ubatch_tokens=min(512, job.window_tokens),
            prefill_chunk_tokens=job.window_tokens,
            kept_sequences=0,
        )
        self._context = native.Context(self._model, params, threads=job.threads or default_threads())
        self._batch = native.Batch(job.window_tokens)

    def windows(self, text: str) -> list[list[int]]:
        """Cut a text into whole windows; each begins with the beginning-of-text token where the model wants one."""
        vocabulary = self._model.vocabulary
        tokens = vocabulary.tokenize(text, add_bos=vocabulary.adds_bos)
        size = self._window_tokens
        count = check_text(len(tokens), size)
        windows = [tokens[number * size : (number + 1) * size] for number in range(count)]
        if vocabulary.adds_bos and vocabulary.bos >= 0:
            windows = [[vocabulary.bos, *window[1:]] for window in windows]
        return windows

    def log_probabilities(self, window: list[int]) -> NDArray[np.float64]:
        """Evaluate a window; return ln p of every token after each position of the second half but the last."""
        self._context.remove(0)
        self._batch.clear()
        scored = self._window_tokens // 2
        self._batch.add_many(window, 0, 0, outputs=range(scored))
        status = self._context.decode(self._batch)
        if status != 0:
            raise EngineCrashedError(f"llama_decode returned {status} for {len(window)} tokens")
        return _log_softmax(self._context.logits(scored)[:-1])


def _load(path: Path, gpu_layers: int) -> native.Model:
    read_gguf(path)  # refuses a damaged or hostile file before anything maps it
    return native.Model(path, gpu_layers=gpu_layers, on_progress=lambda _fraction: None)


def _log_softmax(logits: FloatRow) -> NDArray[np.float64]:
    rows = logits.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return rows


def _surprises(log_probabilities: NDArray[np.float64], window: list[int]) -> NDArray[np.float64]:
    """-ln p of the tokens that really follow."""
    following = np.array(window[len(window) - len(log_probabilities) :], np.int64)
    chosen: NDArray[np.float64] = -log_probabilities[np.arange(len(following)), following]
    return chosen


def _mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    mean = float(values.mean())
    if not math.isfinite(mean):
        raise EngineCrashedError("the model computes no numbers: its logits are not finite")
    return mean, float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def main() -> int:
    """Read one job from standard input; write progress and the result as JSON lines."""
    values = json.loads(sys.stdin.readline())
    reference = values.pop("reference_path")
    job = EvaluationJob(
        **(values | {"model_path": Path(values["model_path"])}),
        reference_path=Path(reference) if reference else None,
    )
    try:
        result = measure(job, lambda done, total: _write(ChildLine(done=done, total=total)))
    except ApplianceError as exc:
        failure = exc.to_failure()
        _write(ChildLine(failure_kind=failure.kind, message=failure.message, hint=failure.hint))
        return 1
    _write(ChildLine(result=result))
    return 0


def _write(line: ChildLine) -> None:
    print(line.model_dump_json(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
