"""Log lines are JSON, rotate, respect the level, and quote no exception."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.telemetry.logs import LOG_FILE, JsonLinesHandler, attach_logs, detach_logs

LOG = logging.getLogger("appliance.somewhere")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    handler = attach_logs(tmp_path / "logs", "warning")
    yield tmp_path / "logs"
    detach_logs(handler)


def lines(folder: Path) -> list[dict[str, object]]:
    text = (folder / LOG_FILE).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_is_one_json_object_whatever_the_message_holds(folder: Path) -> None:
    LOG.warning("first\nline %s", '"quoted" \u2028 ü')

    (line,) = lines(folder)
    assert line["message"] == 'first\nline "quoted" \u2028 ü'
    assert (line["level"], line["logger"]) == ("warning", "appliance.somewhere")


def test_less_than_the_level_is_not_written_and_nothing_is_opened(folder: Path) -> None:
    LOG.info("quiet")

    assert not folder.exists()


def test_an_exception_is_named_with_its_places_but_not_quoted(folder: Path) -> None:
    try:
        raise ValueError("the heliotrope is in the cellar")
    except ValueError:
        LOG.exception("it broke")

    (line,) = lines(folder)
    assert line["exception"] == "ValueError"
    assert "test_logs.py" in str(line["frames"])
    assert "heliotrope" not in str(line)


def test_files_rotate_and_the_oldest_goes(tmp_path: Path) -> None:
    handler = JsonLinesHandler(tmp_path / LOG_FILE, largest_bytes=400)

    for number in range(40):
        handler.handle(logging.makeLogRecord({"msg": f"line {number}", "levelno": logging.WARNING}))

    files = sorted(path.name for path in tmp_path.glob("*.jsonl*"))
    assert files == [LOG_FILE, f"{LOG_FILE}.1", f"{LOG_FILE}.2", f"{LOG_FILE}.3"]
    assert all(path.stat().st_size <= 400 for path in tmp_path.glob("*.jsonl*"))
    assert lines(tmp_path)[-1]["message"] == "line 39"


def test_a_log_that_cannot_be_written_does_not_disturb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    handler = attach_logs(tmp_path / "logs", "warning")

    LOG.warning("lost")
    detach_logs(handler)

    assert capsys.readouterr().err == ""


def test_only_its_user_may_read_the_log(folder: Path) -> None:
    LOG.warning("x")

    assert (folder / LOG_FILE).stat().st_mode & 0o077 == 0
