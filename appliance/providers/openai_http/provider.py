"""One server as a provider: its models answer under `<server>/<model>`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

from appliance.config.remote import RemoteServer
from appliance.core.addresses import check_may_send
from appliance.core.capabilities import ProviderCapabilities
from appliance.core.errors import ApplianceError, ModelNotFoundError, ProviderUnavailableError
from appliance.core.events import (
    Completed,
    Failed,
    ModelIdentity,
    StreamEvent,
)
from appliance.core.needs import check_needs
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Usage
from appliance.providers.openai_http.answer_coming import AnswerComing, events_in
from appliance.providers.openai_http.body import request_body
from appliance.providers.openai_http.connection import Connection
from appliance.providers.openai_http.counting import (
    check_fits,
    count_prompt,
    estimate_prompt,
    estimate_text,
)
from appliance.providers.openai_http.event_stream import EventStreamParser
from appliance.providers.openai_http.probes import Probes
from appliance.providers.openai_http.served import CHAT, ServedModel, ServedModels


class OpenAiHttpProvider:
    """Answers through a server over HTTP. Leaving this machine needs the configuration's permission.

    Args:
        cache_folder: where the outcome of probes is kept; `None` keeps none.
    """

    def __init__(
        self,
        server: RemoteServer,
        clock: Clock,
        *,
        is_offline: bool = False,
        cache_folder: Path | None = None,
    ) -> None:
        self._server = server
        self._clock = clock
        self._is_offline = is_offline
        self._connection = Connection(server)
        self._models = ServedModels(server, self._connection, Probes(self._connection, cache_folder), clock)
        self._owners: set[str] = set()
        self._closed = asyncio.Event()

    @property
    def name(self) -> str:
        """The provider's name, as it stands in results."""
        return self._server.name

    async def capabilities(self, model: str) -> ProviderCapabilities:
        """Say what the server showed that it can do with a model.

        Raises:
            ModelNotFoundError: it has another prefix, or the server does not have it.
            ApplianceError: the server may not, or cannot, be asked.
        """
        return self._capabilities_of(await self._find(model))

    async def model_names(self) -> list[str]:
        """Return the names of all its models, prefix included.

        Raises:
            ApplianceError: the server may not, or cannot, be asked.
        """
        self._check_permission()
        return [f"{self.name}/{name}" for name in await self._models.names()]

    async def load(self, model: str) -> None:
        """See that the server has the model; when it loads it is the server's own affair."""
        await self._find(model)

    async def unload(self, model: str) -> None:
        """See that the server has the model; unloading it is the server's own affair."""
        await self._find(model)

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Count the prompt's tokens as the server does; where it has no way to, estimate, rather too many."""
        counted = await count_prompt(self._connection, request, await self._find(request.model))
        return estimate_prompt(request) if counted is None else counted

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        """Answer through the server."""
        answer = AnswerComing(self._clock, self._connection.label, request)
        try:
            model = await self._find(request.model)
            check_needs(request, self._capabilities_of(model))
            check_fits(request, model, self._connection.label)
            async with aclosing(self._answered(request, model, answer)) as events:
                async for event in events:
                    answer.note(event)
                    yield event
            usage = answer.chunks.usage or await self._estimated(request, model, answer)
        except ApplianceError as exc:
            yield Failed(failure=exc.to_failure(), usage=answer.usage_so_far, timings=answer.timings())
            return
        yield Completed(
            finish_reason=answer.finish_reason,
            usage=usage,
            timings=answer.timings(),
            model=ModelIdentity(provider=self.name, name=f"{self.name}/{model.name}", digest=model.digest),
        )

    async def close(self) -> None:
        """Close every connection; running requests end as cancelled."""
        self._closed.set()
        await asyncio.sleep(0)
        await self._connection.close()

    async def _answered(
        self, request: GenerateRequest, model: ServedModel, answer: AnswerComing
    ) -> AsyncGenerator[StreamEvent]:
        body = request_body(
            request,
            model=model.name,
            dialect=model.dialect,
            asks_usage="streaming_usage" in (model.capabilities or CHAT),
            reuses_prefix=self._is_only_owner(request.owner),
        )
        parser = EventStreamParser()
        async with self._connection.stream("/v1/chat/completions", body) as pieces:
            async for piece in self._until_closed(pieces, answer):
                for event in events_in(parser, piece, answer):
                    yield event
                if answer.is_done:
                    break
        for event in events_in(parser, None, answer):
            yield event
        answer.check_whole()
        for event in answer.chunks.rest():
            yield event

    async def _until_closed(self, pieces: AsyncIterator[bytes], answer: AnswerComing) -> AsyncIterator[bytes]:
        """Yield the pieces until there are no more or the provider is closed."""
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            while True:
                piece = asyncio.ensure_future(_next_piece(pieces))
                try:
                    await asyncio.wait((piece, closed), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await _stopped(piece)
                if closed.done():
                    answer.is_cancelled = True
                    return
                if (received := piece.result()) is None:
                    return
                yield received
        finally:
            closed.cancel()

    async def _find(self, name: str) -> ServedModel:
        prefix, separator, model = name.partition("/")
        if prefix != self.name or not separator:
            raise ModelNotFoundError(f"{name!r} is no model of {self.name}", model=name)
        if self._closed.is_set():
            raise ProviderUnavailableError(f"the connection to {self.name} is closed")
        self._check_permission()
        return await self._models.find(model)

    def _check_permission(self) -> None:
        check_may_send(
            self._server.address,
            purpose=f"the provider {self.name!r}",
            permission=f"providers.{self.name}.allow",
            is_allowed=self._server.is_allowed,
            is_offline=self._is_offline,
        )

    def _capabilities_of(self, model: ServedModel) -> ProviderCapabilities:
        capabilities = model.capabilities or CHAT
        if model.dialect.goes_on:
            capabilities |= {"open_turn"}
        return ProviderCapabilities(
            capabilities=capabilities,
            context_window=model.context_window,
            placement=self._server.address.placement,
            digest=model.digest,
        )

    def _is_only_owner(self, owner: str) -> bool:
        """Whether nobody else's prompt can be in a prefix cache that knows no owners."""
        self._owners.add(owner)
        return self._owners == {owner}

    async def _estimated(self, request: GenerateRequest, model: ServedModel, answer: AnswerComing) -> Usage:
        """Return the tokens of an answer whose server does not report them."""
        counted = None if answer.is_cancelled else await count_prompt(self._connection, request, model)
        input_tokens = estimate_prompt(request) if counted is None else counted
        output_tokens = estimate_text(answer.written)
        return Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            estimated_tokens=output_tokens + (input_tokens if counted is None else 0),
        )


async def _next_piece(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


async def _stopped(task: asyncio.Future[bytes | None]) -> None:
    """Wait until a task that is no longer wanted is at rest."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
