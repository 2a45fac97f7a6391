from __future__ import annotations

import pytest

from appliance.retrieval.rerank import FastembedReranker, LateReranker
from tests.retrieval_stubs import Logits


def test_scores_are_shares_in_the_order_of_the_logits() -> None:
    reranker = FastembedReranker(Logits(-1000.0, 0.0, 2.0, 1000.0))  # type: ignore[arg-type]

    scores = reranker.score("q", ["a", "b", "c", "d"])

    assert scores == sorted(scores)
    assert scores == pytest.approx([0.0, 0.5, 0.8808, 1.0], abs=1e-4)


def test_a_reranker_is_loaded_once_and_only_when_a_search_needs_it() -> None:
    loads: list[str] = []

    def load() -> FastembedReranker:
        loads.append("loaded")
        return FastembedReranker(Logits(0.0))  # type: ignore[arg-type]

    late = LateReranker(load)
    assert loads == []
    late.score("q", ["a"])
    late.score("q", ["a"])
    assert loads == ["loaded"]
