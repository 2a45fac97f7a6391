import io

import pytest

from benchmarks.live_plot import LivePlot


@pytest.fixture
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("LINES", "30")


@pytest.mark.usefixtures("wide_terminal")
def test_a_plot_shows_its_series_above_the_line_and_goes_away_again() -> None:
    screen = io.StringIO()
    plot = LivePlot(screen)
    for figure in (150.0, 152.0, 151.0):
        plot.add("pp128", figure, "tokens/s")

    plot.draw("3/10 pp128")
    drawn = screen.getvalue().splitlines()
    plot.close()

    assert "pp128, tokens/s" in screen.getvalue()
    assert len(drawn) == 11
    assert drawn[-1] == "3/10 pp128"
    assert max(len(line) for line in drawn) <= 90
    assert screen.getvalue().endswith("\r\x1b[10A\x1b[J")


def test_a_terminal_too_small_for_a_plot_gets_the_line_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("LINES", "10")
    screen = io.StringIO()
    plot = LivePlot(screen)
    plot.add("pp128", 150.0, "tokens/s")

    plot.draw("3/10 a line that is longer than the terminal is wide")

    assert screen.getvalue() == "3/10 a line that is longer th"
