"""Limits reach the client as 429 with when to come back, and a stored answer is its owner's alone."""

from __future__ import annotations

from pathlib import Path

import httpx
import openai
import pytest

from tests.live_server import live_server

CHAT = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0}


def test_a_limit_of_requests_is_told_with_when_to_come_back(tmp_path: Path) -> None:
    config = "[limits.owner]\nrequests_per_minute = 2\nqueue = 0\n"
    with live_server(tmp_path, config=config) as server, server.client() as client:
        statuses = [client.post("/v1/chat/completions", json=CHAT).status_code for _ in range(3)]
        refused = client.post("/v1/chat/completions", json={**CHAT, "stream": True})
        with server.client(server.token_of("other")) as other:
            neighbour = other.post("/v1/chat/completions", json=CHAT)
        official = openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=0)
        with pytest.raises(openai.RateLimitError) as caught:
            official.chat.completions.create(model="scripted:greet", messages=CHAT["messages"])
        official.close()

    assert statuses == [200, 200, 429]
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["x-should-retry"] == "true"
    assert neighbour.status_code == 200
    assert caught.value.code == "rate_limit_exceeded"


def test_a_stored_answer_is_given_again_to_its_owner_and_to_nobody_else(tmp_path: Path) -> None:
    def is_from_cache(client: httpx.Client) -> bool:
        receipt = client.post("/v1/chat/completions", json=CHAT).json()["appliance"]
        stored: bool = receipt["is_from_cache"]
        return stored

    with (
        live_server(tmp_path, response_cache=True) as server,
        server.client(server.token_of("a")) as a,
        server.client(server.token_of("b")) as b,
    ):
        seen = [is_from_cache(a), is_from_cache(a), is_from_cache(b), is_from_cache(b)]
        a.post("/v1/forget", json={"everything": True}).raise_for_status()
        forgotten, kept = is_from_cache(a), is_from_cache(b)

    assert seen == [False, True, False, True]
    assert (forgotten, kept) == (False, True)


def test_routes_and_declared_models_of_other_servers_are_listed_and_a_route_answers(tmp_path: Path) -> None:
    config = (
        '[routes.support]\ncandidates = [{model = "scripted:greet"}]\n'
        '[providers.far]\nurl = "http://127.0.0.1:9"\n[[providers.far.models]]\nname = "big.gguf"\n'
    )
    with live_server(tmp_path, config=config) as server, server.client() as client:
        listed = [model["id"] for model in client.get("/v1/models").json()["data"]]
        answer = client.post("/v1/chat/completions", json={**CHAT, "model": "support"}).json()
        far = client.post("/v1/chat/completions", json={**CHAT, "model": "far/big.gguf"})

    assert {"support", "far/big.gguf"} <= set(listed)
    assert answer["model"] == "scripted:greet"
    assert [attempt["model"] for attempt in answer["appliance"]["attempts"]] == ["scripted:greet"]
    assert far.status_code == 503
