"""Engines are opened late, shared, bounded in number, and closed when idle or when room is needed."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from typing import ParamSpec, TypeVar

import pytest

from appliance.core.answer import AnswerInProgress
from appliance.core.clock import VirtualClock
from appliance.core.errors import ApplianceError, ModelNotFoundError, NotEnoughMemoryError, RateLimitedError
from appliance.core.events import Completed, LoadProgress, ModelIdentity, StreamEvent, TextDelta
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess
from appliance.core.usage import Timings, Usage
from appliance.providers.llama_cpp import EngineHandle, LlamaCppProvider, OnLoadProgress, ServedModel

P = ParamSpec("P")
T = TypeVar("T")


class InlineExecutor(ThreadPoolExecutor):
    """Runs what is meant for a thread at once: virtual time must not pass while a real thread works."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except ApplianceError as exc:
            done.set_exception(exc)
        return done


class Engine:
    """An engine whose loading and answering take virtual time; it writes down what happens to it."""

    def __init__(self, name: str, clock: VirtualClock, journal: list[str], progress: OnLoadProgress) -> None:
        self._name = name
        self._clock = clock
        self._journal = journal
        self._progress = progress
        self._is_loaded = False

    async def start(self) -> object:
        if not self._is_loaded:
            for step in range(1, 3):
                await self._clock.sleep(1.0)
                self._progress(step / 2)
            self._is_loaded = True
            self._journal.append(f"loaded {self._name}")
        return self._name

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        await self._clock.sleep(1.0)
        yield TextDelta(text=self._name)
        await self._clock.sleep(9.0)
        yield Completed(
            finish_reason="stop",
            usage=Usage(),
            timings=Timings(ttft_s=1.0, total_s=10.0),
            model=ModelIdentity(provider="llama_cpp", name=request.model),
        )

    async def count_tokens(self, request: GenerateRequest) -> int:
        return 7

    async def close(self) -> None:
        self._journal.append(f"closed {self._name}")


class Trial:
    """A provider over such engines. The model `huge` does not fit, `alias` is another name of `a`."""

    def __init__(self, *, max_loaded_models: int = 2, keep_alive_s: float = 60.0) -> None:
        asyncio.get_running_loop().set_default_executor(InlineExecutor())
        self.clock = VirtualClock()
        self.journal: list[str] = []
        self.provider = LlamaCppProvider(
            self._resolve, self.clock, max_loaded_models=max_loaded_models, keep_alive_s=keep_alive_s
        )

    async def events(self, model: str) -> list[StreamEvent]:
        return [event async for event in self.provider.stream(self.request(model))]

    async def answer(self, model: str) -> GenerateResult:
        answer = AnswerInProgress()
        for event in await self.events(model):
            answer.add(event)
        return answer.result()

    def request(self, model: str) -> GenerateRequest:
        return GenerateRequest(conversation=Conversation.of(UserMessage(text="go")), model=model)

    def _resolve(self, name: str) -> ServedModel:
        if name == "unknown":
            raise ModelNotFoundError("there is no such model")
        real_name = "a" if name == "alias" else name

        def open_engine(progress: OnLoadProgress) -> EngineHandle:
            if real_name == "huge":
                raise NotEnoughMemoryError("it does not fit")
            self.journal.append(f"opened {real_name}")
            return Engine(real_name, self.clock, self.journal, progress)

        return ServedModel(
            name=real_name,
            digest="0" * 64,
            context_window=100,
            capabilities=frozenset(("chat", "json_schema", "tools")),
            open_engine=open_engine,
        )


async def test_nothing_is_opened_until_it_is_asked() -> None:
    trial = Trial()

    await trial.provider.capabilities("a")

    assert trial.journal == []


async def test_requests_at_the_same_time_share_one_loading_and_all_see_its_progress() -> None:
    trial = Trial()

    answers = await asyncio.gather(*(trial.events(name) for name in ("a", "alias", "a")))

    assert trial.journal == ["opened a", "loaded a"]
    for events in answers:
        assert any(isinstance(event, LoadProgress) for event in events)


async def test_the_wait_for_loading_counts_in_the_times() -> None:
    result = await Trial().answer("a")

    assert isinstance(result, GenerateSuccess)
    assert (result.timings.load_s, result.timings.ttft_s, result.timings.total_s) == (2.0, 3.0, 12.0)


async def test_an_idle_model_is_closed_after_its_keep_alive_and_loads_again() -> None:
    trial = Trial(keep_alive_s=60.0)
    await trial.answer("a")
    await trial.clock.sleep(59.0)
    assert "closed a" not in trial.journal

    await trial.clock.sleep(2.0)
    await trial.answer("a")

    assert trial.journal == ["opened a", "loaded a", "closed a", "opened a", "loaded a"]


async def test_use_puts_the_unloading_off() -> None:
    trial = Trial(keep_alive_s=60.0)
    await trial.answer("a")
    await trial.clock.sleep(50.0)
    await trial.answer("a")
    await trial.clock.sleep(50.0)

    assert trial.journal == ["opened a", "loaded a"]


async def test_a_model_with_endless_keep_alive_stays() -> None:
    trial = Trial(keep_alive_s=float("inf"))
    await trial.answer("a")
    await trial.clock.sleep(1e9)

    assert trial.journal == ["opened a", "loaded a"]


async def test_the_model_idle_longest_makes_room() -> None:
    trial = Trial(max_loaded_models=2)
    for name in ("a", "b", "a", "c"):
        await trial.answer(name)

    assert trial.journal[-3:] == ["closed b", "opened c", "loaded c"]


async def test_when_every_model_is_busy_another_is_refused_with_when_to_come_back() -> None:
    trial = Trial(max_loaded_models=1)
    running = asyncio.create_task(trial.answer("a"))
    await trial.clock.sleep(2.5)

    refused = await trial.answer("b")

    assert isinstance(refused, GenerateFailure)
    assert refused.failure.kind == "rate_limited"
    assert refused.failure.details["retry_after_s"] == 5.0
    assert isinstance(await running, GenerateSuccess)


async def test_a_reader_that_leaves_while_loading_does_not_stop_it_for_others() -> None:
    trial = Trial()
    leaving = trial.provider.stream(trial.request("a"))
    await anext(leaving)
    staying = asyncio.create_task(trial.answer("a"))
    await asyncio.sleep(0)
    await leaving.aclose()

    assert isinstance(await staying, GenerateSuccess)
    assert trial.journal == ["opened a", "loaded a"]


async def test_a_model_that_does_not_fit_is_refused_and_takes_no_room() -> None:
    trial = Trial(max_loaded_models=1)

    refused = await trial.answer("huge")

    assert isinstance(refused, GenerateFailure)
    assert refused.failure.kind == "provider_unavailable"
    assert isinstance(await trial.answer("a"), GenerateSuccess)


async def test_a_card_cannot_promise_what_the_engine_does_not_hold() -> None:
    offered = await Trial().provider.capabilities("a")

    assert offered.capabilities == {
        "chat",
        "json_schema",
        "tools",
        "parallel_tools",
        "logprobs",
        "raw_prompt",
        "open_turn",
    }


async def test_loading_and_counting_hold_the_model_no_longer_than_needed() -> None:
    trial = Trial(max_loaded_models=1)

    await trial.provider.load("a")
    counted = await trial.provider.count_tokens(trial.request("b"))

    assert counted == 7
    assert trial.journal == ["opened a", "loaded a", "closed a", "opened b", "loaded b"]


async def test_closing_closes_every_engine_once() -> None:
    trial = Trial()
    await trial.answer("a")
    await trial.answer("b")

    await trial.provider.close()
    await trial.provider.close()

    assert sorted(trial.journal[-2:]) == ["closed a", "closed b"]
    with pytest.raises(ModelNotFoundError):
        await trial.provider.capabilities("unknown")


async def test_a_model_is_unloaded_on_wish_unless_it_answers() -> None:
    trial = Trial()
    async with aclosing(trial.provider.stream(trial.request("a"))) as events:
        await anext(events)
        with pytest.raises(RateLimitedError):
            await trial.provider.unload("alias")
        assert "closed a" not in trial.journal

    await trial.provider.unload("alias")
    await trial.provider.unload("a")

    assert trial.journal.count("closed a") == 1
