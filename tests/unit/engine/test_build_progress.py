"""Progress of a build, read from the compiler's output."""

from __future__ import annotations

import io

import pytest

from appliance.engine.build_progress import BuildProgress, parse_percent


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Seconds:
    """Time that goes on by one second a look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize(
    "line,percent",
    [
        ("  [35/140] /usr/bin/g++ -DGGML_BUILD -c x.cpp", 25),
        ("[140/140] : && cmake", 100),
        ("[ 42%] Building CXX object", 42),
        ("[0/0] nothing", None),
        ("warning: [3/4] inside a sentence", None),
        ("", None),
    ],
)
def test_percent_is_read_from_ninja_and_make(line: str, percent: int | None) -> None:
    assert parse_percent(line) == percent


def test_without_a_terminal_there_is_one_plain_line_every_ten_percent() -> None:
    stream = io.StringIO()
    progress = BuildProgress(stream, label="compiling", now_s=lambda: 0.0)

    for step in range(1, 101):
        progress.feed(f"[{step}/100] cc")
    progress.close()

    lines = stream.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == [f"{percent}%" for percent in [1, *range(10, 101, 10)]]
    assert "\x1b" not in stream.getvalue()


def test_in_a_terminal_one_line_is_redrawn_with_the_time_elapsed() -> None:
    stream = Terminal()
    progress = BuildProgress(stream, label="compiling", now_s=Seconds())

    progress.feed("[1/2] cc")
    progress.feed("[2/2] cc")
    progress.close()

    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().split("\r\x1b[K")[1:] == [
        "compiling   50%  0:02",
        "compiling  100%  0:04",
        "compiling  100%  0:05\n",
    ]


def test_progress_never_goes_backwards() -> None:
    progress = BuildProgress(io.StringIO(), label="compiling")

    progress.feed("[90/100] cc")
    progress.feed("[1/10] ld")

    assert progress.percent == 90
