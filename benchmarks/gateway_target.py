"""A model of this appliance as a target, asked through the gateway in this process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from appliance.core.events import Completed, Failed, ReasoningDelta, TextDelta
from appliance.core.messages import Conversation, UserMessage
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.gateway import Gateway
from benchmarks.answers import Answer, LoadRequest
from benchmarks.metrics import RequestTrace

NEVER = -1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTarget:
    """The gateway and one model of it; `never` are tokens that must not end an answer early."""

    gateway: Gateway
    model: str
    clock: Clock
    never: Mapping[int, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """That nothing lies between."""
        return "in process"

    async def answer(self, request: LoadRequest) -> Answer:
        """Ask and time every delta."""
        sent_s = received_s = self.clock.now_s()
        times_s: list[float] = []
        end: Completed | Failed | None = None
        async with aclosing(self.gateway.stream(self._request(request))) as events:
            async for event in events:
                received_s = self.clock.now_s()
                if isinstance(event, TextDelta | ReasoningDelta):
                    times_s.append(received_s)
                elif isinstance(event, Completed | Failed):
                    end = event
        assert end is not None, "a stream ends with Completed or Failed"
        failure = end.failure.message if isinstance(end, Failed) else ""
        return Answer(
            request=request,
            trace=RequestTrace(
                sent_s=sent_s,
                chunk_times_s=tuple(times_s),
                ended_s=received_s,
                output_tokens=end.usage.output_tokens,
            ),
            input_tokens=end.usage.input_tokens,
            cached_tokens=end.usage.cached_tokens,
            finish_reason="error" if isinstance(end, Failed) else end.finish_reason,
            phases={
                "queue_s": end.timings.queue_s,
                "load_s": end.timings.load_s,
                "prefill_s": end.timings.prefill_s,
            },
            failure=failure or ("" if times_s else "the answer has no text"),
        )

    async def count_tokens(self, text: str) -> int:
        """Count a prompt with the model's template."""
        request = LoadRequest(number=-1, text=text, input_tokens=0, output_tokens=1, key="sizing")
        return await self.gateway.count_tokens(self._request(request))

    async def count_output(self, text: str) -> int | None:  # noqa: ARG002  # every answer says its count
        """Nothing is left to count."""
        return None

    def _request(self, request: LoadRequest) -> GenerateRequest:
        return GenerateRequest(
            conversation=Conversation.of(UserMessage(text=request.text)),
            model=self.model,
            sampling=SamplingParams(
                temperature=0.0, max_tokens=request.output_tokens, logit_bias=dict(self.never)
            ),
            owner=f"benchmark/{request.key}",
        )
