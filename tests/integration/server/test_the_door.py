"""Closed by default: every route refuses a wrong host, page, token, kind of body and size, before it does anything."""

from __future__ import annotations

import json
import re
import time

import pytest

from appliance.server.guard import OPEN_PATHS
from appliance.server.http import build_routes
from appliance.server.problems import status_table
from appliance.server.teams.tokens import Tokens
from tests.live_server import LiveServer

CHAT = {"messages": [{"role": "user", "content": "hello"}]}


def routes(server: LiveServer) -> list[tuple[str, str]]:
    """Every method and path there is, taken from the application, not from a list."""
    paths = build_routes(server.services).openapi()["paths"]
    return [
        (method.upper(), re.sub(r"\{[^}]*\}", "x", path))
        for path, methods in paths.items()
        for method in methods
    ]


def test_there_are_routes_to_try(server: LiveServer) -> None:
    found = routes(server)

    assert ("POST", "/v1/chat/completions") in found
    assert ("DELETE", "/v1/admin/users/x") in found
    assert len(found) > 35


def test_every_route_but_health_needs_a_token(server: LiveServer) -> None:
    for token in ("", "nonsense", server.token[:-1]):
        with server.client(token) as client:
            for method, path in routes(server):
                answer = client.request(method, path, json={} if method in ("POST", "PUT") else None)
                expected = (200, 503) if path in OPEN_PATHS else (401,)
                assert answer.status_code in expected, (method, path)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"host": "evil.example"}, id="host"),
        pytest.param({"host": "127.0.0.1.evil.example"}, id="longer host"),
        pytest.param({"host": "localhost@evil.example"}, id="host with user"),
        pytest.param({"host": ""}, id="no host"),
        pytest.param({"origin": "https://evil.example"}, id="origin"),
        pytest.param({"origin": "null"}, id="null origin"),
        pytest.param({"origin": "http://localhost:8427"}, id="origin of the server itself"),
    ],
)
def test_every_route_refuses_strangers(server: LiveServer, headers: dict[str, str]) -> None:
    with server.client() as client:
        for method, path in routes(server):
            answer = client.request(
                method, path, headers=headers, json={} if method in ("POST", "PUT") else None
            )
            assert answer.status_code == 403, (method, path, answer.text)


def test_a_body_that_is_no_json_is_refused_everywhere(server: LiveServer) -> None:
    with server.client() as client:
        for method, path in routes(server):
            if method not in ("POST", "PUT"):
                continue
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
                answer = client.request(method, path, content=b"{}", headers={"content-type": kind})
                assert answer.status_code == 415, (path, kind)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param('{"messages": [], "temperature": NaN}', id="NaN"),
        pytest.param('{"temperature": -Infinity}', id="Infinity"),
        pytest.param('{"temperature": 1e999}', id="beyond a double"),
        pytest.param('{"model": "a", "model": "b"}', id="a name twice"),
        pytest.param('{"model": "\\ud800"}', id="half a surrogate pair"),
        pytest.param("[" * 100_000, id="an abyss"),
        pytest.param("[" * 100 + "]" * 100, id="deep"),
        pytest.param('{"n": ' + "9" * 5_000 + "}", id="endless integer"),
        pytest.param("", id="nothing"),
        pytest.param(b"\xff\xfe{}", id="no UTF-8"),
    ],
)
def test_json_that_parsers_read_differently_is_refused(server: LiveServer, body: str | bytes) -> None:
    with server.client() as client:
        answer = client.post(
            "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
        )

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_json"


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        pytest.param({**CHAT, "foo": 1}, "foo", "unknown_parameter", id="unknown"),
        pytest.param({"messages": []}, "messages", "invalid_value", id="empty"),
        pytest.param({}, "messages", "missing_required_parameter", id="missing"),
        pytest.param({**CHAT, "temperature": "hot"}, "temperature", "invalid_value", id="text for a number"),
        pytest.param({**CHAT, "n": 1_000_000}, "n", "invalid_value", id="a million answers"),
        pytest.param({**CHAT, "stream": "yes"}, "stream", "invalid_value", id="text for a truth"),
        pytest.param({**CHAT, "logit_bias": {"cat": 1}}, "logit_bias", "invalid_value", id="bias of a word"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0]",
            "unsupported_content",
            id="picture",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": "hi", "role2": 1}]},
            "messages[0].role2",
            "unknown_parameter",
            id="unknown inside",
        ),
        pytest.param(
            {"messages": [{"role": "tool", "content": "x", "tool_call_id": "c"}]},
            "messages[0].tool_call_id",
            "invalid_value",
            id="result of no call",
        ),
    ],
)
def test_a_wrong_field_is_named(server: LiveServer, body: dict[str, object], param: str, code: str) -> None:
    with server.client() as client:
        answer = client.post("/v1/chat/completions", json=body)

    assert answer.status_code == 400
    assert (answer.json()["error"]["param"], answer.json()["error"]["code"]) == (param, code)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "./a.gguf",
        "../a",
        "~root/a.gguf",
        "~Þ",
        "file:///etc/passwd",
        "a.gguf",
        "C:\\a",
        "x/y.gguf",
    ],
)
def test_a_file_of_the_machine_is_no_model_for_the_network(server: LiveServer, name: str) -> None:
    asked: list[tuple[str, dict[str, object]]] = [
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", {"prompt": "x"}),
        ("/v1/responses", {"input": "x"}),
        ("/v1/embeddings", {"input": "x"}),
        ("/v1/rerank", {"query": "x", "documents": ["x"]}),
        ("/v1/answers", {"question": "x"}),
        ("/v1/tickets/classify", {"text": "x"}),
        ("/tokenize", {"content": "x"}),
    ]
    with server.client() as client:
        answers = [client.post(path, json={**body, "model": name}) for path, body in asked]
        answers.append(client.get(f"/v1/models/{name}"))

    assert {answer.status_code for answer in answers} == {404}
    codes = {answer.json()["error"]["code"] for answer in answers[:-1]}
    assert codes == {"model_not_found"}


def test_the_default_model_has_a_name_of_its_own(server: LiveServer) -> None:
    with server.client() as client:
        answer = client.post("/v1/chat/completions", json={**CHAT, "model": "default"})

    assert answer.json()["model"] == "scripted:greet"


def test_too_large_a_body_is_refused_with_and_without_a_stated_length(server: LiveServer) -> None:
    large = b'{"model": "' + b"x" * (9 << 20) + b'"}'
    with server.client() as client:
        stated = client.post(
            "/v1/chat/completions", content=large, headers={"content-type": "application/json"}
        )
        counted = client.post(
            "/v1/chat/completions", content=iter([large]), headers={"content-type": "application/json"}
        )

    assert (stated.status_code, counted.status_code) == (413, 413)
    assert stated.json()["error"]["code"] == "request_too_large"


def test_tokens_end_when_they_expire_are_revoked_or_their_user_goes(server: LiveServer) -> None:
    services = server.services
    user = services.users.add("brief", actor="test")
    earlier = Tokens(services.database, now_s=lambda: time.time() - 100)
    expired = earlier.create(user, actor="test", lifetime_s=99.0).text
    lasting = earlier.create(user, actor="test", lifetime_s=1_000.0).text
    revoked = services.tokens.create(user, actor="test")
    removed = services.tokens.create(user, actor="test").text

    def status(token: str) -> int:
        with server.client(token) as client:
            return client.get("/v1/models").status_code

    assert [status(token) for token in (removed, revoked.text, lasting, expired)] == [200, 200, 200, 401]
    services.tokens.revoke(revoked.record.id, actor="test")
    assert status(revoked.text) == 401
    services.users.remove("brief", actor="test")
    assert status(removed) == 401


def test_a_token_may_do_what_its_scopes_say(server: LiveServer) -> None:
    token = server.token_of("chatter", scopes=("chat",))
    with server.client(token) as client:
        chat = client.post("/v1/chat/completions", json=CHAT)
        documents = client.get("/v1/documents")
        both = client.post("/v1/answers", json={"question": "x"})

    assert chat.status_code == 200
    assert (documents.status_code, both.status_code) == (403, 403)
    assert documents.json()["error"]["code"] == "missing_scope"


def test_refused_tokens_are_counted_in_the_audit_log_and_never_written_there(server: LiveServer) -> None:
    secret = "apl_000000000000_TheSecretThatWasTried"
    with server.client(secret) as client:
        for _ in range(20):
            client.get("/v1/models")

    entries = [entry for entry in server.services.audit.entries() if entry.action == "authentication.refused"]
    assert 1 <= len(entries) < 20
    assert "TheSecretThatWasTried" not in json.dumps([entry.subject for entry in entries])


def test_the_open_paths_say_nothing_but_health(server: LiveServer) -> None:
    with server.client("") as client:
        assert client.get("/health").json()["status"] == "ok"
        assert client.get("/ready").json() == {"status": "ready", "reason": ""}


def test_each_kind_of_failure_has_a_status_of_an_error() -> None:
    assert status_table()["context_overflow"] == 400
    assert status_table()["rate_limited"] == 429
    assert all(400 <= status < 600 for status in status_table().values())


def test_there_is_no_page_that_loads_scripts_from_elsewhere(server: LiveServer) -> None:
    with server.client() as client:
        assert {client.get(path).status_code for path in ("/docs", "/redoc", "/")} == {404}
        assert client.get("/openapi.json").status_code == 200


def test_a_token_without_scopes_of_a_route_gets_nowhere(server: LiveServer) -> None:
    with server.client(server.token_of("nobody", scopes=("metrics",), role="admin")) as client:
        for method, path in routes(server):
            if path in (*OPEN_PATHS, "/metrics"):
                continue
            answer = client.request(method, path, json={} if method in ("POST", "PUT") else None)
            assert answer.status_code in (403, 415), (method, path, answer.status_code)


def test_answers_are_not_kept_by_caches(server: LiveServer) -> None:
    with server.client() as client:
        answer = client.post("/v1/chat/completions", json=CHAT)

    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
