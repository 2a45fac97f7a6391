"""Settings, read once and frozen: flag over `APPLIANCE_*` environment over TOML file over default.

Every setting remembers where its value came from, so that a screen can show it. The file is
`$APPLIANCE_CONFIG`, or `appliance/config.toml` under the XDG configuration folder.
"""

from appliance.config.limits import Limits, Quota
from appliance.config.prices import PriceTable, TokenPrice
from appliance.config.reader import ResolvedSetting, Scalar, SourceKind
from appliance.config.retry import RetryPolicy
from appliance.config.routes import Route, RouteCandidate
from appliance.config.settings import FlashAttention, KvType, LogLevel, Settings, load_settings

__all__ = [
    "FlashAttention",
    "KvType",
    "Limits",
    "LogLevel",
    "PriceTable",
    "Quota",
    "ResolvedSetting",
    "RetryPolicy",
    "Route",
    "RouteCandidate",
    "Scalar",
    "Settings",
    "SourceKind",
    "TokenPrice",
    "load_settings",
]
