"""The one door to every model: route, admit, keep deadlines, retry, judge; events or a typed result."""

from appliance.gateway.cascade import Grader
from appliance.gateway.gateway import FormatCost, Gateway, GatewayPolicy

__all__ = ["FormatCost", "Gateway", "GatewayPolicy", "Grader"]
