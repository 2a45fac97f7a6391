"""Stored answers: only where there is one answer, only for their owner, for a time, within a bound."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel, field_validator

from appliance.core.clock import VirtualClock
from appliance.core.events import TextDelta
from appliance.core.forgetting import ForgetSubject
from appliance.core.logprobs import TokenLogprob
from appliance.core.messages import AssistantMessage, Conversation, ToolCall, ToolMessage, UserMessage
from appliance.core.requests import GenerateRequest, RegexFormat, SamplingParams, ToolSpec
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.core.usage import Usage
from appliance.gateway import Gateway
from appliance.gateway.response_cache import CACHE_FILE, ForgettableAnswers, ResponseCache
from appliance.memory.byte_scan import scan_files
from appliance.telemetry import Telemetry
from tests.played_provider import EVERYTHING, Play, PlayedModel, PlayedProvider, fails, question, says

GREEDY = SamplingParams(temperature=0.0)
TOOL = ToolSpec(name="clock", description="tells the time", parameters_json="{}")


class Shelf:
    """A model that never gives the same answer twice, behind a gateway that stores answers."""

    def __init__(self, folder: Path, *, max_bytes: int = 1 << 20, plays: tuple[Play, ...] = ()) -> None:
        self.now_s = 1000.0
        self.clock = VirtualClock()
        plays = plays or tuple(says(f"answer number {number}") for number in range(50))
        self.model = PlayedModel("small", plays)
        self.telemetry = Telemetry(self.clock)
        self.cache = ResponseCache(folder, ttl_s=60.0, max_bytes=max_bytes, now_s=lambda: self.now_s)
        self.gateway = Gateway(
            [PlayedProvider(self.clock, self.model)], self.clock, cache=self.cache, telemetry=self.telemetry
        )

    async def ask(self, request: GenerateRequest) -> GenerateSuccess:
        result = await self.gateway.generate(request)
        assert isinstance(result, GenerateSuccess), result
        return result


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.cache.close()


def asked(text: str = "why?", **changes: object) -> GenerateRequest:
    return question(text, **{"sampling": GREEDY, **changes})


async def test_the_same_question_gets_the_stored_answer_and_says_so(shelf: Shelf) -> None:
    first, second = await shelf.ask(asked()), await shelf.ask(asked())

    assert (first.message.text, second.message.text) == ("answer number 0", "answer number 0")
    assert (first.handling.is_from_cache, second.handling.is_from_cache) == (False, True)
    assert second.usage == Usage(input_tokens=10, cached_tokens=10, output_tokens=3)
    assert second.model == first.model
    assert second.handling.attempts == ()
    assert len(shelf.model.requests) == 1


async def test_log_probabilities_are_stored_with_the_answer_that_was_asked_with_them(tmp_path: Path) -> None:
    scored = TokenLogprob(token="é", token_bytes=(195, 169), logprob=-0.5)
    ending = says("")[-1]
    shelf = Shelf(tmp_path, plays=((TextDelta(text="é", logprobs=(scored,)), ending),))
    shelf.model.capabilities = EVERYTHING | {"logprobs"}
    request = asked(sampling=replace(GREEDY, top_logprobs=0))

    first, second = await shelf.ask(request), await shelf.ask(request)
    plain = await shelf.ask(asked())

    assert (first.logprobs, second.logprobs) == ((scored,), (scored,))
    assert (second.handling.is_from_cache, plain.handling.is_from_cache) == (True, False)
    shelf.cache.close()


async def test_a_fixed_seed_has_one_answer_too(shelf: Shelf) -> None:
    request = asked(sampling=SamplingParams(temperature=0.9, seed=4))

    await shelf.ask(request)

    assert (await shelf.ask(request)).handling.is_from_cache


NOT_STORED = [
    pytest.param({"sampling": SamplingParams(temperature=0.7)}, id="chance"),
    pytest.param({"tools": (TOOL,)}, id="tools"),
]


@pytest.mark.parametrize("changes", NOT_STORED)
async def test_what_may_have_many_answers_is_asked_each_time(
    shelf: Shelf, changes: dict[str, object]
) -> None:
    await shelf.ask(asked(**changes))

    assert not (await shelf.ask(asked(**changes))).handling.is_from_cache
    assert shelf.telemetry.metrics.cache_lookups.values() == {("not_reusable",): 2.0}


async def test_a_conversation_with_tool_results_is_asked_each_time(shelf: Shelf) -> None:
    conversation = Conversation.of(
        UserMessage(text="what time is it?"),
        AssistantMessage(tool_calls=(ToolCall(call_id="1", name="clock", arguments_json="{}"),)),
        ToolMessage(call_id="1", name="clock", text="noon"),
    )
    request = replace(asked(), conversation=conversation)

    await shelf.ask(request)

    assert not (await shelf.ask(request)).handling.is_from_cache


async def test_weights_without_a_digest_are_asked_each_time(shelf: Shelf) -> None:
    shelf.model.digest = ""

    await shelf.ask(asked())

    assert not (await shelf.ask(asked())).handling.is_from_cache


OTHERS = [
    pytest.param({"owner": "ben"}, id="owner"),
    pytest.param({"sampling": SamplingParams(temperature=0.0, max_tokens=9)}, id="sampling"),
    pytest.param({"prompt_id": "p", "prompt_version": "2"}, id="prompt version"),
    pytest.param({"output": RegexFormat(pattern=".*")}, id="output format"),
    pytest.param({"text": "Why?"}, id="messages"),
    pytest.param({"is_raw": True}, id="raw prompt"),
]


@pytest.mark.parametrize("changes", OTHERS)
async def test_whatever_the_answer_depends_on_makes_another_key(
    shelf: Shelf, changes: dict[str, object]
) -> None:
    shelf.model.capabilities = EVERYTHING | {"raw_prompt"}
    await shelf.ask(asked())

    assert not (await shelf.ask(asked(**changes))).handling.is_from_cache


async def test_other_weights_make_another_key(shelf: Shelf) -> None:
    await shelf.ask(asked())
    shelf.model.digest = "other"

    assert not (await shelf.ask(asked())).handling.is_from_cache


async def test_deadline_and_request_id_make_no_other_key(shelf: Shelf) -> None:
    first, second = asked(), asked()
    assert first.request_id != second.request_id

    await shelf.ask(first)

    assert (await shelf.ask(second)).handling.is_from_cache


async def test_an_answer_is_given_again_until_its_time_is_over(shelf: Shelf) -> None:
    await shelf.ask(asked())

    shelf.now_s += 59.0
    assert (await shelf.ask(asked())).handling.is_from_cache
    shelf.now_s += 2.0
    assert not (await shelf.ask(asked())).handling.is_from_cache


async def test_a_clock_that_was_set_back_makes_answers_stale_and_not_eternal(shelf: Shelf) -> None:
    await shelf.ask(asked())
    shelf.now_s -= 500.0

    assert not (await shelf.ask(asked())).handling.is_from_cache


async def test_what_was_not_used_for_longest_goes_when_room_is_needed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, max_bytes=900)
    for number in range(2):
        await shelf.ask(asked(f"question {number}"))
        shelf.now_s += 1.0
    await shelf.ask(asked("question 0"))
    shelf.now_s += 1.0

    await shelf.ask(asked("question 2"))

    found = [(await shelf.ask(asked(f"question {number}"))).handling.is_from_cache for number in (0, 2, 1)]
    assert found == [True, True, False]
    assert stored_bytes(tmp_path) <= 900
    shelf.cache.close()


async def test_an_answer_larger_than_the_bound_is_not_stored(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, max_bytes=100)

    await shelf.ask(asked())

    assert stored_bytes(tmp_path) == 0
    shelf.cache.close()


async def test_answers_outlive_the_program(tmp_path: Path) -> None:
    first = Shelf(tmp_path)
    await first.ask(asked())
    first.cache.close()

    second = Shelf(tmp_path)

    assert (await second.ask(asked())).handling.is_from_cache
    second.cache.close()


async def test_a_failure_is_not_stored(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, plays=(fails("internal", retryable=False), says("well")))

    assert isinstance(await shelf.gateway.generate(asked()), GenerateFailure)

    assert (await shelf.ask(asked())).message.text == "well"
    shelf.cache.close()


class Allowed(BaseModel):
    """A number with rules that code can change."""

    refused: ClassVar[set[int]] = set()
    number: int

    @field_validator("number")
    @classmethod
    def _allowed(cls, number: int) -> int:
        if number in cls.refused:
            raise ValueError("it is refused")
        return number


async def test_a_stored_answer_is_judged_again_and_gives_its_value(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, plays=(says('{"number": 4}'), says('{"number": 6}')))

    first = await shelf.gateway.generate(asked(), Allowed)
    again = await shelf.gateway.generate(asked(), Allowed)

    assert isinstance(first, GenerateSuccess)
    assert isinstance(again, GenerateSuccess)
    assert again.handling.is_from_cache
    assert again.value == first.value == Allowed(number=4)
    shelf.cache.close()


async def test_a_stored_answer_that_newer_rules_refuse_is_asked_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path, plays=(says('{"number": 4}'), says('{"number": 6}')))
    await shelf.gateway.generate(asked(), Allowed)
    monkeypatch.setattr(Allowed, "refused", {4})

    again = await shelf.gateway.generate(asked(), Allowed)

    assert isinstance(again, GenerateSuccess)
    assert again.value == Allowed(number=6)
    shelf.cache.close()


async def test_a_grader_is_never_given_a_stored_answer(shelf: Shelf) -> None:
    await shelf.ask(asked())

    result = await shelf.gateway.generate(asked(), grader=lambda result: "")

    assert isinstance(result, GenerateSuccess)
    assert not result.handling.is_from_cache


async def test_forgetting_an_owner_removes_its_answers_and_their_bytes(shelf: Shelf, tmp_path: Path) -> None:
    shelf.model.plays = [says("the secret of Anna"), says("the answer for Ben")]
    await shelf.ask(asked(owner="anna"))
    await shelf.ask(asked(owner="ben"))

    removed = shelf.gateway.forget_owner("anna")

    assert removed == 1
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert list(scan_files(files, ["the secret of Anna"])) == []
    assert (await shelf.ask(asked(owner="ben"))).handling.is_from_cache
    assert not (await shelf.ask(asked(owner="anna"))).handling.is_from_cache


async def test_stored_answers_take_part_in_a_forgetting(shelf: Shelf, tmp_path: Path) -> None:
    await shelf.ask(asked(owner="anna"))
    answers = ForgettableAnswers.below(tmp_path)
    assert answers is not None

    report = answers.forget(ForgetSubject(phrase="whatever", owner="anna"))

    assert report.removed == {"answers": 1}
    assert answers.forget(ForgetSubject(phrase="whatever", owner="anna")).removed == {}
    answers.close()


def test_a_folder_without_answers_has_nothing_to_forget(tmp_path: Path) -> None:
    assert ForgettableAnswers.below(tmp_path) is None


def stored_bytes(folder: Path) -> int:
    with sqlite3.connect(folder / CACHE_FILE) as connection:
        (total,) = connection.execute("SELECT coalesce(sum(size_bytes), 0) FROM answers").fetchone()
    connection.close()
    return int(total)
