"""Costs: tokens by the table, seconds of the own machine by power and machine, explained line by line."""

import pytest

from appliance.config import PriceTable, Route, RouteCandidate, TokenPrice
from appliance.core.capabilities import Placement
from appliance.core.clock import VirtualClock
from appliance.core.handling import AttemptRecord, Cost
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.core.usage import Timings, Usage
from appliance.gateway import Gateway, GatewayPolicy
from appliance.gateway.pricing import Pricing
from tests.played_provider import PlayedModel, PlayedProvider, fails, question, says

PRICES = PriceTable(
    version="2026-11",
    currency="CHF",
    power_watts=100.0,
    kilowatt_hour=0.36,
    machine_hour=3.6,
    models={"far": TokenPrice(input=2.0, cached_input=0.5, output=8.0)},
)


def cost_of(
    record: AttemptRecord, placement: Placement = "this_machine", prices: PriceTable = PRICES
) -> Cost:
    cost = Pricing(prices).cost([(record, placement)])
    assert cost is not None
    return cost


def test_tokens_are_priced_by_the_million_and_cached_ones_apart() -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=250_000)

    cost = cost_of(AttemptRecord(provider="p", model="far", usage=usage), "elsewhere")

    assert {line.what: line.amount for line in cost.lines} == pytest.approx(
        {"input of far": 1.2, "cached input of far": 0.2, "output of far": 2.0}
    )
    assert cost.amount == pytest.approx(3.4)
    assert (cost.currency, cost.price_version) == ("CHF", "2026-11")


def test_a_local_model_costs_power_and_machine_of_its_measured_seconds() -> None:
    timings = Timings(load_s=10.0, prefill_s=20.0, decode_s=70.0, queue_s=500.0, total_s=600.0)

    cost = cost_of(AttemptRecord(provider="p", model="near", timings=timings))

    power, machine = cost.lines
    assert (power.unit, machine.unit) == ("kWh", "h")
    assert power.quantity == pytest.approx(100 * 100 / 3.6e6)
    assert power.amount == pytest.approx(0.001)
    assert machine.amount == pytest.approx(0.1)
    assert cost.amount == pytest.approx(0.101)


def test_without_phases_the_time_outside_the_queue_counts() -> None:
    cost = cost_of(AttemptRecord(provider="p", model="near", timings=Timings(queue_s=40.0, total_s=50.0)))

    assert cost.lines[1].quantity == pytest.approx(10.0 / 3600.0)


def test_each_line_is_quantity_times_price_and_the_lines_make_the_sum() -> None:
    usage = Usage(input_tokens=123_456, cached_tokens=100_000, output_tokens=789)

    cost = cost_of(AttemptRecord(provider="p", model="far", usage=usage), "this_network")

    assert [line.amount for line in cost.lines] == [line.quantity * line.unit_price for line in cost.lines]
    assert cost.amount == sum(line.amount for line in cost.lines)


def test_a_model_elsewhere_without_a_price_is_named_and_not_free() -> None:
    cost = cost_of(AttemptRecord(provider="p", model="unknown", usage=Usage(input_tokens=5)), "elsewhere")

    assert (cost.amount, cost.unpriced) == (0, ("unknown",))


def test_an_empty_table_gives_no_cost_at_all() -> None:
    record = AttemptRecord(provider="p", model="near", timings=Timings(total_s=9.0))

    assert Pricing(PriceTable()).cost([(record, "this_machine")]) is None


def gateway_of(*models: PlayedModel) -> Gateway:
    clock = VirtualClock()
    candidates = tuple(RouteCandidate(model=model.name) for model in models)
    route = Route(name="all", candidates=candidates, privacy="elsewhere")
    policy = GatewayPolicy(routes={"all": route}, prices=PRICES)
    return Gateway([PlayedProvider(clock, *models)], clock, policy=policy)


async def test_a_result_costs_what_all_its_attempts_cost() -> None:
    far = PlayedModel("far", [fails("provider_unavailable")], placement="elsewhere")
    near = PlayedModel("near", [says("a b", seconds=3600.0)])

    result = await gateway_of(far, near).generate(question(model="all"))

    assert isinstance(result, GenerateSuccess)
    assert result.handling.cost is not None
    assert [line.what for line in result.handling.cost.lines] == [
        "input of far",
        "power of near",
        "machine of near",
    ]
    assert result.handling.cost.amount == pytest.approx(3 * 2.0 / 1e6 + 0.036 + 3.6)


async def test_a_failure_costs_what_was_tried() -> None:
    far = PlayedModel("far", [fails("invalid_request")], placement="elsewhere")

    result = await gateway_of(far).generate(question(model="all"))

    assert isinstance(result, GenerateFailure)
    assert result.handling.cost is not None
    assert result.handling.cost.amount == pytest.approx(3 * 2.0 / 1e6)
