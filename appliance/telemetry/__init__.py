"""Traces, metrics and logs of what the appliance does: numbers and names, never what was asked or answered."""

from appliance.telemetry.gen_ai import ending_attributes, request_attributes
from appliance.telemetry.metrics import Metrics, RequestLabels
from appliance.telemetry.opening import open_telemetry
from appliance.telemetry.spans import Attributes, AttributeValue, Span
from appliance.telemetry.telemetry import Telemetry

__all__ = [
    "AttributeValue",
    "Attributes",
    "Metrics",
    "RequestLabels",
    "Span",
    "Telemetry",
    "ending_attributes",
    "open_telemetry",
    "request_attributes",
]
