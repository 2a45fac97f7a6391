"""Give a stored answer again, and store new ones. A store that fails is a miss, never a failed request."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.core.answer import AnswerInProgress
from appliance.core.errors import ApplianceError, MalformedOutputError
from appliance.core.events import Completed, ReasoningDelta, StreamEvent, TextDelta, UsageReported
from appliance.core.handling import Handling
from appliance.core.usage import Timings
from appliance.gateway.judge import Judge
from appliance.gateway.router import Chosen
from appliance.telemetry import Metrics

if TYPE_CHECKING:
    from appliance.gateway.response_cache import ResponseCache, StoredAnswer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A stored answer that is still what the request asks for, and the value in it."""

    stored: StoredAnswer
    value: object | None

    def events(self, total_s: float) -> list[StreamEvent]:
        """Return the events of giving it again."""
        message, usage = self.stored.message, self.stored.usage_again
        deltas: list[StreamEvent] = []
        if message.reasoning:
            deltas.append(ReasoningDelta(text=message.reasoning))
        if message.text:
            deltas.append(TextDelta(text=message.text, logprobs=self.stored.logprobs))
        ending = Completed(
            finish_reason=self.stored.finish_reason,
            usage=usage,
            timings=Timings(ttft_s=total_s, total_s=total_s),
            model=self.stored.model,
            handling=Handling(is_from_cache=True),
        )
        return [*deltas, UsageReported(usage=usage), ending]


class Reuse:
    """The stored answers as one request sees them: looked up before it runs, added to after it."""

    def __init__(self, cache: ResponseCache, judge: Judge, chosen: Chosen, metrics: Metrics) -> None:
        from appliance.gateway.response_cache import key_of

        self._cache = cache
        self._judge = judge
        self._owner = judge.request.owner
        self._metrics = metrics
        self._chosen = chosen
        self._key = key_of(judge.told, chosen.candidate)
        self._written = AnswerInProgress()

    async def find(self) -> Found | None:
        """Return the stored answer, judged again: the rules of a type can have changed."""
        if self._key is None:
            self._metrics.cache_lookups.add("not_reusable")
            return None
        found = await self._judged(self._key)
        self._metrics.cache_lookups.add("hit" if found else "miss")
        return found

    async def note(self, event: StreamEvent, answered: Chosen) -> None:
        """Follow the answer; store it when it is whole and of the candidate it was looked up for."""
        if self._key is None:
            return
        self._written.add(event)
        if isinstance(event, Completed) and event.finish_reason == "stop" and answered is self._chosen:
            await self._put(self._key, event)

    async def _judged(self, key: str) -> Found | None:
        try:
            stored = await asyncio.to_thread(self._cache.get, key, self._owner)
            if stored is None:
                return None
            return Found(stored=stored, value=await self._judge.check(stored.message))
        except MalformedOutputError:
            return None
        except ApplianceError as exc:
            _log.warning("stored answers cannot be read: %s", exc.message)
            return None

    async def _put(self, key: str, completed: Completed) -> None:
        message, logprobs = self._written.partial(), self._written.logprobs
        try:
            await asyncio.to_thread(self._cache.put, key, self._owner, message, completed, logprobs)
        except ApplianceError as exc:
            _log.warning("an answer cannot be stored: %s", exc.message)
