"""The one door to every model: route, deadlines, and events or a typed result."""

from appliance.gateway.gateway import Gateway

__all__ = ["Gateway"]
