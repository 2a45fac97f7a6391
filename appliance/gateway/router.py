"""From the name in a request to candidates in order, and for each other model the reason against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from appliance.config import Route, RouteCandidate
from appliance.core.capabilities import Placement, ProviderCapabilities
from appliance.core.errors import (
    ApplianceError,
    FailureKind,
    InvalidRequestError,
    ModelNotFoundError,
    PolicyRejectionError,
    ProviderUnavailableError,
)
from appliance.core.needs import check_needs, needs_of
from appliance.core.ports import Provider
from appliance.core.requests import GenerateRequest
from appliance.core.routing import (
    CHEAPEST_FIRST,
    FASTEST_FIRST,
    Candidate,
    Rejection,
    RejectionReason,
    RouteDecision,
    is_within,
    nearest,
)
from appliance.gateway.difficulty import difficulty_of

_PLACE = {
    "this_process": "in this process",
    "this_machine": "on this machine",
    "this_network": "in this network",
    "elsewhere": "outside this network",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A candidate with the provider that runs it, under the name by which that provider knows it."""

    candidate: Candidate
    provider: Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Who is asked in which order, and when the next one is."""

    decision: RouteDecision
    chosen: tuple[Chosen, ...]
    fallback_on: frozenset[FailureKind] = frozenset()
    is_cascade: bool = False


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: RejectionReason
    error: ApplianceError


class Router:
    """Orders candidates. `privacy` is the farthest place that data of any request may go to."""

    def __init__(
        self,
        providers: Sequence[Provider],
        routes: Mapping[str, Route] | None = None,
        *,
        privacy: Placement = "elsewhere",
    ) -> None:
        self._providers = tuple(providers)
        self._routes = dict(routes or {})
        self._privacy = privacy

    async def decide(self, request: GenerateRequest) -> RouteDecision:
        """Say whom the router would choose for a request, and why it rejects the others; asks no model."""
        return (await self._considered(request))[0].decision

    async def plan(self, request: GenerateRequest) -> Plan:
        """Choose the candidates of a request.

        Raises:
            ModelNotFoundError: no provider knows the model.
            PolicyRejectionError: every model that could serve it would take the data too far.
            InvalidRequestError: no model of that name can do what the request needs.
        """
        plan, refusals = await self._considered(request)
        if plan.chosen:
            return plan
        if not plan.decision.route:
            raise refusals[0].error
        raise _nobody(plan.decision)

    async def find(self, name: str) -> tuple[Chosen, ProviderCapabilities]:
        """Find a model, or the first candidate of a route that some provider knows.

        Raises:
            ModelNotFoundError: no provider knows it.
        """
        unknown: list[ModelNotFoundError] = []
        for candidate in self._listed(name):
            try:
                return await self._known(candidate.model)
            except ModelNotFoundError as exc:
                unknown.append(exc)
        raise unknown[0]

    async def _considered(self, request: GenerateRequest) -> tuple[Plan, list[_Refusal]]:
        name = self._staged(request)
        route = self._routes.get(name)
        privacy = nearest(self._privacy, request.routing.privacy, route.privacy if route else None)
        difficulty = difficulty_of(request)
        chosen: list[Chosen] = []
        rejected: list[Rejection] = []
        refusals: list[_Refusal] = []
        for listed in self._listed(name):
            found = await self._considered_one(request, listed, privacy, difficulty)
            if isinstance(found, Chosen):
                chosen.append(found)
                continue
            rejection, refusal = found
            rejected.append(rejection)
            refusals.append(refusal)
        decision = RouteDecision(
            asked=request.model,
            route=route.name if route else "",
            difficulty=difficulty,
            privacy=privacy,
            candidates=tuple(choice.candidate for choice in chosen),
            rejected=tuple(rejected),
        )
        plan = Plan(
            decision=decision,
            chosen=tuple(chosen),
            fallback_on=route.fallback_on if route else frozenset(),
            is_cascade=route is not None and route.is_cascade,
        )
        return plan, refusals

    async def _considered_one(
        self, request: GenerateRequest, listed: RouteCandidate, privacy: Placement, difficulty: int
    ) -> Chosen | tuple[Rejection, _Refusal]:
        provider = ""
        try:
            chosen, offered = await self._known(listed.model)
            provider = chosen.provider.name
            refusal = _refusal(request, listed, offered, privacy, difficulty)
            if refusal is None:
                return chosen
        except ModelNotFoundError as exc:
            refusal = _Refusal("unknown_model", exc)
        except ApplianceError as exc:
            refusal = _Refusal("unavailable", exc)
        rejection = Rejection(
            model=listed.model, provider=provider, reason=refusal.reason, message=refusal.error.message
        )
        return rejection, refusal

    def _staged(self, request: GenerateRequest) -> str:
        """Return the name that a route states for the request's stage, or else the request's own."""
        route = self._routes.get(request.model)
        if route is None or not request.routing.stage:
            return request.model
        return route.stages.get(request.routing.stage, request.model)

    def _listed(self, name: str) -> tuple[RouteCandidate, ...]:
        route = self._routes.get(name)
        return route.candidates if route else (RouteCandidate(model=name),)

    async def _known(self, model: str) -> tuple[Chosen, ProviderCapabilities]:
        unknown: list[ModelNotFoundError] = []
        for provider in self._providers:
            try:
                offered = await provider.capabilities(model)
            except ModelNotFoundError as exc:
                unknown.append(exc)
                continue
            candidate = Candidate(
                model=model,
                provider=provider.name,
                placement=offered.placement,
                digest=offered.digest,
                parallel=offered.parallel,
            )
            return Chosen(candidate=candidate, provider=provider), offered
        hint = next((error.hint for error in unknown if error.hint), "")
        message = next((error.message for error in unknown if error.hint), f"there is no model {model!r}")
        raise ModelNotFoundError(message, hint=hint, model=model)


def _refusal(
    request: GenerateRequest,
    listed: RouteCandidate,
    offered: ProviderCapabilities,
    privacy: Placement,
    difficulty: int,
) -> _Refusal | None:
    """Return the first reason against a candidate; what data may not do comes before what it needs."""
    if not is_within(offered.placement, privacy):
        return _Refusal("privacy", _too_far(listed.model, offered.placement, privacy))
    if needs_of(request) - offered.capabilities:
        try:
            check_needs(replace(request, model=listed.model), offered)
        except InvalidRequestError as exc:
            return _Refusal("capability", exc)
    wanted_tokens = request.routing.context_tokens
    if 0 < offered.context_window < wanted_tokens:
        message = (
            f"the context window of {listed.model!r} holds {offered.context_window} tokens; "
            f"{wanted_tokens} are asked for"
        )
        return _Refusal("context_window", InvalidRequestError(message, hint="choose another model"))
    return _tier_refusal(request, listed, difficulty)


def _tier_refusal(request: GenerateRequest, listed: RouteCandidate, difficulty: int) -> _Refusal | None:
    asked = request.routing
    if listed.latency and asked.latency and _is_worse(FASTEST_FIRST, listed.latency, asked.latency):
        message = f"{listed.model!r} is of latency {listed.latency}; {asked.latency} is asked for"
        return _Refusal("latency", InvalidRequestError(message))
    if listed.cost and asked.cost and _is_worse(CHEAPEST_FIRST, listed.cost, asked.cost):
        message = f"{listed.model!r} is of cost {listed.cost}; at most {asked.cost} is asked for"
        return _Refusal("cost", InvalidRequestError(message))
    if difficulty > listed.max_difficulty:
        message = f"{listed.model!r} is asked up to difficulty {listed.max_difficulty}; this is {difficulty}"
        return _Refusal("difficulty", InvalidRequestError(message))
    return None


def _is_worse(order: Sequence[str], found: str, asked: str) -> bool:
    return order.index(found) > order.index(asked)


def _too_far(model: str, placement: Placement, privacy: Placement) -> PolicyRejectionError:
    return PolicyRejectionError(
        f"{model!r} runs {_PLACE[placement]}; the data of this request stays {_PLACE[privacy]}",
        hint="choose a model that runs nearer, or allow the place in the route or the request",
        placement=placement,
        privacy=privacy,
    )


def _nobody(decision: RouteDecision) -> ApplianceError:
    listed = "; ".join(f"{found.model}: {found.message}" for found in decision.rejected)
    message = f"the route {decision.route!r} has no candidate that can serve this request: {listed}"
    hint = f"`appliance route {decision.asked}` shows each candidate"
    reasons = {found.reason for found in decision.rejected}
    if reasons == {"unavailable"}:
        return ProviderUnavailableError(message, hint=hint)
    if "privacy" in reasons and reasons <= {"privacy", "unknown_model", "unavailable"}:
        return PolicyRejectionError(message, hint=hint)
    return InvalidRequestError(message, hint=hint)
