"""Events come out the same however their bytes are split and their lines end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.providers.openai_http.event_stream import (
    LONGEST_EVENT_BYTES,
    EventStreamParser,
    EventTooLongError,
    ServerSentEvent,
)

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r\n"), max_size=20)
ENDS = st.sampled_from(["\n", "\r", "\r\n"])


def parsed(*pieces: bytes) -> list[ServerSentEvent]:
    parser = EventStreamParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return [*events, *parser.finish()]


@given(data=st.data(), texts=st.lists(TEXT, min_size=1, max_size=5), end=ENDS)
def test_any_split_of_the_bytes_gives_the_same_events(
    data: st.DataObject, texts: list[str], end: str
) -> None:
    written = "".join(f": note{end}event: chunk{end}data: {text}{end}{end}" for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=12)))
    pieces = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]

    assert parsed(*pieces) == [ServerSentEvent("chunk", text) for text in texts]


@given(end=ENDS)
def test_every_single_byte_alone_gives_the_same_events(end: str) -> None:
    written = f"\ufeffdata: größe{end}data:  日本{end}{end}data: x{end}{end}".encode()

    events = parsed(*(bytes([byte]) for byte in written))

    assert events == [ServerSentEvent("", "größe\n 日本"), ServerSentEvent("", "x")]


def test_a_line_end_that_is_cut_in_two_is_one_line_end() -> None:
    assert parsed(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [ServerSentEvent("", "a\nb")]


def test_only_a_line_feed_after_the_carriage_return_belongs_to_it() -> None:
    assert parsed(b"data: a\r", b"", b"\n\ndata: b\n\n") == [
        ServerSentEvent("", "a"),
        ServerSentEvent("", "b"),
    ]


def test_an_event_that_the_end_leaves_without_its_blank_line_counts() -> None:
    assert parsed(b"data: [DONE]") == [ServerSentEvent("", "[DONE]")]


def test_comments_other_fields_and_empty_events_are_nothing() -> None:
    assert parsed(b": ping\n\nid: 7\nretry: 10\n\nevent: x\n\ndata\n\n") == [ServerSentEvent("", "")]


def test_an_error_line_is_an_event_of_that_name() -> None:
    assert parsed(b'error: {"code":500}\n\n') == [ServerSentEvent("error", '{"code":500}')]


def test_bytes_that_are_no_utf8_do_not_end_the_stream() -> None:
    assert parsed(b"data: \xff\xfe\n\n") == [ServerSentEvent("", "\ufffd\ufffd")]


@pytest.mark.parametrize("piece", [b"x" * 65_536, b"data: " + b"y" * 65_536 + b"\n"])
def test_an_event_without_an_end_is_refused_at_its_bound(piece: bytes) -> None:
    pieces = [piece] * (LONGEST_EVENT_BYTES // len(piece) + 2)

    with pytest.raises(EventTooLongError):
        parsed(*pieces)
