"""Builds telemetry as the settings ask for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from appliance.config import Settings
from appliance.core.addresses import ServerAddress, check_may_send, server_address
from appliance.core.ports import Clock
from appliance.telemetry.logs import attach_logs
from appliance.telemetry.metrics import Metrics
from appliance.telemetry.telemetry import Telemetry
from appliance.telemetry.writer import Exporter, SpanWriter

LOGS_FOLDER = "logs"


def open_telemetry(settings: Settings, clock: Clock | None = None) -> Telemetry:
    """Build telemetry. No file is opened before the first span or log line; nothing is sent unless allowed.

    Raises:
        ConfigError: `otlp_endpoint` is no usable URL.
        PolicyRejectionError: spans are to be sent to another machine, which is not allowed.
    """
    metrics = Metrics()
    openers = _openers(settings)
    return Telemetry(
        clock,
        metrics=metrics,
        sink=SpanWriter(openers, metrics.spans_dropped) if openers else None,
        content_owners=frozenset(
            name.strip() for name in settings.trace_content_owners.split(",") if name.strip()
        ),
        log_handler=attach_logs(settings.state_dir / LOGS_FOLDER, settings.log_level),
    )


def _openers(settings: Settings) -> list[Callable[[], Exporter]]:
    openers: list[Callable[[], Exporter]] = []
    if settings.trace_days and settings.trace_disk_bytes:
        openers.append(partial(_open_store, settings))
    if settings.otlp_endpoint:
        address = server_address(settings.otlp_endpoint)
        check_may_send(
            address,
            purpose="otlp_endpoint",
            permission="otlp_allow",
            is_allowed=settings.otlp_allow,
            is_offline=settings.offline,
        )
        openers.append(partial(_open_otlp, address))
    return openers


def _open_store(settings: Settings) -> Exporter:
    from appliance.telemetry.trace_store import TRACES_FILE, TraceStore

    return TraceStore(
        settings.state_dir / TRACES_FILE,
        keep_days=settings.trace_days,
        keep_bytes=settings.trace_disk_bytes,
    )


def _open_otlp(address: ServerAddress) -> Exporter:
    from appliance.telemetry.otlp import OtlpExporter

    return OtlpExporter(address)
