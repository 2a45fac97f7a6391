"""Sends spans to an OpenTelemetry collector over OTLP/HTTP."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import httpx
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from appliance import __version__
from appliance.core.addresses import ServerAddress
from appliance.core.errors import ProviderUnavailableError
from appliance.telemetry.spans import SpanRecord

_TIMEOUT_S = 5.0
_PATH = "/v1/traces"
_LISTED = "gen_ai.response.finish_reasons"

_log = logging.getLogger(__name__)


class OtlpExporter:
    """Posts spans; no proxy of the environment is used and no redirect is followed."""

    def __init__(self, address: ServerAddress) -> None:
        self._url = address.url if address.url.endswith(_PATH) else address.url + _PATH
        self._client = httpx.Client(timeout=_TIMEOUT_S, trust_env=False, follow_redirects=False)
        self._resource = Resource({"service.name": "appliance", "service.version": __version__})
        self._scope = InstrumentationScope("appliance", __version__)

    def export(self, records: Sequence[SpanRecord]) -> None:
        """Send records.

        Raises:
            ProviderUnavailableError: the collector did not take them.
        """
        body = encode_spans([self._span(record) for record in records]).SerializeToString()
        try:
            answer = self._client.post(
                self._url, content=body, headers={"Content-Type": "application/x-protobuf"}
            )
        except httpx.HTTPError as exc:
            raise ProviderUnavailableError(f"the collector at {self._url} cannot be reached: {exc}") from exc
        if answer.status_code != httpx.codes.OK:
            raise ProviderUnavailableError(f"the collector at {self._url} answered {answer.status_code}")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _span(self, record: SpanRecord) -> ReadableSpan:
        attributes: dict[str, str | bool | int | float | list[str]] = dict(record.attributes)
        if isinstance(reason := attributes.get(_LISTED), str):
            attributes[_LISTED] = [reason]
        attributes |= {f"appliance.content.{name}": text for name, text in record.content.items()}
        attributes |= {"enduser.id": record.owner, "appliance.request_id": record.request_id}
        return ReadableSpan(
            record.name,
            context=_context(record.trace_id, record.span_id),
            parent=_context(record.trace_id, record.parent_id) if record.parent_id else None,
            resource=self._resource,
            attributes=attributes,
            kind=SpanKind.CLIENT if record.name == "attempt" else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if record.status == "error" else StatusCode.UNSET),
            start_time=record.start_ns,
            end_time=record.start_ns + record.duration_ns,
            instrumentation_scope=self._scope,
        )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
