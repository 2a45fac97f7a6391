"""The one door to every model: route, deadlines, and events or a typed result."""

from appliance.gateway.gateway import FormatCost, Gateway

__all__ = ["FormatCost", "Gateway"]
