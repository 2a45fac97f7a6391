"""Weights scored in a child process."""

from pathlib import Path

import pytest

from appliance.core.errors import InvalidRequestError, ModelFileError
from appliance.engine.evaluation import EvaluationJob, evaluate
from benchmarks.quality_cases import TEXT

FIRST = " ".join(TEXT.split()[:130])


async def test_plain_english_surprises_less_than_its_words_in_another_order(starter_weights: Path) -> None:
    shuffled = " ".join(sorted(FIRST.split()))

    plain, mixed = [
        await evaluate(
            EvaluationJob(
                kind="perplexity", model_path=starter_weights, text=text, window_tokens=64, threads=1
            )
        )
        for text in (FIRST, shuffled)
    ]

    assert plain.scored_tokens % 31 == 0
    assert len(plain.window_surprises) == plain.scored_tokens // 31 >= 2
    assert 5 < plain.perplexity < mixed.perplexity / 3


async def test_a_model_does_not_diverge_from_itself(starter_weights: Path) -> None:
    seen: list[tuple[int, int]] = []

    found = await evaluate(
        EvaluationJob(
            kind="divergence",
            model_path=starter_weights,
            reference_path=starter_weights,
            text=FIRST,
            window_tokens=64,
            threads=1,
        ),
        lambda done, total: seen.append((done, total)),
    )

    assert max(found.divergences) == pytest.approx(0.0, abs=1e-6)
    assert found.agreement == 1.0
    assert found.perplexity == pytest.approx(found.reference_perplexity)
    assert seen[-1][0] == seen[-1][1] == len(found.window_surprises)


async def test_models_of_unlike_vocabularies_are_not_compared(
    starter_weights: Path, gemma_weights: Path
) -> None:
    job = EvaluationJob(
        kind="divergence",
        model_path=starter_weights,
        reference_path=gemma_weights,
        text=FIRST,
        window_tokens=64,
        threads=1,
    )

    with pytest.raises(InvalidRequestError, match="different tokens"):
        await evaluate(job)


async def test_a_text_shorter_than_a_window_is_refused(starter_weights: Path) -> None:
    with pytest.raises(InvalidRequestError, match="one window has 512"):
        await evaluate(EvaluationJob(kind="perplexity", model_path=starter_weights, text="too short"))


async def test_a_damaged_file_is_a_typed_error_of_the_parent(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 64)

    with pytest.raises((ModelFileError, InvalidRequestError)):
        await evaluate(EvaluationJob(kind="end_tokens", model_path=path))


async def test_the_tokens_that_end_an_answer_are_those_of_the_vocabulary(starter_weights: Path) -> None:
    found = await evaluate(EvaluationJob(kind="end_tokens", model_path=starter_weights))

    assert found.end_tokens == (0, 2, 4)
