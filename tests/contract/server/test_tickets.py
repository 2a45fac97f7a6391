"""The worked example from the HTTP body to the typed answer, and conversations around it."""

from __future__ import annotations

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
