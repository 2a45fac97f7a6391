"""The router orders candidates, keeps data where it may be, and says why each other model was rejected."""

import pytest

from appliance.config import Route, RouteCandidate
from appliance.core.capabilities import Placement, ProviderCapabilities
from appliance.core.clock import VirtualClock
from appliance.core.errors import (
    FailureKind,
    InvalidRequestError,
    PolicyRejectionError,
    ProviderUnavailableError,
)
from appliance.core.requests import GenerateRequest, JsonSchemaFormat, ToolSpec
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.core.routing import RouteDecision, RoutingNeeds
from appliance.gateway import Gateway, GatewayPolicy
from tests.played_provider import PlayedModel, PlayedProvider, question, says

SCHEMA = JsonSchemaFormat(schema_json='{"type": "object"}')
CLOCK_TOOL = ToolSpec(name="clock", description="tells the time", parameters_json="{}")


def models() -> dict[str, PlayedModel]:
    return {
        "small": PlayedModel(
            "small", [says("small")], capabilities=frozenset(("chat",)), context_window=1000
        ),
        "big": PlayedModel("big", [says("big")], context_window=9000),
        "net": PlayedModel("net", [says("net")], placement="this_network"),
        "far": PlayedModel("far", [says("far")], placement="elsewhere"),
    }


def route_of(*names: str | RouteCandidate, name: str = "docs", **changes: object) -> Route:
    candidates = tuple(RouteCandidate(model=found) if isinstance(found, str) else found for found in names)
    return Route(name=name, candidates=candidates, **changes)  # type: ignore[arg-type]


def gateway_of(*routes: Route, privacy: Placement = "elsewhere") -> Gateway:
    clock = VirtualClock()
    policy = GatewayPolicy(routes={route.name: route for route in routes}, privacy=privacy)
    return Gateway([PlayedProvider(clock, *models().values())], clock, policy=policy)


async def decided(
    request: GenerateRequest, *routes: Route, privacy: Placement = "elsewhere"
) -> RouteDecision:
    return await gateway_of(*routes, privacy=privacy).decide(request)


def names(decision: RouteDecision) -> list[str]:
    return [candidate.model for candidate in decision.candidates]


def reasons(decision: RouteDecision) -> dict[str, str]:
    return {found.model: found.reason for found in decision.rejected}


async def test_the_candidates_of_a_route_come_in_its_order() -> None:
    decision = await decided(question(model="docs"), route_of("big", "small"))

    assert (names(decision), decision.route, decision.rejected) == (["big", "small"], "docs", ())


async def test_a_plain_model_is_its_own_only_candidate() -> None:
    decision = await decided(question(model="big"), route_of("small"))

    assert (names(decision), decision.route) == (["big"], "")


REJECTED = [
    pytest.param(question(model="docs", output=SCHEMA), {"small": "capability"}, id="format"),
    pytest.param(question(model="docs", tools=(CLOCK_TOOL,)), {"small": "capability"}, id="tools"),
    pytest.param(
        question(model="docs", routing=RoutingNeeds(capabilities=frozenset(("json_schema",)))),
        {"small": "capability"},
        id="stated capability",
    ),
    pytest.param(
        question(model="docs", routing=RoutingNeeds(context_tokens=1001)),
        {"small": "context_window"},
        id="context",
    ),
]


@pytest.mark.parametrize("request_beyond, rejected", REJECTED)
async def test_what_a_candidate_cannot_do_is_the_reason_against_it(
    request_beyond: GenerateRequest, rejected: dict[str, str]
) -> None:
    decision = await decided(request_beyond, route_of("small", "big"))

    assert names(decision) == ["big"]
    assert reasons(decision) == rejected


async def test_every_rejection_says_who_why_and_in_words() -> None:
    decision = await decided(question(model="docs"), route_of("nobody", "net", "big"))

    unknown, too_far = decision.rejected
    assert (unknown.model, unknown.provider, unknown.reason) == ("nobody", "", "unknown_model")
    assert "there is no model 'nobody'" in unknown.message
    assert (too_far.model, too_far.provider, too_far.reason) == ("net", "played", "privacy")
    assert "'net' runs in this network; the data of this request stays on this machine" in too_far.message


PRIVACY = [
    pytest.param({}, None, "elsewhere", ["big"], id="a route stays on the machine unless it says more"),
    pytest.param({"privacy": "elsewhere"}, None, "elsewhere", ["big", "net", "far"], id="a route allows all"),
    pytest.param({"privacy": "elsewhere"}, "this_network", "elsewhere", ["big", "net"], id="request"),
    pytest.param({"privacy": "elsewhere"}, "elsewhere", "this_machine", ["big"], id="whole gateway"),
    pytest.param({"privacy": "this_machine"}, "elsewhere", "elsewhere", ["big"], id="no request widens"),
]


@pytest.mark.parametrize("changes, asked, overall, expected", PRIVACY)
async def test_the_strictest_limit_on_the_place_of_data_holds(
    changes: dict[str, object], asked: Placement | None, overall: Placement, expected: list[str]
) -> None:
    request = question(model="docs", routing=RoutingNeeds(privacy=asked))

    decision = await decided(request, route_of("big", "net", "far", **changes), privacy=overall)

    assert names(decision) == expected


async def test_a_model_too_far_away_is_a_policy_rejection_and_is_not_asked() -> None:
    far = PlayedModel("far", [says("far")], placement="elsewhere")
    clock = VirtualClock()
    gateway = Gateway([PlayedProvider(clock, far)], clock, policy=GatewayPolicy(privacy="this_machine"))

    result = await gateway.generate(question(model="far"))

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "policy_rejection"
    assert result.failure.details == {"placement": "elsewhere", "privacy": "this_machine"}
    assert far.requests == []


TIERED = route_of(
    RouteCandidate(model="small", latency="interactive", cost="low", max_difficulty=2),
    RouteCandidate(model="big", latency="batch", cost="high"),
)


@pytest.mark.parametrize(
    "needs, expected, rejected",
    [
        (RoutingNeeds(), ["small", "big"], {}),
        (RoutingNeeds(latency="standard"), ["small"], {"big": "latency"}),
        (RoutingNeeds(cost="medium"), ["small"], {"big": "cost"}),
        (RoutingNeeds(difficulty=2), ["small", "big"], {}),
        (RoutingNeeds(difficulty=3), ["big"], {"small": "difficulty"}),
    ],
)
async def test_tiers_and_difficulty_choose_among_candidates(
    needs: RoutingNeeds, expected: list[str], rejected: dict[str, str]
) -> None:
    decision = await decided(question(model="docs", routing=needs), TIERED)

    assert names(decision) == expected
    assert reasons(decision) == rejected


@pytest.mark.parametrize(
    "request_to_measure, difficulty",
    [
        (question("hi", model="docs"), 0),
        (question("hi", model="docs", output=SCHEMA), 1),
        (question("hi", model="docs", tools=(CLOCK_TOOL,)), 1),
        (question("x" * 2001, model="docs"), 1),
        (question("x" * 200_000, model="docs", output=SCHEMA), 5),
    ],
)
async def test_difficulty_is_counted_by_code(request_to_measure: GenerateRequest, difficulty: int) -> None:
    decision = await decided(request_to_measure, route_of("big"))

    assert decision.difficulty == difficulty


async def test_a_stage_has_a_model_or_route_of_its_own_and_other_stages_the_route_s() -> None:
    docs = route_of("big", stages={"rewrite": "small", "judge": "judges"})
    judges = route_of("far", name="judges", privacy="elsewhere")

    def asked(stage: str) -> GenerateRequest:
        return question(model="docs", routing=RoutingNeeds(stage=stage))

    assert names(await decided(asked("rewrite"), docs, judges)) == ["small"]
    assert names(await decided(asked("extract"), docs, judges)) == ["big"]
    judged = await decided(asked("judge"), docs, judges)
    assert reasons(judged) == {"far": "privacy"}, "the route of a stage does not widen the first one's limit"


async def test_the_model_that_answered_and_the_decision_stand_in_the_result() -> None:
    result = await gateway_of(route_of("nobody", "big")).generate(question(model="docs"))

    assert isinstance(result, GenerateSuccess)
    assert (result.message.text, result.model.name) == ("big", "big")
    assert result.handling.decision is not None
    assert reasons(result.handling.decision) == {"nobody": "unknown_model"}


async def test_a_route_without_any_candidate_left_names_each_reason() -> None:
    result = await gateway_of(route_of("small", "far")).generate(question(model="docs", output=SCHEMA))

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "invalid_request"
    assert "small: the model 'small' cannot hold the answer to an output format" in result.failure.message
    assert "far: 'far' runs outside this network" in result.failure.message
    assert "appliance route docs" in result.failure.hint
    assert result.handling.decision is not None
    assert reasons(result.handling.decision) == {"small": "capability", "far": "privacy"}


async def test_a_route_that_only_privacy_empties_is_a_policy_rejection() -> None:
    result = await gateway_of(route_of("net", "far")).generate(question(model="docs"))

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "policy_rejection"


async def test_deciding_asks_no_model() -> None:
    clock = VirtualClock()
    small = PlayedModel("small", [says("small")])
    gateway = Gateway([PlayedProvider(clock, small)], clock, policy=GatewayPolicy(routes={}))

    await gateway.decide(question())

    assert small.requests == []


class HalfDown(PlayedProvider):
    """A provider that cannot reach the model `down`."""

    async def capabilities(self, model: str) -> ProviderCapabilities:
        if model == "down":
            raise ProviderUnavailableError("the server is down")
        return await super().capabilities(model)


def half_down(*fallback_on: FailureKind) -> Gateway:
    clock = VirtualClock()
    route = route_of("down", "big", fallback_on=frozenset(fallback_on))
    provider = HalfDown(clock, PlayedModel("big", [says("big")]))
    return Gateway([provider], clock, policy=GatewayPolicy(routes={"docs": route}))


async def test_a_candidate_out_of_reach_is_passed_over_where_the_route_falls_back_on_that() -> None:
    result = await half_down("provider_unavailable").generate(question(model="docs"))

    assert isinstance(result, GenerateSuccess)
    assert result.message.text == "big"
    assert result.handling.decision is not None
    assert reasons(result.handling.decision) == {"down": "unavailable"}


async def test_a_candidate_out_of_reach_is_the_outcome_where_the_route_does_not() -> None:
    result = await half_down("timeout").generate(question(model="docs"))

    assert isinstance(result, GenerateFailure)
    assert (result.failure.kind, result.failure.message) == ("provider_unavailable", "the server is down")


async def test_counting_and_loading_a_route_use_its_first_known_candidate() -> None:
    gateway = gateway_of(route_of("nobody", "big"))

    await gateway.load("docs")

    assert await gateway.count_tokens(question("one two three", model="docs")) == 3
    assert (await gateway.capabilities("docs")).context_window == 9000


async def test_no_text_is_counted_by_a_model_that_is_too_far_away() -> None:
    gateway = gateway_of(route_of("far", "big"), route_of("far", name="only far"))

    assert await gateway.count_tokens(question("one two", model="docs")) == 2
    assert (await gateway.capabilities("docs")).placement == "this_machine"
    with pytest.raises(PolicyRejectionError, match="'far' runs outside this network"):
        await gateway.capabilities("only far")
    with pytest.raises(PolicyRejectionError):
        await gateway.count_tokens(question("one two", model="only far"))


def test_needs_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="difficulty is 11"):
        RoutingNeeds(difficulty=11)
    with pytest.raises(InvalidRequestError, match="context_tokens is -1"):
        RoutingNeeds(context_tokens=-1)


async def test_a_request_reaches_the_provider_under_the_name_of_the_candidate() -> None:
    clock = VirtualClock()
    big = PlayedModel("big", [says("big")])
    policy = GatewayPolicy(routes={"docs": route_of("big")})
    gateway = Gateway([PlayedProvider(clock, big)], clock, policy=policy)

    await gateway.generate(question(model="docs"))

    assert [request.model for request in big.requests] == ["big"]
