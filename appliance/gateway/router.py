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
    """Who is asked in which order, and when the next one is. With a `refusal` nobody is."""

    decision: RouteDecision
    chosen: tuple[Chosen, ...]
    refusal: ApplianceError | None = None
    fallback_on: frozenset[FailureKind] = frozenset()
    is_cascade: bool = False


@dataclass(frozen=True, slots=True)
class _Rejected:
    """A rejection and the error that it is where there is no other candidate."""

    rejection: Rejection
    error: ApplianceError


@dataclass(frozen=True, slots=True)
class _Scope:
    """What decides over the candidates of one request."""

    name: str
    route: Route | None
    privacy: Placement
    difficulty: int


_Objection = tuple[RejectionReason, ApplianceError]


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
        return (await self.plan(request)).decision

    async def first(self, request: GenerateRequest) -> Chosen:
        """Choose the candidate that a request is asked of first.

        Raises:
            ApplianceError: there is none; as the refusal of a plan.
        """
        plan = await self.plan(request)
        if plan.refusal is not None:
            raise plan.refusal
        return plan.chosen[0]

    async def find(self, name: str) -> tuple[Chosen, ProviderCapabilities]:
        """Find a model, or the first candidate of a route that is known and near enough.

        Raises:
            ModelNotFoundError: no provider knows it.
            PolicyRejectionError: it would take data too far.
        """
        route = self._routes.get(name)
        privacy = nearest(self._privacy, route.privacy if route else None)
        errors: list[ApplianceError] = []
        for listed in self._listed(name):
            try:
                chosen, offered = await self._known(listed.model)
            except ModelNotFoundError as exc:
                errors.append(exc)
                continue
            if is_within(offered.placement, privacy):
                return chosen, offered
            errors.append(_too_far(listed.model, offered.placement, privacy))
        raise errors[0]

    async def plan(self, request: GenerateRequest) -> Plan:
        """Choose the candidates of a request. The refusal of a plan says why there is none:

        ModelNotFoundError when no provider knows the model, PolicyRejectionError when every model that
        could serve it would take the data too far, InvalidRequestError when none can do what it needs.
        """
        scope = self._scope(request)
        considered = [await self._considered(request, listed, scope) for listed in self._listed(scope.name)]
        chosen = tuple(found for found in considered if isinstance(found, Chosen))
        decision = RouteDecision(
            asked=request.model,
            route=scope.route.name if scope.route else "",
            difficulty=scope.difficulty,
            privacy=scope.privacy,
            candidates=tuple(choice.candidate for choice in chosen),
            rejected=tuple(found.rejection for found in considered if isinstance(found, _Rejected)),
        )
        return Plan(
            decision=decision,
            chosen=chosen,
            refusal=_refusal_of(considered, decision, scope.route),
            fallback_on=scope.route.fallback_on if scope.route else frozenset(),
            is_cascade=scope.route is not None and scope.route.is_cascade,
        )

    async def _considered(
        self, request: GenerateRequest, listed: RouteCandidate, scope: _Scope
    ) -> Chosen | _Rejected:
        provider = ""
        try:
            chosen, offered = await self._known(listed.model)
            provider = chosen.provider.name
            objection = _objection(request, listed, offered, scope)
            if objection is None:
                return chosen
            reason, error = objection
        except ModelNotFoundError as exc:
            reason, error = "unknown_model", exc
        except ApplianceError as exc:
            reason, error = "unavailable", exc
        rejection = Rejection(model=listed.model, provider=provider, reason=reason, message=error.message)
        return _Rejected(rejection, error)

    def _scope(self, request: GenerateRequest) -> _Scope:
        """Find the route that counts: for a stage it may be another one, under the limits of the first."""
        asked = self._routes.get(request.model)
        name = asked.stages.get(request.routing.stage, request.model) if asked else request.model
        route = self._routes.get(name)
        limits = [found.privacy for found in (asked, route) if found]
        privacy = nearest(self._privacy, request.routing.privacy, *limits)
        return _Scope(name, route, privacy, difficulty_of(request))

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


def _objection(
    request: GenerateRequest, listed: RouteCandidate, offered: ProviderCapabilities, scope: _Scope
) -> _Objection | None:
    """Return the first reason against a candidate; where data may not go comes before what it needs."""
    if not is_within(offered.placement, scope.privacy):
        return "privacy", _too_far(listed.model, offered.placement, scope.privacy)
    if needs_of(request) - offered.capabilities:
        try:
            check_needs(replace(request, model=listed.model), offered)
        except InvalidRequestError as exc:
            return "capability", exc
    wanted_tokens = request.routing.context_tokens
    if 0 < offered.context_window < wanted_tokens:
        message = (
            f"the context window of {listed.model!r} holds {offered.context_window} tokens; "
            f"{wanted_tokens} are asked for"
        )
        return "context_window", InvalidRequestError(message, hint="choose another model")
    return _tier_objection(request, listed, scope.difficulty)


def _tier_objection(request: GenerateRequest, listed: RouteCandidate, difficulty: int) -> _Objection | None:
    asked = request.routing
    if listed.latency and asked.latency and _is_worse(FASTEST_FIRST, listed.latency, asked.latency):
        message = f"{listed.model!r} is of latency {listed.latency}; {asked.latency} is asked for"
        return "latency", InvalidRequestError(message)
    if listed.cost and asked.cost and _is_worse(CHEAPEST_FIRST, listed.cost, asked.cost):
        message = f"{listed.model!r} is of cost {listed.cost}; at most {asked.cost} is asked for"
        return "cost", InvalidRequestError(message)
    if difficulty > listed.max_difficulty:
        message = f"{listed.model!r} is asked up to difficulty {listed.max_difficulty}; this is {difficulty}"
        return "difficulty", InvalidRequestError(message)
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


def _refusal_of(
    considered: Sequence[Chosen | _Rejected], decision: RouteDecision, route: Route | None
) -> ApplianceError | None:
    """Say why nobody is asked: no candidate, or a first one that fails in a way the route does not pass over."""
    for found in considered:
        if isinstance(found, Chosen):
            return None
        is_passed = route is not None and found.error.kind in route.fallback_on
        if route is None or (found.rejection.reason == "unavailable" and not is_passed):
            return found.error
    return _nobody(decision)


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
