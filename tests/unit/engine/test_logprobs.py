"""Log-probabilities are those of the model, and stand with the text that their tokens begin in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from appliance.core.events import StreamEvent, TextDelta
from appliance.core.logprobs import TokenLogprob
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.engine.logprobs import LogprobReader, log_softmax, most_likely
from appliance.engine.native import Vocabulary
from appliance.engine.sampler import Sampler
from appliance.engine.slots import Job, Slot

ROWS = arrays(np.float32, st.integers(2, 60), elements=st.floats(-80, 80, width=32))


class ListedPieces:
    """A vocabulary whose tokens are the pieces a test lists; no token ends an answer."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def piece(self, token: int) -> bytes:
        return self._pieces[token]

    def special_piece(self, token: int) -> bytes:
        return self._pieces[token] or b"<control>"

    def is_end(self, _token: int) -> bool:
        return False

    def tokenize(self, text: str, *, parse_special: bool = False) -> list[int]:
        return [0, 1] if parse_special else [len(text)]


def shown(
    pieces: Sequence[bytes], *, stop: tuple[str, ...] = (), tags: tuple[str, str] | None = None
) -> list[TextDelta]:
    """Write tokens one after another and return what a caller sees."""
    events: list[StreamEvent] = []
    sampling = SamplingParams(temperature=0.0, stop=stop, top_logprobs=0)
    request = GenerateRequest(
        conversation=Conversation.of(UserMessage(text="?")), model="m", sampling=sampling
    )
    job = Job(
        id=1, request=request, prompt=[0], room_tokens=10_000, emit=events.append, arrived_s=0.0,
        reasoning_tags=tags,
    )  # fmt: skip
    slot = Slot(
        job=job, sequence=0, evaluated=1, cached=0, vocabulary=cast(Vocabulary, ListedPieces(pieces)),
        sampler=Sampler(sampling, vocabulary_size=len(pieces), prompt=[0]),
        constrain=lambda _slot, _base: pytest.fail("nothing is constrained"), started_s=0.0,
    )  # fmt: skip
    assert slot.logprobs is not None
    for token in range(len(pieces)):
        if not slot.is_finished:
            slot.push_token(token, slot.logprobs.settled(token))
    if not slot.is_finished:
        slot.finish("stop")
    return [event for event in events if isinstance(event, TextDelta)]


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


def bytes_of(logprobs: Sequence[TokenLogprob]) -> bytes:
    return b"".join(bytes(each.token_bytes) for each in logprobs)


@given(row=ROWS, count=st.integers(0, 20))
def test_alternatives_are_the_likeliest_and_their_probabilities_add_up_to_one_at_most(
    row: np.ndarray, count: int
) -> None:
    reader = LogprobReader(ListedPieces([bytes((65 + token % 26,)) for token in range(len(row))]), count)

    scored = reader.read(row)(0)

    told = [each.logprob for each in scored.top]
    assert len(told) == min(count, len(row))
    assert sum(math.exp(each) for each in told) <= 1 + 1e-9
    assert told == sorted(told, reverse=True)
    assert told == pytest.approx(sorted(log_softmax(row), reverse=True)[:count])


@given(row=ROWS)
def test_a_row_is_read_before_it_is_changed_and_stays_as_it_is(row: np.ndarray) -> None:
    before = row.copy()
    chosen = LogprobReader(ListedPieces([b"x"] * len(row)), 1).read(row)
    assert (row == before).all()

    row[:] = -np.inf

    total = sum(math.exp(chosen(token).logprob) for token in range(len(row)))
    assert total == pytest.approx(1.0)


def test_of_equal_tokens_the_lowest_comes_first() -> None:
    assert most_likely(np.array([0.0, 2.0, 1.0, 2.0]), 3) == [1, 3, 2]


def test_a_token_that_cannot_be_has_a_number_that_json_can_say() -> None:
    row = np.array([0.0, -np.inf], np.float32)

    assert LogprobReader(ListedPieces([b"a", b""]), 2).read(row)(1).logprob == -9999.0


def test_a_control_token_is_named_where_it_was_not_written() -> None:
    scored = LogprobReader(ListedPieces([b"a", b""]), 2).read(np.array([0.0, 1.0], np.float32))(0)

    assert [each.token for each in scored.top] == ["<control>", "a"]
    assert scored.token == "a"


@given(text=st.text(), places=st.lists(st.integers(0, 1000)))
def test_tokens_cut_anywhere_are_all_there_and_in_order(text: str, places: list[int]) -> None:
    deltas = shown(cut(text.encode(), places))

    assert "".join(delta.text for delta in deltas) == text
    assert bytes_of([each for delta in deltas for each in delta.logprobs]) == text.encode()


@given(
    text=st.text(st.sampled_from("aé日🙂.\n"), max_size=40),
    places=st.lists(st.integers(0, 1000), max_size=30),
    stop=st.lists(st.text(st.sampled_from("aé日🙂.\n"), min_size=1, max_size=3), max_size=2),
)
def test_each_piece_comes_with_the_tokens_that_begin_in_it(
    text: str, places: list[int], stop: list[str]
) -> None:
    deltas = shown(cut(text.encode(), places), stop=tuple(stop))

    texts = accumulate(delta.text for delta in deltas)
    scored = accumulate((delta.logprobs for delta in deltas), lambda so_far, more: so_far + more)
    for so_far, logprobs in zip(texts, scored, strict=True):
        assert bytes_of(logprobs).startswith(so_far.encode())
        assert len(bytes_of(logprobs[:-1])) < len(so_far.encode())


def test_what_a_stop_string_cuts_off_has_no_log_probabilities() -> None:
    deltas = shown([b"one", b" two", b" EN", b"D three"], stop=("END",))

    assert "".join(delta.text for delta in deltas) == "one two "
    assert [each.token for delta in deltas for each in delta.logprobs] == ["one", " two", " EN"]


@pytest.mark.parametrize("places", [[], [7], [3, 9, 14, 17, 19], list(range(40))])
def test_thinking_has_none_and_the_answer_after_it_has_all_of_its_own(places: list[int]) -> None:
    written = "<think>é why?</think>\n\nBecause é.".encode()

    deltas = shown(cut(written, places), tags=("<think>", "</think>"))

    logprobs = [each for delta in deltas for each in delta.logprobs]
    assert "".join(delta.text for delta in deltas) == "Because é."
    assert bytes_of(logprobs).endswith("Because é.".encode())
    assert len(bytes_of(logprobs[1:])) < len("Because é.".encode())


def test_an_answer_without_the_thinking_that_could_begin_it_keeps_its_tokens() -> None:
    deltas = shown([b"<", b"th", b"ree"], tags=("<think>", "</think>"))

    assert [each.token for delta in deltas for each in delta.logprobs] == ["<", "th", "ree"]
