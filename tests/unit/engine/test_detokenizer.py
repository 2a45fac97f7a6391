"""Text that is shown holds whole characters and never a stop string."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.engine.detokenizer import StopFilter, Utf8Stream


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(text=st.text(), cuts=st.lists(st.integers(0, 1000)))
def test_bytes_cut_anywhere_give_the_same_text(text: str, cuts: list[int]) -> None:
    stream = Utf8Stream()

    shown = [stream.push(piece) for piece in split_at(text.encode(), cuts)]

    assert "".join(shown) + stream.flush() == text


@given(text=st.text(), cuts=st.lists(st.integers(0, 1000)))
def test_no_delta_holds_half_a_character(text: str, cuts: list[int]) -> None:
    stream = Utf8Stream()

    shown = "".join(stream.push(piece) for piece in split_at(text.encode(), cuts))

    assert shown.count("\ufffd") == text.count("\ufffd")


def test_an_unfinished_character_at_the_end_is_shown_as_replacement() -> None:
    stream = Utf8Stream()

    shown = stream.push("é".encode()[:1])

    assert (shown, stream.flush()) == ("", "\ufffd")


@given(
    text=st.text(alphabet="abc", max_size=40),
    stop=st.lists(st.text(alphabet="abc", min_size=1, max_size=4), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 40)),
)
def test_text_ends_before_the_first_stop_string(text: str, stop: list[str], cuts: list[int]) -> None:
    stop_filter = StopFilter(stop)
    shown = ""
    for piece in split_at(text.encode(), cuts):
        shown += stop_filter.push(piece.decode())
        if stop_filter.is_stopped:
            break
    shown += stop_filter.flush()

    # A stop string ends the text as soon as it is whole, so the expectation looks at each prefix in turn.
    first_end = min(
        (end for end in range(len(text) + 1) for s in stop if text[:end].endswith(s)), default=None
    )
    assert stop_filter.is_stopped == (first_end is not None)
    assert all(s not in shown for s in stop)
    assert text.startswith(shown)
    assert stop_filter.is_stopped or shown == text


def test_a_beginning_of_a_stop_string_is_shown_when_it_goes_on_otherwise() -> None:
    stop_filter = StopFilter(["END"])

    shown = [stop_filter.push("the E"), stop_filter.push("N"), stop_filter.push("vy")]

    assert shown == ["the ", "", "ENvy"]


@pytest.mark.parametrize("before", ["one ", "one E", "one EN"])
def test_a_stop_string_that_begins_in_the_text_before_ends_the_rest(before: str) -> None:
    stop = StopFilter(["END"], before=before)
    rest = "one END two"[len(before) :]

    shown = stop.push(rest)

    assert shown == ""
    assert stop.is_stopped


@given(text=st.text(alphabet="ENDx", min_size=1), seam=st.integers(min_value=0, max_value=12))
def test_a_seam_that_no_stop_string_crosses_changes_nothing(text: str, seam: int) -> None:
    before, rest = text[:seam], text[seam:]
    stop = StopFilter(["END"], before=before)

    shown = stop.push(rest) + stop.flush()

    position = text.find("END")
    if position < 0:
        assert shown == rest
    elif seam <= position:
        assert shown == text[seam:position]
