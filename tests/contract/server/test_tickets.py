"""The worked example from the HTTP body to the typed answer, and conversations around it."""

from __future__ import annotations

import json
import threading

from appliance.server.own.tickets import TicketAnswer
from tests.live_server import LiveServer


def test_a_ticket_becomes_a_typed_value_and_a_stored_turn(server: LiveServer) -> None:
    with server.client() as client:
        first = client.post(
            "/v1/tickets/classify", json={"text": "You charged me twice!", "model": "scripted:ticket"}
        )
        answer = TicketAnswer.model_validate_json(first.content)
        again = client.post(
            "/v1/tickets/classify",
            json={
                "text": "Any news?",
                "conversation_id": answer.conversation_id,
                "model": "scripted:ticket",
            },
        )
        shown = client.get(f"/v1/conversations/{answer.conversation_id}").json()

    assert (answer.ticket.category, answer.ticket.needs_human) == ("billing", True)
    assert again.json()["conversation_id"] == answer.conversation_id
    assert [turn["role"] for turn in shown["turns"]] == ["user", "assistant", "user", "assistant"]
    assert shown["turns"][0]["text"] == "You charged me twice!"
    assert '"billing"' in shown["turns"][1]["text"]
    assert {turn["state"] for turn in shown["turns"]} == {"done"}


def test_a_ticket_that_cannot_be_classified_is_kept_with_why(server: LiveServer) -> None:
    with server.client() as client:
        begun = client.post("/v1/conversations", json={"title": "Tickets"}).json()
        failed = client.post(
            "/v1/tickets/classify",
            json={"text": "Help", "conversation_id": begun["id"], "model": "scripted:greet"},
        )
        shown = client.get(f"/v1/conversations/{begun['id']}").json()

    assert failed.status_code == 502
    assert failed.json()["error"]["code"] == "malformed_output"
    assert [turn["state"] for turn in shown["turns"]] == ["done", "failed"]


def test_a_conversation_is_begun_asked_found_and_deleted(server: LiveServer) -> None:
    with server.client() as client:
        begun = client.post("/v1/conversations", json={"instructions": "Be brief."})
        place = f"/v1/conversations/{begun.json()['id']}"
        answer = client.post(f"{place}/messages", json={"content": "a quokka, hello"})
        found = client.get("/v1/conversations/search", params={"q": "quokka"}).json()
        deleted = client.delete(place)
        gone = client.get(place)

    assert begun.status_code == 201
    assert answer.json()["content"] == "Good morning to you."
    assert {hit["chat_id"] for hit in found["hits"]} == {begun.json()["id"]}
    assert deleted.status_code == 200
    assert gone.status_code == 404


def test_a_streamed_message_is_stored_as_it_was_streamed(server: LiveServer) -> None:
    with server.client() as client:
        place = f"/v1/conversations/{client.post('/v1/conversations', json={}).json()['id']}"
        answer = client.post(f"{place}/messages", json={"content": "hello", "stream": True})
        turns = client.get(place).json()["turns"]
        missing = client.post("/v1/conversations/none/messages", json={"content": "hello", "stream": True})

    events = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    deltas = [json.loads(lines[1][6:])["text"] for lines in events if lines[0] == "event: delta"]
    assert "".join(deltas) == turns[1]["text"] == "Good morning to you."
    assert turns[1]["reasoning"] == "Be kind."
    assert events[-1][0] == "event: answer"
    assert json.loads(events[-1][1][6:])["content"] == "Good morning to you."
    assert missing.status_code == 404


def test_what_came_before_a_client_left_is_kept(server: LiveServer) -> None:
    with server.client() as client:
        place = f"/v1/conversations/{client.post('/v1/conversations', json={}).json()['id']}"
        body = {"content": "hello", "stream": True, "model": "scripted:endless"}
        with client.stream("POST", f"{place}/messages", json=body) as answer:
            lines = answer.iter_lines()
            next(line for line in lines if "begun" in line)
            busy = client.post(f"{place}/messages", json={"content": "and?"})
        waited = threading.Event()
        turns = client.get(place).json()["turns"]
        while len(turns) < 2 or turns[1]["state"] == "partial":
            waited.wait(0.01)
            turns = client.get(place).json()["turns"]

    assert busy.status_code == 409
    assert (turns[1]["state"], turns[1]["text"]) == ("stopped", "begun ")


def test_a_question_that_does_not_fit_is_kept_with_why(server: LiveServer) -> None:
    with server.client() as client:
        for is_streamed in (False, True):
            place = f"/v1/conversations/{client.post('/v1/conversations', json={}).json()['id']}"
            body = {"content": "word " * 40, "model": "scripted:tiny", "stream": is_streamed}
            refused = client.post(f"{place}/messages", json=body)
            turns = client.get(place).json()["turns"]

            assert refused.json()["error"]["code"] == "context_length_exceeded"
            assert [turn["state"] for turn in turns] == ["done", "failed"]
