"""The price table: tokens of models that are paid by the token, power and machine of those that run here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.config.tables import Table

_MOST = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrice:
    """Prices of a million tokens; cached input costs what input does unless stated."""

    input: float
    output: float
    cached_input: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Prices at one time. `version` stands with every cost that was computed from it."""

    version: str = ""
    currency: str = "EUR"
    power_watts: float = 0.0
    kilowatt_hour: float = 0.0
    machine_hour: float = 0.0
    models: Mapping[str, TokenPrice] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has a price."""
        return not self.models and not self.machine_hour and not (self.power_watts and self.kilowatt_hour)


def parse_prices(table: Table) -> PriceTable:
    """Read the table `prices` with `prices.models."<name>"`.

    Raises:
        ConfigError: a key or value means nothing, or there are prices without a version.
    """
    usual = PriceTable()
    prices = PriceTable(
        version=table.text("version", usual.version),
        currency=table.text("currency", usual.currency),
        power_watts=table.number("power_watts", 0.0, 0.0, _MOST),
        kilowatt_hour=table.number("kilowatt_hour", 0.0, 0.0, _MOST),
        machine_hour=table.number("machine_hour", 0.0, 0.0, _MOST),
        models={model.name: _token_price(model) for model in table.table("models").tables()},
    )
    table.finish()
    if not prices.is_empty and not prices.version:
        raise table.wrong("version", "prices need a version, such as a date, that stands with every cost")
    return prices


def _token_price(table: Table) -> TokenPrice:
    price = TokenPrice(
        input=table.number("input_million", 0.0, 0.0, _MOST),
        output=table.number("output_million", 0.0, 0.0, _MOST),
        cached_input=table.number(
            "cached_input_million", table.number("input_million", 0.0, 0.0, _MOST), 0.0, _MOST
        ),
    )
    table.finish()
    return price
