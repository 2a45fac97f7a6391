"""Spans reach a collector as OTLP when that is allowed, and no byte leaves when it is not."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from appliance.config import load_settings
from appliance.core.errors import ConfigError, PolicyRejectionError
from appliance.telemetry import open_telemetry


class Collector(HTTPServer):
    """Keeps what is posted to it, by path."""

    def __init__(self, status: int) -> None:
        self.posted: list[tuple[str, bytes]] = []
        self.status = status
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, body))
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    server = Collector(getattr(request, "param", 200))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_trace_arrives_with_its_ids_tree_and_facts(collector: Collector, tmp_path: Path) -> None:
    flags = {"otlp_endpoint": collector.url, "trace_days": 0, "state_dir": tmp_path}
    telemetry = open_telemetry(load_settings(flags))

    with telemetry.span("request", request_id="ab" * 16, owner="ada") as request:
        request.child("attempt", {"gen_ai.response.finish_reasons": "stop", "appliance.tools": 2}).end()
    telemetry.close()

    ((path, body),) = collector.posted
    assert path == "/v1/traces"
    spans = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
    attempt, root = spans
    assert {span.trace_id.hex() for span in spans} == {"ab" * 16}
    assert (root.name, root.parent_span_id, attempt.parent_span_id) == ("request", b"", root.span_id)
    facts = {attribute.key: attribute.value for attribute in attempt.attributes}
    assert facts["gen_ai.response.finish_reasons"].array_value.values[0].string_value == "stop"
    assert facts["appliance.tools"].int_value == 2
    assert facts["enduser.id"].string_value == "ada"
    assert not (tmp_path / "traces.db").exists()


@pytest.mark.parametrize("collector", [302, 503], indirect=True)
def test_a_collector_that_refuses_or_redirects_loses_spans_and_is_asked_once(
    collector: Collector, tmp_path: Path
) -> None:
    telemetry = open_telemetry(load_settings({"otlp_endpoint": collector.url, "state_dir": tmp_path}))

    telemetry.span("request").end()
    telemetry.close()

    assert len(collector.posted) == 1
    assert "appliance_spans_dropped_total 1.0" in telemetry.metrics.render()


@pytest.mark.parametrize("flags", [{}, {"otlp_allow": True, "offline": True}])
def test_a_collector_on_another_machine_needs_permission_and_is_refused_offline(
    flags: dict[str, bool], tmp_path: Path
) -> None:
    settings = load_settings({"otlp_endpoint": "http://192.168.1.9:4318", "state_dir": tmp_path, **flags})

    with pytest.raises(PolicyRejectionError, match=r"192\.168\.1\.9"):
        open_telemetry(settings)


def test_an_endpoint_that_is_no_url_is_a_setting_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        open_telemetry(load_settings({"otlp_endpoint": "collector:4318", "state_dir": tmp_path}))
