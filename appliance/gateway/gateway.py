"""`stream` and `generate` as one path: route, admit, keep deadlines, judge, end with one terminal event."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import count
from typing import overload

from appliance.core.answer import AnswerInProgress
from appliance.core.capabilities import ProviderCapabilities
from appliance.core.errors import ApplianceError, ModelNotFoundError
from appliance.core.events import Failed, StreamEvent
from appliance.core.needs import check_needs
from appliance.core.ports import Clock, Provider
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess, ValueT
from appliance.core.usage import Timings
from appliance.gateway.attempt import Attempt
from appliance.gateway.judge import judge_of
from appliance.gateway.repair import JudgedAnswer, RepairedAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatCost:
    """What the description of an output format takes of the prompt, for a receipt."""

    characters: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Value:
    value: object | None = None


class Gateway:
    """Finds the provider of a model and answers through it. Providers are asked in the order given."""

    def __init__(self, providers: Sequence[Provider], clock: Clock) -> None:
        self._providers = tuple(providers)
        self._clock = clock

    async def stream(
        self, request: GenerateRequest, answer_type: object | None = None
    ) -> AsyncGenerator[StreamEvent]:
        """Answer as events; the last is the only `Completed` or `Failed`. Closing the stream cancels.

        An output format or a tool is admitted before the model runs. The end of the answer is judged, so
        that `Completed` means valid. With `answer_type`, its own validators judge as well, and text comes
        only once it is valid: an answer that breaks their rules is written once more, told what is wrong.
        """
        async with aclosing(self._judged(request, answer_type, _Value())) as events:
            async for event in events:
                yield event

    @overload
    async def generate(self, request: GenerateRequest) -> GenerateResult: ...

    @overload
    async def generate(
        self, request: GenerateRequest, answer_type: type[ValueT]
    ) -> GenerateSuccess[ValueT] | GenerateFailure: ...

    async def generate(
        self, request: GenerateRequest, answer_type: type[ValueT] | None = None
    ) -> GenerateSuccess[ValueT] | GenerateResult:
        """Answer as one result: drain the stream.

        `answer_type` is a Pydantic model, or any type that Pydantic validates; `value` is an instance of
        it. Where the request asks for free text, the output format is made from the type.
        """
        answer = AnswerInProgress()
        kept = _Value()
        async with aclosing(self._judged(request, answer_type, kept)) as events:
            async for event in events:
                answer.add(event)
        result = answer.result()
        return replace(result, value=kept.value) if isinstance(result, GenerateSuccess) else result

    async def load(self, model: str) -> None:
        """Make a model ready, so that the next request need not wait for it.

        Raises:
            ApplianceError: no provider knows the model, or it cannot be loaded.
        """
        provider, _ = await self._route(model)
        await provider.load(model)

    async def unload(self, model: str) -> None:
        """Free what a model holds; nothing happens when it is not loaded.

        Raises:
            ApplianceError: no provider knows the model, or it is answering.
        """
        provider, _ = await self._route(model)
        await provider.unload(model)

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Count the prompt tokens of a request as its model would see it, its format's description included.

        Raises:
            ApplianceError: no provider knows the model, it cannot be loaded, or the format is refused.
        """
        provider, _ = await self._route(request.model)
        return await provider.count_tokens((await judge_of(request)).told)

    async def count_format(self, request: GenerateRequest, answer_type: object | None = None) -> FormatCost:
        """Count what describing the output format to the model adds to the prompt.

        Raises:
            ApplianceError: as `count_tokens`.
        """
        judge = await judge_of(request, answer_type)
        if not judge.format_text:
            return FormatCost()
        provider, _ = await self._route(request.model)
        with_format = await provider.count_tokens(judge.told)
        without = await provider.count_tokens(judge.request)
        return FormatCost(characters=len(judge.format_text), tokens=with_format - without)

    async def capabilities(self, model: str) -> ProviderCapabilities:
        """Say what the provider of a model can do with it.

        Raises:
            ModelNotFoundError: no provider knows the model.
        """
        _, offered = await self._route(model)
        return offered

    async def close(self) -> None:
        """Close every provider; running requests end as cancelled."""
        for provider in self._providers:
            await provider.close()

    async def _judged(
        self, request: GenerateRequest, answer_type: object | None, kept: _Value
    ) -> AsyncGenerator[StreamEvent]:
        started_s = self._clock.now_s()
        try:
            provider, offered = await self._route(request.model)
            judge = await judge_of(request, answer_type)
            check_needs(judge.request, offered)
        except ApplianceError as exc:
            timings = Timings(total_s=self._clock.now_s() - started_s)
            yield Failed(failure=exc.to_failure(), timings=timings)
            return
        attempts = count()

        def attempt(told: GenerateRequest) -> AsyncGenerator[StreamEvent]:
            asked_s = self._clock.now_s() if next(attempts) else None
            return Attempt(provider, told, self._clock, started_s=started_s, asked_s=asked_s).events()

        answer: JudgedAnswer | RepairedAnswer
        answer = (
            JudgedAnswer(judge, judge.told, attempt)
            if answer_type is None
            else RepairedAnswer(judge, attempt)
        )
        async with aclosing(answer.events()) as events:
            async for event in events:
                kept.value = answer.value
                yield event

    async def _route(self, model: str) -> tuple[Provider, ProviderCapabilities]:
        unknown: list[ModelNotFoundError] = []
        for provider in self._providers:
            try:
                return provider, await provider.capabilities(model)
            except ModelNotFoundError as exc:
                unknown.append(exc)
        hint = next((error.hint for error in unknown if error.hint), "")
        message = next((error.message for error in unknown if error.hint), f"there is no model {model!r}")
        raise ModelNotFoundError(message, hint=hint, model=model)
