"""Combine the scores of several lists, and score candidates by the parts of words they share with a query."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.retrieval.languages import DENSE_SCRIPT

_WORD = re.compile(r"\w+")
_NO_WORD = re.compile(r"\W+")
_ASCII_GAPS = {code: " " for code in range(128) if not _WORD.match(chr(code))}
_MOST_PARTS = 400
_GRAM = 4
_K1 = 1.2
_B = 0.75
_RRF_CONSTANT = 60


def word_parts(query: str) -> list[str]:
    """Return overlapping parts of words, borders as spaces, so that inflected and compound words meet."""
    parts: list[str] = []
    for word in _WORD.findall(query.lower()):
        # Words of scripts without spaces are short: two characters in a row are what a part of one is.
        if DENSE_SCRIPT.search(word):
            parts += [word[start : start + 2] for start in range(max(1, len(word) - 1))]
            continue
        bordered = f" {word} "
        parts += [bordered[start : start + _GRAM] for start in range(max(1, len(bordered) - _GRAM + 1))]
    return parts


def parts_scores(query: str, texts: Sequence[str]) -> list[float]:
    """Score each text by BM25 over word parts, with the frequencies of these texts alone.

    Of a long query the first parts count; its words are searched for as a whole by the full text.
    """
    wanted = dict(Counter(word_parts(query)).most_common()[:_MOST_PARTS])
    plain = [f" {_words_alone(text.lower())} " for text in texts]
    lengths = [len(text) - text.count(" ") for text in plain]
    mean_length = max(1.0, sum(lengths) / max(1, len(lengths)))
    norms = [_K1 * (1 - _B + _B * length / mean_length) for length in lengths]
    scores = [0.0] * len(texts)
    for part, times in wanted.items():
        counts = [text.count(part) for text in plain]
        holding = len(counts) - counts.count(0)
        weight = times * math.log(1 + (len(counts) - holding + 0.5) / (holding + 0.5)) * (_K1 + 1)
        for place, count in enumerate(counts):
            if count:
                scores[place] += weight * count / (count + norms[place])
    return scores


def _words_alone(text: str) -> str:
    # The short way is the usual one, and several times as fast.
    return " ".join(text.translate(_ASCII_GAPS).split()) if text.isascii() else _NO_WORD.sub(" ", text)


def share_of_best(scores: Mapping[int, float]) -> dict[int, float]:
    """Divide by the highest score, so that the best is 1."""
    best = max(scores.values(), default=0.0)
    if best <= 0:
        return dict.fromkeys(scores, 0.0)
    return {key: max(0.0, score) / best for key, score in scores.items()}


def with_companions(
    scores: Mapping[int, float], document_of: Mapping[int, str], share: float
) -> dict[int, float]:
    """Weigh in, by `share` of one's own score, the best other passage of the same document.

    A passage without one is its own companion, so that scores keep their scale.
    """
    best: dict[str, list[tuple[float, int]]] = {}
    for key, score in scores.items():
        best.setdefault(document_of[key], []).append((score, key))
    for passages in best.values():
        passages.sort(reverse=True)
    companion: dict[int, float] = {}
    for key, score in scores.items():
        others = [other for other, found in best[document_of[key]][:2] if found != key]
        companion[key] = others[0] if others else score
    return {key: (score + share * companion[key]) / (1 + share) for key, score in scores.items()}


def reciprocal_ranks(dense: Sequence[int], text: Sequence[int], alpha: float) -> dict[int, float]:
    """Fuse two rankings by reciprocal rank; `alpha` is the share of the dense one."""
    fused: dict[int, float] = {}
    for share, ranking in ((alpha, dense), (1 - alpha, text)):
        for rank, key in enumerate(ranking, start=1):
            fused[key] = fused.get(key, 0.0) + share / (_RRF_CONSTANT + rank)
    return fused


def diverse_order(
    ranked: Sequence[int],
    scores: Mapping[int, float],
    vectors: Mapping[int, NDArray[np.float32]],
    *,
    relevance_share: float,
    limit: int,
) -> list[int]:
    """Reorder by maximal marginal relevance: each next one is relevant and unlike those before it."""
    chosen: list[int] = []
    rest = list(ranked)
    nearest = dict.fromkeys(rest, 0.0)
    best_score = max((scores[key] for key in rest), default=1.0) or 1.0
    while rest and len(chosen) < limit:
        pick = max(
            rest,
            key=lambda key: relevance_share * scores[key] / best_score - (1 - relevance_share) * nearest[key],
        )
        chosen.append(pick)
        rest.remove(pick)
        if pick in vectors:
            for key in rest:
                if key in vectors:
                    nearest[key] = max(nearest[key], float(vectors[key] @ vectors[pick]))
    return chosen + rest
