"""Several prompts one after another, with code between them; the first failure ends the chain and is named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from appliance.core.errors import ApplianceError, Failure
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess
from appliance.core.usage import Usage

Ask = Callable[[GenerateRequest], Awaitable[GenerateResult]]
"""Answers a request; the gateway's `generate`."""

InT = TypeVar("InT")
MiddleT = TypeVar("MiddleT")
OutT = TypeVar("OutT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStep(Generic[InT, OutT]):
    """A step that a model does: make the request of what came before, read what came of it.

    Either may raise an ApplianceError, which then is the chain's failure.
    """

    name: str
    request: Callable[[InT], GenerateRequest]
    read: Callable[[GenerateSuccess], OutT]
    kind: Literal["prompt"] = "prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeStep(Generic[InT, OutT]):
    """A step that code does: check, compute, choose."""

    name: str
    work: Callable[[InT], OutT]
    kind: Literal["code"] = "code"


Step = PromptStep[InT, OutT] | CodeStep[InT, OutT]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What a step took, and under which request its trace is found; code takes no tokens."""

    name: str
    usage: Usage = field(default_factory=Usage)
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSuccess(Generic[OutT]):
    """The value of the last step."""

    value: OutT
    steps: tuple[StepRecord, ...]
    kind: Literal["success"] = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFailure:
    """Which step failed and why; the steps before it are done, with what they took."""

    step: str
    failure: Failure
    steps: tuple[StepRecord, ...]
    kind: Literal["failure"] = "failure"


class Chain(Generic[InT, OutT]):
    """Steps in order; each takes what the one before it returns."""

    def __init__(self, run: Callable[[InT, _Run], Awaitable[OutT]]) -> None:
        self._run = run

    @classmethod
    def of(cls, step: Step[InT, OutT]) -> Chain[InT, OutT]:
        """Begin a chain with a step."""
        return cls(lambda value, run: run.do(step, value))

    def then(self, step: Step[OutT, MiddleT]) -> Chain[InT, MiddleT]:
        """Return the chain that goes on with another step."""

        async def run_both(value: InT, run: _Run) -> MiddleT:
            return await run.do(step, await self._run(value, run))

        return Chain(run_both)

    async def run(self, value: InT, ask: Ask) -> ChainSuccess[OutT] | ChainFailure:
        """Do every step; stop at the first that fails."""
        run = _Run(ask)
        try:
            outcome = await self._run(value, run)
        except ApplianceError as exc:
            return ChainFailure(step=run.current, failure=exc.to_failure(), steps=tuple(run.records))
        except _StepFailedError as exc:
            return ChainFailure(step=run.current, failure=exc.failure, steps=tuple(run.records))
        return ChainSuccess(value=outcome, steps=tuple(run.records))


class _StepFailedError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _Run:
    """One run of a chain: who answers, which step is at work, and what each took."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.current = ""
        self.records: list[StepRecord] = []

    async def do(self, step: Step[MiddleT, OutT], value: MiddleT) -> OutT:
        self.current = step.name
        if isinstance(step, CodeStep):
            outcome = step.work(value)
            self.records.append(StepRecord(name=step.name))
            return outcome
        request = step.request(value)
        result = await self._ask(request)
        self.records.append(StepRecord(name=step.name, usage=result.usage, request_id=request.request_id))
        if isinstance(result, GenerateFailure):
            raise _StepFailedError(result.failure)
        return step.read(result)
