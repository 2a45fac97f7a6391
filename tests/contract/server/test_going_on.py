"""Answers that go on inside an open turn: the fields of vLLM for OpenAI clients, and the route of conversations."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from tests.live_server import LiveServer

ASKED = {"role": "user", "content": "Hello"}
SO_FAR = {"role": "assistant", "content": "Good morning"}
GOING_ON = {"continue_final_message": True, "add_generation_prompt": False}


def begun(client: httpx.Client) -> str:
    return str(client.post("/v1/conversations", json={}).json()["id"])


def asked(client: httpx.Client, chat_id: str, **body: object) -> httpx.Response:
    return client.post(f"/v1/conversations/{chat_id}/messages", json={"content": "Hello", **body})


def test_the_official_client_goes_on_inside_the_last_message(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="scripted:greet",
        messages=[ASKED, SO_FAR],  # type: ignore[list-item]
        extra_body=GOING_ON,
    )

    assert answer.choices[0].message.content == " to you."


def test_tokens_are_counted_as_the_prompt_that_goes_on_has_them(server: LiveServer) -> None:
    with server.client() as client:
        body = {"model": "scripted:greet", "messages": [ASKED, SO_FAR], **GOING_ON}
        counted = client.post("/tokenize", json=body).json()["count"]
        answered = client.post("/v1/chat/completions", json=body).json()

    assert counted == answered["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    "body, told",
    [
        ({"messages": [ASKED, SO_FAR]}, "continue_final_message"),
        ({"messages": [ASKED], **GOING_ON}, "only a turn of the assistant"),
        ({"messages": [ASKED, {"role": "assistant", "content": ""}], **GOING_ON}, "no text to go on with"),
        (
            {
                "messages": [ASKED, SO_FAR],
                "continue_final_message": True,
                "add_generation_prompt": True,
            },
            "cannot both be true",
        ),
        ({"messages": [ASKED], "add_generation_prompt": False}, "only be false together"),
        (
            {"messages": [ASKED, SO_FAR], "response_format": {"type": "json_object"}, **GOING_ON},
            "output format",
        ),
    ],
)
def test_what_cannot_go_on_is_refused_with_the_way_out(
    server: LiveServer, body: dict[str, object], told: str
) -> None:
    with server.client() as client:
        refused = client.post("/v1/chat/completions", json={"model": "scripted:greet", **body})

    assert refused.status_code == 400
    assert told in refused.text


def test_a_conversation_goes_on_with_its_last_answer_and_keeps_one_turn_of_it(server: LiveServer) -> None:
    with server.client() as client:
        chat_id = begun(client)
        cut = asked(client, chat_id, model="scripted:slow", max_tokens=2).json()
        whole = client.post(f"/v1/conversations/{chat_id}/continue", json={"model": "scripted:slow"}).json()
        turns = client.get(f"/v1/conversations/{chat_id}").json()["turns"]
        again = client.post(f"/v1/conversations/{chat_id}/continue", json={})

    assert (cut["content"], cut["finish_reason"]) == ("one two", "length")
    assert whole["added"] == " three four five six seven eight nine ten"
    assert whole["content"] == cut["content"] + whole["added"]
    assert whole["appliance"]["prompt"]["total_tokens"] == whole["usage"]["prompt_tokens"]
    assert [(turn["role"], turn["text"]) for turn in turns] == [
        ("user", "Hello"),
        ("assistant", whole["content"]),
    ]
    assert turns[-1]["finish_reason"] == "stop"
    assert again.status_code == 400
    assert "the model ended it itself" in again.text


def test_a_streamed_rest_holds_only_what_is_new(server: LiveServer) -> None:
    with server.client() as client:
        chat_id = begun(client)
        asked(client, chat_id, max_tokens=3)
        streamed = client.post(f"/v1/conversations/{chat_id}/continue", json={"stream": True}).text

    frames = [frame.splitlines() for frame in streamed.strip().split("\n\n")]
    events = [
        (frame[0].removeprefix("event: "), json.loads(frame[1].removeprefix("data: "))) for frame in frames
    ]
    assert "".join(data["text"] for kind, data in events if kind == "delta") == " morning to you."
    assert events[-1][0] == "answer"
    assert events[-1][1]["content"] == "Good morning to you."


def test_going_on_where_nothing_was_answered_is_refused(server: LiveServer) -> None:
    with server.client() as client:
        empty = client.post(f"/v1/conversations/{begun(client)}/continue", json={})
        unknown = client.post("/v1/conversations/nobody/continue", json={})

    assert (empty.status_code, unknown.status_code) == (400, 404)
    assert "nothing was answered" in empty.text
