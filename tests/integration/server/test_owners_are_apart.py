"""User B never sees anything of user A: no chat, document, search hit, cached prefix, count or error that tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from appliance.prompts.experiment import Arm, Experiment
from appliance.prompts.outcomes import OUTCOMES_FILE, Outcomes
from appliance.server.http import build_routes
from tests.live_server import LiveServer

TRIAL = Experiment(id="greeting", arms=(Arm(name="a", prompt_id="greet", version="1"),))
CANARY = "zyzzogeton"
SECRET = f"The {CANARY} contract is worth 48 million and ends in March. Ada Byron signed it in Turin."


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two users: what A stored, and clients of both."""

    a: httpx.Client
    b: httpx.Client
    chat_id: str
    document_id: str


@pytest.fixture(scope="module")
def pair(server: LiveServer) -> Iterator[Pair]:
    """A has a document and a conversation with the canary; B has other ones."""
    with server.client(server.token_of("a")) as a, server.client(server.token_of("b")) as b:
        added = upload(a, "secret", "contract.txt", SECRET)
        upload(b, "mine", "recipe.txt", "Boil the beans for an hour. Add salt at the end.")
        chat = a.post("/v1/conversations", json={"title": f"about {CANARY}"}).json()
        a.post(f"/v1/conversations/{chat['id']}/messages", json={"content": f"who signed the {CANARY}?"})
        yield Pair(a=a, b=b, chat_id=chat["id"], document_id=added["id"])


def upload(client: httpx.Client, collection: str, name: str, text: str) -> dict[str, str]:
    answer = client.post(
        f"/v1/collections/{collection}/documents",
        params={"name": name},
        content=text.encode(),
        headers={"content-type": "application/octet-stream"},
    )
    assert answer.status_code == 201, answer.text
    added: dict[str, str] = answer.json()
    return added


def test_the_owner_finds_all_of_it(pair: Pair) -> None:
    found = pair.a.post("/v1/search", json={"question": CANARY}).json()
    answered = pair.a.post("/v1/answers", json={"question": f"Who signed the {CANARY} contract?"}).json()

    assert [hit["document_id"] for hit in found["hits"]] == [pair.document_id]
    assert any("Ada Byron" in json.dumps(citation) for citation in answered["citations"])
    assert CANARY in pair.a.get(f"/v1/conversations/{pair.chat_id}").text


def test_lists_searches_and_answers_of_another_user_hold_nothing_of_it(pair: Pair) -> None:
    seen = [
        pair.b.get("/v1/collections"),
        pair.b.get("/v1/documents"),
        pair.b.get("/v1/documents", params={"collection": "secret"}),
        pair.b.get("/v1/conversations"),
        pair.b.get("/v1/conversations/search", params={"q": "signed"}),
        pair.b.post("/v1/search", json={"question": "who signed the contract", "explain": True}),
        pair.b.post("/v1/search", json={"question": "signed in Turin", "mode": "text"}),
        pair.b.post("/v1/search", json={"question": "signed in Turin", "mode": "dense"}),
        pair.b.post("/v1/answers", json={"question": "Who signed the contract, and where?"}),
        pair.b.get("/v1/models"),
    ]

    for answer in seen:
        assert answer.status_code == 200, answer.text
        for leak in (CANARY, "Ada Byron", "Turin", "contract.txt", pair.document_id, pair.chat_id):
            assert leak not in answer.text.replace("signed in Turin", "")
    assert seen[5].json()["searched_passages"] == 1


def test_what_belongs_to_another_user_does_not_exist(pair: Pair) -> None:
    document, chat = pair.document_id, pair.chat_id
    tried = [
        ("GET", f"/v1/documents/{document}", None),
        ("DELETE", f"/v1/documents/{document}", None),
        ("GET", f"/v1/conversations/{chat}", None),
        ("DELETE", f"/v1/conversations/{chat}", None),
        ("POST", f"/v1/conversations/{chat}/messages", {"content": "go on"}),
        ("POST", "/v1/tickets/classify", {"text": "hi", "conversation_id": chat, "model": "scripted:ticket"}),
        ("POST", "/v1/search", {"question": "x", "collections": ["secret"]}),
        ("POST", "/v1/answers", {"question": "x", "collections": ["secret"]}),
        ("POST", "/v1/answers", {"question": "x", "document_ids": [document]}),
        ("POST", "/v1/extractions", {"schema": {"type": "object"}, "document_ids": [document]}),
        ("POST", "/v1/extractions", {"schema": {"type": "object"}, "collections": ["secret"]}),
        ("POST", "/v1/forget", {"document_id": document}),
        ("POST", "/v1/forget", {"conversation_id": chat}),
    ]

    for method, path, body in tried:
        foreign = pair.b.request(method, path, json=body)
        missing = pair.b.request(
            method,
            path.replace(document, "0" * 32).replace(chat, "0" * 32),
            json=json.loads(
                json.dumps(body)
                .replace(document, "0" * 32)
                .replace(chat, "0" * 32)
                .replace('"secret"', '"nothing"')
            ),
        )
        assert foreign.status_code == missing.status_code == 404, (path, foreign.text)
        assert foreign.json()["error"]["code"] == missing.json()["error"]["code"]
        assert CANARY not in foreign.text
    assert pair.a.get(f"/v1/documents/{document}").status_code == 200
    assert pair.a.get(f"/v1/conversations/{chat}").json()["turn_count"] == 2


def test_every_route_that_takes_an_id_hides_what_is_not_the_callers(server: LiveServer, pair: Pair) -> None:
    ids = {"{document_id}": pair.document_id, "{conversation_id}": pair.chat_id}
    paths = build_routes(server.services).openapi()["paths"]
    tried = 0
    for path, methods in paths.items():
        if not any(place in path for place in ids):
            continue
        for place, value in ids.items():
            path = path.replace(place, value)
        for method in methods:
            body = ({} if path.endswith("/continue") else {"content": "x"}) if method == "post" else None
            answer = pair.b.request(method.upper(), path, json=body)
            assert answer.status_code == 404, (method, path, answer.text)
            tried += 1

    assert tried >= 5
    assert pair.a.get(f"/v1/documents/{pair.document_id}").status_code == 200


def test_the_same_prompt_of_another_user_reuses_no_prefix(pair: Pair) -> None:
    asked = {"messages": [{"role": "user", "content": f"{CANARY} " * 50}], "model": "scripted:greet"}

    def cached(client: httpx.Client) -> int:
        usage = client.post("/v1/chat/completions", json=asked).json()["usage"]
        count: int = usage["prompt_tokens_details"]["cached_tokens"]
        return count

    first, second, other = cached(pair.a), cached(pair.a), cached(pair.b)

    assert second > 50
    assert first < 5
    assert other < 5


def test_a_document_of_the_same_name_and_text_is_each_ones_own(pair: Pair) -> None:
    mine = upload(pair.b, "secret", "contract.txt", SECRET)

    assert mine["id"] != pair.document_id
    assert pair.b.delete(f"/v1/documents/{mine['id']}").json()["remains"] == []
    assert pair.a.post("/v1/search", json={"question": CANARY}).json()["hits"] != []
    assert pair.b.get("/v1/collections").json()["collections"][0]["name"] == "mine"


def test_members_may_not_administer_and_administrators_see_no_content(server: LiveServer, pair: Pair) -> None:
    with server.client() as admin:
        denied = [
            pair.b.get("/v1/admin/users"),
            pair.b.get("/v1/admin/audit"),
            pair.b.post(
                "/v1/admin/break-glass",
                json={"user": "a", "kind": "conversation", "id": pair.chat_id, "reason": "I am curious"},
            ),
            pair.b.get("/metrics"),
        ]
        unseen = [
            admin.get(f"/v1/documents/{pair.document_id}"),
            admin.get(f"/v1/conversations/{pair.chat_id}"),
        ]
        metrics = admin.get("/metrics")

    assert {answer.status_code for answer in denied} == {403}
    assert {answer.status_code for answer in unseen} == {404}
    assert CANARY not in metrics.text


def test_breaking_the_glass_shows_content_and_is_written_down_first(server: LiveServer, pair: Pair) -> None:
    reason = "court order 17/2026, seen by the data protection officer"
    with server.client() as admin:
        last = admin.get("/v1/admin/audit", params={"limit": 1}).json()["checkpoint"]["sequence"]
        body = {"user": "a", "kind": "conversation", "id": pair.chat_id, "reason": reason}
        read = admin.post("/v1/admin/break-glass", json=body)
        missed = admin.post("/v1/admin/break-glass", json={**body, "id": "0" * 32})
        document = admin.post(
            "/v1/admin/break-glass", json={**body, "kind": "document", "id": pair.document_id}
        )
        audit = admin.get("/v1/admin/audit", params={"after": last}).json()["entries"]
        verification = admin.get("/v1/admin/audit/verification").json()

    assert CANARY in read.text
    assert CANARY in document.text
    assert missed.status_code == 404
    assert [entry["action"] for entry in audit] == ["content.read"] * 3
    assert audit[0]["details"]["reason"] == reason
    assert CANARY not in json.dumps(audit)
    assert verification["is_intact"]


def test_nothing_that_was_said_is_in_logs_traces_or_metrics(server: LiveServer, pair: Pair) -> None:
    state_dir = server.services.appliance.settings.state_dir
    pair.a.post("/v1/conversations/none/messages", json={"content": CANARY})
    pair.a.post(
        "/v1/chat/completions",
        json={"messages": [{"role": "user", "content": CANARY}], "model": "scripted:broken"},
    )

    files = [path for path in state_dir.rglob("*") if path.is_file()]
    assert [path.name for path in files if CANARY.encode() in path.read_bytes()] == []
    assert any(path.suffix == ".log" or "trace" in path.name for path in files)


def test_a_forgotten_user_is_gone_from_every_file(server: LiveServer) -> None:
    with server.client(server.token_of("gone")) as gone, server.client() as admin:
        upload(gone, "papers", "diary.txt", "Dear diary, the quagga ate my homework again today.")
        chat = gone.post("/v1/conversations", json={"instructions": "Mind the quagga at all times."}).json()
        gone.post(
            f"/v1/conversations/{chat['id']}/messages", json={"content": "Where does the quagga sleep?"}
        )
        owner = next(user.id for user in server.services.users.list_users() if user.name == "gone")
        outcomes = Outcomes(server.services.appliance.settings.state_dir / OUTCOMES_FILE)
        for user in (owner, "stays"):
            outcomes.record(TRIAL, TRIAL.arms[0], user, f"request of {user}", 1.0)
        receipt = admin.delete("/v1/admin/users/gone", params={"forget": True})
        (kept,) = outcomes.summaries(TRIAL)
        outcomes.close()
        refused = gone.get("/v1/documents")

    assert receipt.status_code == 200, receipt.text
    assert receipt.json()["forgotten"]["is_clean"], receipt.text
    assert receipt.json()["forgotten"]["removed"]["documents and index"]["documents"] == 1
    assert receipt.json()["forgotten"]["removed"]["outcomes of experiments"] == {"outcomes": 1}
    assert kept.outcomes == 1
    assert refused.status_code == 401
    folder = server.services.appliance.settings.data_dir
    held = [path for path in folder.rglob("*") if path.is_file() and b"quagga" in path.read_bytes()]
    assert held == []
