"""The public door: `stream` and `generate` as one path, and what can be asked about models without running one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, overload

from appliance.config import Limits, PriceTable, RetryPolicy, Route
from appliance.core.answer import AnswerInProgress
from appliance.core.capabilities import Placement, ProviderCapabilities
from appliance.core.events import StreamEvent
from appliance.core.ports import Clock, Provider
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess, ValueT
from appliance.core.routing import RouteDecision
from appliance.gateway.admission import Admission
from appliance.gateway.backoff import BackOff
from appliance.gateway.cascade import Grader
from appliance.gateway.course import Course, Workings
from appliance.gateway.judge import judge_of
from appliance.gateway.pricing import Pricing
from appliance.gateway.router import Router
from appliance.telemetry import Telemetry

if TYPE_CHECKING:
    from appliance.gateway.response_cache import ResponseCache


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatCost:
    """What the description of an output format takes of the prompt, for a receipt."""

    characters: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPolicy:
    """What the configuration says about routing, limits, retry and prices. `privacy` binds every request."""

    routes: Mapping[str, Route] = field(default_factory=dict)
    privacy: Placement = "elsewhere"
    limits: Limits = field(default_factory=Limits)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    prices: PriceTable = field(default_factory=PriceTable)


class Gateway:
    """Answers requests through whatever provider can. A model is looked for in the order of the providers."""

    def __init__(
        self,
        providers: Sequence[Provider],
        clock: Clock,
        *,
        policy: GatewayPolicy | None = None,
        cache: ResponseCache | None = None,
        telemetry: Telemetry | None = None,
        chance: Random | None = None,
    ) -> None:
        policy = policy or GatewayPolicy()
        telemetry = telemetry or Telemetry(clock)
        self._providers = tuple(providers)
        self._routes = policy.routes
        self._router = Router(providers, policy.routes, privacy=policy.privacy)
        self._cache = cache
        self._workings = Workings(
            clock=clock,
            router=self._router,
            admission=Admission(policy.limits, clock, telemetry.metrics),
            retry=policy.retry,
            backoff=BackOff(policy.retry, chance or Random()),
            pricing=Pricing(policy.prices),
            telemetry=telemetry,
            cache=cache,
        )

    def has_stage(self, model: str, stage: str) -> bool:
        """Whether a route names a model of its own for a step of a larger task."""
        route = self._routes.get(model)
        return route is not None and stage in route.stages

    async def stream(
        self, request: GenerateRequest, answer_type: object | None = None
    ) -> AsyncGenerator[StreamEvent]:
        """Answer as events; the last is the only `Completed` or `Failed`. Closing the stream cancels.

        An output format or a tool is admitted before the model runs. The end of the answer is judged, so
        that `Completed` means valid. With `answer_type`, its own validators judge as well, and text comes
        only once it is valid: an answer that breaks their rules is written once more, told what is wrong.
        """
        async with aclosing(self._course(request, answer_type).events()) as events:
            async for event in events:
                yield event

    @overload
    async def generate(
        self, request: GenerateRequest, answer_type: None = None, *, grader: Grader | None = None
    ) -> GenerateResult: ...

    @overload
    async def generate(
        self, request: GenerateRequest, answer_type: type[ValueT], *, grader: Grader | None = None
    ) -> GenerateSuccess[ValueT] | GenerateFailure: ...

    async def generate(
        self,
        request: GenerateRequest,
        answer_type: type[ValueT] | None = None,
        *,
        grader: Grader | None = None,
    ) -> GenerateSuccess[ValueT] | GenerateResult:
        """Answer as one result: drain the stream.

        `answer_type` is a Pydantic model, or any type that Pydantic validates; `value` is an instance of
        it. Where the request asks for free text, the output format is made from the type. `grader` may
        refuse a valid answer; a route that is a cascade then asks its next candidate.
        """
        answer = AnswerInProgress()
        course = self._course(request, answer_type, grader)
        async with aclosing(course.events()) as events:
            async for event in events:
                answer.add(event)
        result = answer.result()
        return replace(result, value=course.value) if isinstance(result, GenerateSuccess) else result

    async def decide(self, request: GenerateRequest, answer_type: object | None = None) -> RouteDecision:
        """Say which candidates would be asked in which order, and why the others are rejected; runs none.

        Raises:
            InvalidRequestError: the output format or a tool is refused.
        """
        return await self._router.decide((await judge_of(request, answer_type)).request)

    async def load(self, model: str) -> None:
        """Make a model ready, so that the next request need not wait for it.

        Raises:
            ApplianceError: no provider knows the model, or it cannot be loaded.
        """
        chosen, _ = await self._router.find(model)
        await chosen.provider.load(chosen.candidate.model)

    async def unload(self, model: str) -> None:
        """Free what a model holds; nothing happens when it is not loaded.

        Raises:
            ApplianceError: no provider knows the model, or it is answering.
        """
        chosen, _ = await self._router.find(model)
        await chosen.provider.unload(chosen.candidate.model)

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Count the prompt tokens of a request as its model would see it, its format's description included.

        Raises:
            ApplianceError: no model may or can serve the request, it cannot be loaded, or the format is refused.
        """
        judge = await judge_of(request)
        chosen = await self._router.first(judge.request)
        return await chosen.provider.count_tokens(replace(judge.told, model=chosen.candidate.model))

    async def count_format(self, request: GenerateRequest, answer_type: object | None = None) -> FormatCost:
        """Count what describing the output format to the model adds to the prompt.

        Raises:
            ApplianceError: as `count_tokens`.
        """
        judge = await judge_of(request, answer_type)
        if not judge.format_text:
            return FormatCost()
        chosen = await self._router.first(judge.request)
        model, count_tokens = chosen.candidate.model, chosen.provider.count_tokens
        with_format = await count_tokens(replace(judge.told, model=model))
        without = await count_tokens(replace(judge.request, model=model))
        return FormatCost(characters=len(judge.format_text), tokens=with_format - without)

    async def capabilities(self, model: str) -> ProviderCapabilities:
        """Say what the provider of a model can do with it.

        Raises:
            ModelNotFoundError: no provider knows the model.
        """
        _, offered = await self._router.find(model)
        return offered

    async def close(self) -> None:
        """Close every provider; running requests end as cancelled."""
        for provider in self._providers:
            await provider.close()
        if self._cache is not None:
            await asyncio.to_thread(self._cache.close)

    def forget_owner(self, owner: str) -> int:
        """Remove the stored answers of an owner and return how many there were.

        Raises:
            StorageError: they cannot be removed now.
        """
        return self._cache.forget_owner(owner) if self._cache is not None else 0

    def _course(
        self, request: GenerateRequest, answer_type: object | None, grader: Grader | None = None
    ) -> Course:
        return Course(self._workings, request, answer_type, grader)
