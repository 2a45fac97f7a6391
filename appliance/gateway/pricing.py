"""What attempts cost: tokens by the price table, or measured seconds of this machine times power and machine."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.config import PriceTable, TokenPrice
from appliance.core.capabilities import Placement
from appliance.core.handling import AttemptRecord, Cost, CostLine
from appliance.core.usage import Timings, Usage

_MILLION = 1e6
_JOULES_PER_KILOWATT_HOUR = 3.6e6
_SECONDS_PER_HOUR = 3600.0
_OWN: frozenset[Placement] = frozenset(("this_process", "this_machine"))


class Pricing:
    """Computes costs from one version of the price table.

    Seconds of requests that run beside each other on one machine are counted for each of them, so that the
    sum over a busy machine is more than its bill.
    """

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices

    def cost(self, attempts: Sequence[tuple[AttemptRecord, Placement]]) -> Cost | None:
        """Return the cost of all attempts together, or nothing when there are no prices."""
        if self._prices.is_empty:
            return None
        lines: list[CostLine] = []
        unpriced: list[str] = []
        for attempt, placement in attempts:
            price = self._prices.models.get(attempt.model)
            if price is not None:
                lines += _token_lines(attempt.model, attempt.usage, price)
            elif placement in _OWN:
                lines += self._machine_lines(attempt.model, attempt.timings)
            else:
                unpriced.append(attempt.model)
        return Cost(
            amount=sum(line.amount for line in lines),
            currency=self._prices.currency,
            price_version=self._prices.version,
            lines=tuple(line for line in lines if line.quantity),
            unpriced=tuple(dict.fromkeys(unpriced)),
        )

    def _machine_lines(self, model: str, timings: Timings) -> list[CostLine]:
        computed_s = timings.load_s + timings.prefill_s + timings.decode_s
        seconds = computed_s or max(timings.total_s - timings.queue_s, 0.0)
        prices = self._prices
        energy = prices.power_watts * seconds / _JOULES_PER_KILOWATT_HOUR
        hours = seconds / _SECONDS_PER_HOUR
        lines = [
            _line(f"power of {model}", energy, "kWh", prices.kilowatt_hour),
            _line(f"machine of {model}", hours, "h", prices.machine_hour),
        ]
        return [line for line in lines if line.unit_price]


def _token_lines(model: str, usage: Usage, price: TokenPrice) -> list[CostLine]:
    computed_tokens = usage.input_tokens - usage.cached_tokens
    return [
        _line(f"input of {model}", computed_tokens / _MILLION, "million tokens", price.input),
        _line(
            f"cached input of {model}", usage.cached_tokens / _MILLION, "million tokens", price.cached_input
        ),
        _line(f"output of {model}", usage.output_tokens / _MILLION, "million tokens", price.output),
    ]


def _line(what: str, quantity: float, unit: str, unit_price: float) -> CostLine:
    return CostLine(
        what=what, quantity=quantity, unit=unit, unit_price=unit_price, amount=quantity * unit_price
    )
