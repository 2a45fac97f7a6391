"""Stored answers that cannot be read or written never cost a request."""

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.app import open_response_cache
from appliance.config import load_settings
from appliance.core.clock import VirtualClock
from appliance.core.requests import SamplingParams
from appliance.core.results import GenerateSuccess
from appliance.gateway import Gateway
from appliance.gateway.response_cache import CACHE_FILE, ResponseCache
from tests.played_provider import PlayedModel, PlayedProvider, question, says

ASKED = question(sampling=SamplingParams(temperature=0.0))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path, ttl_s=60.0, max_bytes=1 << 20)
    yield cache
    cache.close()


async def answer(cache: ResponseCache) -> GenerateSuccess:
    clock = VirtualClock()
    gateway = Gateway([PlayedProvider(clock, PlayedModel("small", [says("well")]))], clock, cache=cache)
    result = await gateway.generate(ASKED)
    assert isinstance(result, GenerateSuccess), result
    return result


def execute(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / CACHE_FILE)
    connection.execute(statement)
    connection.commit()
    connection.close()


async def test_a_row_that_is_damaged_is_a_miss_and_is_replaced(cache: ResponseCache, tmp_path: Path) -> None:
    await answer(cache)
    execute(tmp_path, "UPDATE answers SET answer = '{\"message\": 3}'")

    assert not (await answer(cache)).handling.is_from_cache
    assert (await answer(cache)).handling.is_from_cache


async def test_a_store_that_fails_is_logged_and_the_request_is_answered(
    cache: ResponseCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    execute(tmp_path, "DROP TABLE answers")

    with caplog.at_level(logging.WARNING):
        result = await answer(cache)

    assert result.message.text == "well"
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "stored answers cannot be read",
        "an answer cannot be stored",
    ]


async def test_text_without_a_utf_8_form_is_answered_and_not_stored(cache: ResponseCache) -> None:
    clock = VirtualClock()
    gateway = Gateway([PlayedProvider(clock, PlayedModel("small", [says("\ud800")]))], clock, cache=cache)

    results = [await gateway.generate(ASKED) for _ in range(2)]

    assert [result.handling.is_from_cache for result in results] == [False, False]
    assert {result.kind for result in results} == {"success"}


def test_a_damaged_file_switches_storing_off_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / CACHE_FILE).write_bytes(b"this is no database" * 1000)
    settings = load_settings({"cache_dir": str(tmp_path), "response_cache": True})

    with caplog.at_level(logging.WARNING):
        assert open_response_cache(settings) is None

    assert "answers are not stored" in caplog.text


def test_storing_is_off_unless_switched_on(tmp_path: Path) -> None:
    assert open_response_cache(load_settings({"cache_dir": str(tmp_path)})) is None
    assert list(tmp_path.iterdir()) == []
