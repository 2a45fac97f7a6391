"""Runs speed tests on loaded engines and returns what the worker's clock says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from appliance.catalog.catalog import LocalModel
from appliance.core.errors import ContextOverflowError, InvalidRequestError
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.engine.client import Engine
from benchmarks.exact_text import exact_text
from benchmarks.peers.engine_side import EngineAnswer, EngineFailedError, ask
from benchmarks.speed_tests import LoadChoice, SpeedTest

_OWNER = "speed"
_NEVER = -1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSample:
    """One repetition: tokens and the worker's time for them, its CPU time, and the depth it really had."""

    tokens: int
    elapsed_s: float
    cpu_s: float
    depth_tokens: int

    @property
    def tokens_per_s(self) -> float:
        """The rate."""
        return self.tokens / self.elapsed_s


@dataclass(slots=True)
class SpeedRunner:
    """One loaded engine and the texts that were made for it."""

    engine: Engine
    model: str
    seed: int
    never_end: dict[int, float]
    build: str
    texts: dict[int, str]

    async def run(self, test: SpeedTest) -> SpeedSample:
        """Measure once; nothing is kept in the KV cache afterwards.

        Raises:
            EngineFailedError: the engine failed, or did not compute what the test states.
        """
        try:
            return await (self._prompt(test) if test.kind == "pp" else self._generate(test))
        finally:
            await self.engine.forget_owner(_OWNER)

    async def _prompt(self, test: SpeedTest) -> SpeedSample:
        if test.depth_tokens:
            await self._ask(await self._text(test.depth_tokens), output_tokens=1)
        answer = await self._ask(await self._text(test.depth_tokens + test.tokens), output_tokens=1)
        computed = answer.usage.input_tokens - answer.usage.cached_tokens
        if computed != test.tokens:
            raise EngineFailedError(f"{computed} prompt tokens were computed, {test.tokens} were to be")
        return SpeedSample(
            tokens=computed,
            elapsed_s=answer.timings.prefill_s,
            cpu_s=answer.prefill_cpu_s,
            depth_tokens=answer.usage.cached_tokens,
        )

    async def _generate(self, test: SpeedTest) -> SpeedSample:
        text = await self._text(max(test.depth_tokens, self._shortest))
        answer = await self._ask(text, output_tokens=test.tokens + 1)
        generated = answer.usage.output_tokens - 1
        if generated != test.tokens:
            raise EngineFailedError(f"{generated} tokens were generated, {test.tokens} were to be")
        return SpeedSample(
            tokens=generated,
            elapsed_s=answer.timings.decode_s,
            cpu_s=answer.decode_cpu_s,
            depth_tokens=answer.usage.input_tokens,
        )

    @property
    def _shortest(self) -> int:
        return min(self.texts)

    async def _ask(self, text: str, *, output_tokens: int) -> EngineAnswer:
        return await ask(self.engine, self._request(text, output_tokens))

    def _request(self, text: str, output_tokens: int) -> GenerateRequest:
        return GenerateRequest(
            conversation=Conversation.of(UserMessage(text=text)),
            model=self.model,
            sampling=SamplingParams(temperature=0.0, max_tokens=output_tokens, logit_bias=self.never_end),
            owner=_OWNER,
        )

    async def _text(self, tokens: int) -> str:
        """Text of so many tokens; a longer one begins with every shorter one."""
        if tokens not in self.texts:
            self.texts[tokens] = await exact_text(
                tokens, seed=f"speed-{self.seed}", count_tokens=self.count_tokens
            )
        return self.texts[tokens]

    async def count_tokens(self, text: str) -> int:
        """Count a text as it will be prefilled."""
        return await self.engine.count_tokens(self._request(text, 1))


@asynccontextmanager
async def open_runner(
    local: LocalModel, choice: LoadChoice, context_tokens: int, *, seed: int
) -> AsyncIterator[SpeedRunner]:
    """Load a model for speed tests.

    Raises:
        ApplianceError: it cannot be loaded so.
    """
    trained = local.card.context_window
    if trained and context_tokens > trained:
        raise ContextOverflowError(prompt_tokens=context_tokens, context_window=trained)
    if not local.is_gguf:
        raise InvalidRequestError(f"{local.id} is no GGUF file, so the engine cannot load it")
    engine = Engine(choice.params(local, context_tokens))
    try:
        info = await engine.start()
        runner = SpeedRunner(
            engine=engine,
            model=local.id,
            seed=seed,
            never_end=dict.fromkeys(info.end_tokens, _NEVER),
            build=info.build,
            texts={},
        )
        shortest = await runner.count_tokens("time")
        runner.texts[shortest] = "time"
        yield runner
    finally:
        await engine.close()
