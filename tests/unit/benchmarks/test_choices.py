"""What is measured and what is recommended: tests and ways of loading, the Pareto frontier, graders."""

from pathlib import Path

import pytest

from appliance.core.errors import InvalidRequestError
from benchmarks.pareto import Candidate, candidates, mark_frontier, unplaced
from benchmarks.quality_cases import FACTS, is_match, needles
from benchmarks.rag import ndcg, read_ranked_data
from benchmarks.records import Metric, Record
from benchmarks.speed_tests import load_choices, speed_tests
from tests.benchmark_records import rate, record


def test_tests_are_named_and_ordered_as_llama_bench_does() -> None:
    labels = [test.label for test in speed_tests((512, 128), (128,), (0, 1024))]

    assert labels == ["pp512", "pp128", "tg128", "pp512 @ d1024", "pp128 @ d1024", "tg128 @ d1024"]


def test_a_size_of_zero_leaves_a_test_out_and_nothing_at_all_is_refused() -> None:
    assert [test.label for test in speed_tests((0,), (16,), (0,))] == ["tg16"]
    with pytest.raises(InvalidRequestError, match="nothing to measure"):
        speed_tests((0,), (0,), (0,))
    with pytest.raises(InvalidRequestError, match="cannot be measured"):
        speed_tests((-5,), (16,), (0,))


def test_every_combination_is_a_choice_once_and_micro_batches_fit_their_batch() -> None:
    choices = load_choices(
        threads=(1, 2, 1),
        batches=(256,),
        ubatches=(0, 512),
        flash=("auto",),
        kv_types=("f16", "q8_0"),
        gpu_layers=(-1,),
    )

    assert len(choices) == 4
    assert {(one.ubatch_tokens, one.prefill_chunk_tokens) for one in choices} == {(256, 256)}


def _candidate(model: str, speed: float, score: float) -> Candidate:
    return Candidate(model=model, tokens_per_s=speed, score=score, parts={})


def test_on_the_frontier_is_what_nothing_beats() -> None:
    found = mark_frontier(
        [
            _candidate("fast", 100, 0.2),
            _candidate("good", 20, 0.9),
            _candidate("middle", 50, 0.5),
            _candidate("bad", 40, 0.4),
        ]
    )

    assert {one.model for one in found if one.is_on_frontier} == {"fast", "good", "middle"}


def test_equals_do_not_push_each_other_off_the_frontier() -> None:
    assert all(
        one.is_on_frontier for one in mark_frontier([_candidate("a", 10, 0.5), _candidate("b", 10, 0.5)])
    )


def _graded(model: str, test: str, *samples: float) -> Record:
    share = Metric(name="share", unit="share", better="higher", samples=samples, statistic="mean")
    return record(share, rate(50.0), test=test, suite="quality", configuration={"model": model})


def test_a_models_score_is_the_mean_of_all_its_parts_and_a_part_that_misses_gives_none() -> None:
    whole = [
        _graded("a", "exact match", 1, 0), _graded("a", "JSON validity", 1, 1), _graded("a", "needle retrieval", 0, 0)
    ]  # fmt: skip

    (found,) = candidates([*whole, _graded("b", "exact match", 1, 1)])
    cut = whole[0].model_copy(update={"doubts": ("partial: only 2 of 20 were asked",)})

    assert candidates([cut, *whole[1:]]) == []
    assert unplaced([cut, *whole[1:]]) == {"a": "because exact match is not whole"}
    assert unplaced(whole) == {}
    assert (found.model, found.score, found.tokens_per_s) == ("a", 0.5, 50.0)


@pytest.mark.parametrize("answer", ["Paris", " paris.", "PARIS!", "**Paris**"])
def test_a_right_answer_is_right_however_it_is_written(answer: str) -> None:
    assert is_match(answer, FACTS[0])


@pytest.mark.parametrize("answer", ["", "Paris, France", "The capital is Paris", "Lyon"])
def test_anything_else_is_no_exact_match(answer: str) -> None:
    assert not is_match(answer, FACTS[0])


def test_a_needle_lies_at_its_depth_and_its_answer_nowhere_else() -> None:
    start, middle, end = needles(200, (0.0, 0.5, 1.0), seed=4)

    for needle, share in ((start, 0.0), (middle, 0.5), (end, 1.0)):
        assert needle.text.count(needle.answer) == 1
        assert needle.text.index("The secret") / len(needle.text) == pytest.approx(share, abs=0.06)
    assert len({needle.answer for needle in (start, middle, end)}) == 3


def test_ndcg_rewards_the_first_ranks() -> None:
    relevant = frozenset({"a", "b"})

    assert ndcg(["a", "b", "c"], relevant) == 1.0
    assert ndcg(["c", "a"], relevant) == pytest.approx((1 / 1.58496) / (1 + 1 / 1.58496), abs=1e-4)
    assert ndcg(["c"] * 10 + ["a"], relevant) == 0.0


def _write_ranked(folder: Path, documents: str) -> Path:
    (folder / "corpus.jsonl").write_text(documents)
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "what?"}\n')
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    return folder


@pytest.mark.parametrize("body", ['"text": "A\u2028b."', '"sentences": ["A\u2028b."]'])
def test_ranked_data_is_read_with_texts_or_with_sentences(tmp_path: Path, body: str) -> None:
    folder = _write_ranked(tmp_path, f'{{"_id": "d", "title": "T", {body}}}\n')

    data = read_ranked_data(folder, documents=5, questions=5, seed=1)

    assert data.documents == {"d": "T\nA\u2028b."}


def test_ranked_data_without_texts_is_refused_with_its_line(tmp_path: Path) -> None:
    folder = _write_ranked(tmp_path, '{"_id": "d", "text": "a"}\n{"_id": "e"}\n')

    with pytest.raises(InvalidRequestError, match=r"line 2 of corpus\.jsonl"):
        read_ranked_data(folder, documents=5, questions=5, seed=1)
