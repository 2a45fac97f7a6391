"""Conversations over HTTP are prepared as chats are: long ones fold, facts of their owner are told."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from appliance.app import open_facts
from tests.conftest import EMBEDDER, stored_model
from tests.live_server import LiveServer, live_server

LONG = "word " * 1_400


def begun(client: httpx.Client) -> str:
    return str(client.post("/v1/conversations", json={"instructions": "Be brief."}).json()["id"])


def asked(client: httpx.Client, chat_id: str, content: str) -> httpx.Response:
    body = {"content": content, "max_tokens": 200}
    return client.post(f"/v1/conversations/{chat_id}/messages", json=body)


def test_a_conversation_that_grows_too_long_folds_and_says_so(tmp_path: Path) -> None:
    with live_server(tmp_path, memory="sliding_window") as server, server.client() as client:
        chat_id = begun(client)
        answers = [asked(client, chat_id, f"{number}: {LONG}") for number in range(4)]
        shown = client.get(f"/v1/conversations/{chat_id}").json()

    assert [answer.status_code for answer in answers] == [200] * 4
    assert answers[0].json()["note"] == ""
    assert "earlier turns" in answers[3].json()["note"]
    last = answers[3].json()
    assert last["usage"]["prompt_tokens"] < 4096
    assert last["appliance"]["prompt"]["conversation_memory"]["policy"] == "sliding_window"
    assert last["appliance"]["prompt"]["conversation_memory"]["folded_turns"] > 0
    assert len(shown["turns"]) == 8


def test_what_is_folded_is_summarised_by_the_model_that_answers(tmp_path: Path) -> None:
    with live_server(tmp_path, memory="hybrid") as server, server.client() as client:
        chat_id = begun(client)
        last = [asked(client, chat_id, f"{number}: {LONG}") for number in range(4)][-1].json()
        branch = server.services.conversations_of("local").turns.shown_branch(chat_id)
        sent = server.services.conversations_of("local").turns.request_of(branch[-1].id)

    assert last["appliance"]["prompt"]["conversation_memory"]["summarised_turns"] > 0
    assert sent is not None
    assert any("Good morning to you." in message.text for message in sent.messages)


def test_with_full_memory_nothing_is_left_out_and_too_much_is_refused(tmp_path: Path) -> None:
    with live_server(tmp_path, memory="full") as server, server.client() as client:
        chat_id = begun(client)
        answers = [asked(client, chat_id, f"{number}: {LONG}") for number in range(4)]

    assert [answer.status_code for answer in answers] == [200, 200, 400, 400]
    assert answers[2].json()["error"]["code"] == "context_length_exceeded"


def test_a_stream_ends_with_the_same_receipt(tmp_path: Path) -> None:
    with live_server(tmp_path, memory="sliding_window") as server, server.client() as client:
        chat_id = begun(client)
        for number in range(3):
            asked(client, chat_id, f"{number}: {LONG}")
        body = {"content": f"3: {LONG}", "max_tokens": 200, "stream": True}
        text = client.post(f"/v1/conversations/{chat_id}/messages", json=body).text

    events = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    assert "earlier turns" in json.loads(events[-1])["note"]


@pytest.mark.parametrize(("facts", "is_told"), [("ask", True), ("off", False)])
def test_confirmed_facts_are_told_to_the_model_of_their_owner_alone(
    tmp_path: Path, facts: str, is_told: bool
) -> None:
    stored_model(EMBEDDER)
    with live_server(tmp_path, facts=facts) as server:
        user = server.services.users.add("ann", "member", actor="test")
        token = server.services.tokens.create(user, actor="test").text
        settings = server.services.appliance.settings
        open_facts(settings, server.services.database, owner=user.id).add("I keep a quagga.")
        told = {}
        for owner, key in ((user.id, token), ("local", server.token)):
            with server.client(key) as client:
                told[owner] = sent_in(server, owner, client)

    assert ("quagga" in told[user.id]) == is_told
    assert "quagga" not in told["local"]


def sent_in(server: LiveServer, owner: str, client: httpx.Client) -> str:
    """Ask something and return everything that was sent to the model."""
    chat_id = begun(client)
    asked(client, chat_id, "What do I keep?")
    turns = server.services.conversations_of(owner).turns
    sent = turns.request_of(turns.shown_branch(chat_id)[-1].id)
    assert sent is not None
    return " ".join(message.text for message in sent.messages)
