"""`stream` and `generate` as one path: route, check needs, keep deadlines, end with one terminal event."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from appliance.core.answer import AnswerInProgress
from appliance.core.capabilities import ProviderCapabilities
from appliance.core.errors import ApplianceError, ModelNotFoundError
from appliance.core.events import Failed, StreamEvent
from appliance.core.needs import check_needs
from appliance.core.ports import Clock, Provider
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateResult
from appliance.core.usage import Timings
from appliance.gateway.attempt import Attempt


class Gateway:
    """Finds the provider of a model and answers through it. Providers are asked in the order given."""

    def __init__(self, providers: Sequence[Provider], clock: Clock) -> None:
        self._providers = tuple(providers)
        self._clock = clock

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        """Answer as events; the last is the only `Completed` or `Failed`. Closing the stream cancels."""
        started_s = self._clock.now_s()
        try:
            provider, offered = await self._route(request.model)
            check_needs(request, offered)
        except ApplianceError as exc:
            timings = Timings(total_s=self._clock.now_s() - started_s)
            yield Failed(failure=exc.to_failure(), timings=timings)
            return
        attempt = Attempt(provider, request, self._clock, started_s=started_s)
        async with aclosing(attempt.events()) as events:
            async for event in events:
                yield event

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        """Answer as one result: drain the stream."""
        answer = AnswerInProgress()
        async with aclosing(self.stream(request)) as events:
            async for event in events:
                answer.add(event)
        return answer.result()

    async def load(self, model: str) -> None:
        """Make a model ready, so that the next request need not wait for it.

        Raises:
            ApplianceError: no provider knows the model, or it cannot be loaded.
        """
        provider, _ = await self._route(model)
        await provider.load(model)

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Count the prompt tokens of a request as its model would see it.

        Raises:
            ApplianceError: no provider knows the model, or it cannot be loaded.
        """
        provider, _ = await self._route(request.model)
        return await provider.count_tokens(request)

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
