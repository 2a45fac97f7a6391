"""What the benchmark of structured output asks: calls of functions, and extraction from a record that is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Style = Literal["function call", "extraction"]
Schema = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question and the schema of its answer."""

    style: Style
    question: str
    schema: Schema


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _call(name: str, **parameters: Schema) -> Schema:
    return _object(name={"const": name}, arguments=_object(**parameters))


TEXT: Schema = {"type": "string", "maxLength": 60}
NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": 100_000}
YES_NO: Schema = {"type": "boolean"}


def _one_of(*values: str) -> Schema:
    return {"enum": list(values)}


def _extract(record: str, **fields: Schema) -> Case:
    return Case(
        style="extraction", question=f"Copy the fields of this record:\n{record}", schema=_object(**fields)
    )


CASES: tuple[Case, ...] = (
    Case(
        style="function call",
        question="What will the weather be in Oslo over the next three days, in Celsius?",
        schema=_call(
            "get_weather_forecast",
            location=TEXT,
            number_of_days={"type": "integer", "minimum": 1, "maximum": 14},
            temperature_unit=_one_of("celsius", "fahrenheit"),
            include_hourly_details=YES_NO,
        ),
    ),
    Case(
        style="function call",
        question="Book a table for four people at seven this evening, outside if possible.",
        schema=_call(
            "create_restaurant_reservation",
            number_of_guests={"type": "integer", "minimum": 1, "maximum": 20},
            time_of_day=_one_of("breakfast", "lunch", "afternoon", "evening"),
            seating_preference=_one_of("inside", "outside", "no_preference"),
            needs_confirmation=YES_NO,
        ),
    ),
    Case(
        style="function call",
        question="Turn the lamp in the kitchen to 40 percent and make it warm white.",
        schema=_call(
            "set_smart_light_state",
            room_name=_one_of("kitchen", "living_room", "bedroom", "bathroom"),
            brightness_percent={"type": "integer", "minimum": 0, "maximum": 100},
            color_temperature=_one_of("warm_white", "neutral_white", "cold_white"),
            transition_seconds={"type": "integer", "minimum": 0, "maximum": 60},
        ),
    ),
    Case(
        style="function call",
        question="Find flights from Rome to Lisbon for two adults, economy, cheapest first.",
        schema=_call(
            "search_available_flights",
            departure_city=TEXT,
            destination_city=TEXT,
            number_of_adults={"type": "integer", "minimum": 1, "maximum": 9},
            cabin_class=_one_of("economy", "premium_economy", "business", "first"),
            sort_results_by=_one_of("price", "duration", "departure_time"),
        ),
    ),
    _extract(
        "invoice_number: INV-2024-00917; customer_name: Hartmann Metallbau GmbH; "
        "billing_street: Industriestrasse 14; billing_city: Regensburg; currency: EUR; total_amount: 4180",
        invoice_number=TEXT,
        customer_name=TEXT,
        billing_street=TEXT,
        billing_city=TEXT,
        currency=TEXT,
        total_amount=NUMBER,
    ),
    _extract(
        "patient_name: Margarethe Lindqvist; date_of_birth: 1958-03-22; attending_physician: Dr. Okonkwo; "
        "department: Cardiology; room_number: 412; diagnosis_code: I25.10",
        patient_name=TEXT,
        date_of_birth=TEXT,
        attending_physician=TEXT,
        department=TEXT,
        room_number=NUMBER,
        diagnosis_code=TEXT,
    ),
    _extract(
        "product_title: Cordless Hammer Drill 18 V; manufacturer: Northfield Tools; article_number: NT-44871-B; "
        "warehouse_location: Hall 3, Shelf 27; units_in_stock: 136; unit_price: 149",
        product_title=TEXT,
        manufacturer=TEXT,
        article_number=TEXT,
        warehouse_location=TEXT,
        units_in_stock=NUMBER,
        unit_price=NUMBER,
    ),
    _extract(
        "employee_name: Tobias van der Meulen; employee_number: E-20931; job_title: Senior Process Engineer; "
        "cost_center: CC-5520 Refinery; office_location: Rotterdam Building C; supervisor: Ingrid Halvorsen",
        employee_name=TEXT,
        employee_number=TEXT,
        job_title=TEXT,
        cost_center=TEXT,
        office_location=TEXT,
        supervisor=TEXT,
    ),
)
