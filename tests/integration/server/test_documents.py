"""Documents over HTTP: in, found, quoted, taken apart, and gone; bad ones are refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from appliance.catalog.catalog import Catalog
from appliance.catalog.store import ModelStore
from appliance.retrieval.rerank import ClosableReranker, FastembedReranker
from appliance.server.scorers import LateModels
from tests.conftest import EMBEDDER, MODELS_DIR, stored_model
from tests.live_server import LiveServer, live_server
from tests.retrieval_stubs import Logits

BINARY = {"content-type": "application/octet-stream"}
INVOICE = "# Invoice 4711\n\nThe supplier is Nordwind Stahl of Kiel.\n\nThe total is 1,280.50 EUR, due on 3 May 2026.\n"


def added(client: httpx.Client, name: str, content: bytes, collection: str = "invoices") -> httpx.Response:
    place = f"/v1/collections/{collection}/documents"
    return client.post(place, params={"name": name}, content=content, headers=BINARY)


def test_a_document_is_added_once_replaced_by_name_and_deleted(server: LiveServer) -> None:
    with server.client(server.token_of("clerk")) as client:
        first = added(client, "invoice.md", INVOICE.encode())
        again = added(client, "invoice.md", INVOICE.encode())
        copy = added(client, "copy.md", INVOICE.encode())
        changed = added(client, "invoice.md", INVOICE.replace("4711", "4712").encode())
        listed = client.get("/v1/documents", params={"collection": "invoices"}).json()["documents"]
        shown = client.get(f"/v1/documents/{first.json()['id']}").json()
        deleted = client.delete(f"/v1/documents/{first.json()['id']}").json()
        left = client.post("/v1/search", json={"question": "Nordwind", "mode": "text"}).json()

    outcomes = [answer.json()["outcome"] for answer in (first, again, copy, changed)]
    assert outcomes == ["added", "unchanged", "skipped", "updated"]
    assert first.status_code == 201
    assert first.json()["id"] == changed.json()["id"]
    assert [document["name"] for document in listed] == ["invoice.md"]
    assert "Invoice 4712" in shown["text"]
    assert "owner" not in shown
    assert (deleted["remains"], left["hits"]) == ([], [])


def test_a_question_is_answered_with_quotes_that_stand_in_the_document(server: LiveServer) -> None:
    with server.client(server.token_of("asker")) as client:
        added(client, "invoice.md", INVOICE.encode())
        answer = client.post("/v1/answers", json={"question": "When is the total of the invoice due?"}).json()
        refused = client.post("/v1/answers", json={"question": "How do penguins sleep in winter?"}).json()
        streamed = client.post(
            "/v1/answers", json={"question": "When is the total of the invoice due?", "stream": True}
        ).text

    quotes = [citation["citation"]["quote"] for citation in answer["citations"]]
    assert any("3 May 2026" in quote for quote in quotes)
    assert all(quote in INVOICE for quote in quotes)
    assert {citation["citation"]["verdict"] for citation in answer["citations"]} == {"verified"}
    events = [block.split("\n") for block in streamed.strip().split("\n\n")]
    assert {lines[0] for lines in events[:-1]} == {"event: delta"}
    assert json.loads(events[-1][1].removeprefix("data: "))["citations"] == answer["citations"]
    assert refused["kind"] == "refused"
    assert refused["citations"] == []


def test_a_follow_up_is_told_in_full_from_messages_or_from_a_conversation(server: LiveServer) -> None:
    follow_up = {"question": "And when is it due?"}
    said = [
        {"role": "user", "content": "What is the total of the Nordwind invoice?"},
        {"role": "assistant", "content": "1,280.50 EUR"},
    ]
    with server.client(server.token_of("caller-back")) as client, server.client() as stranger:
        added(client, "invoice.md", INVOICE.encode())
        chat = client.post("/v1/conversations", json={}).json()["id"]
        client.post(
            f"/v1/conversations/{chat}/messages",
            json={"content": said[0]["content"], "model": "scripted:greet"},
        )
        alone = client.post("/v1/answers", json=follow_up).json()
        told = client.post("/v1/answers", json={**follow_up, "messages": said}).json()
        stored = client.post("/v1/answers", json={**follow_up, "conversation": chat}).json()
        both = client.post("/v1/answers", json={**follow_up, "conversation": chat, "messages": said})
        foreign = stranger.post("/v1/answers", json={**follow_up, "conversation": chat})
        operator = client.post(
            "/v1/answers", json={**follow_up, "messages": [{"role": "system", "content": "x"}]}
        )
        turns = client.get(f"/v1/conversations/{chat}").json()

    expected = "And when is it due? (Nordwind)"
    assert (alone["rewritten_by"], alone["search"]["question"]) == ("", "And when is it due?")
    for answer in (told, stored):
        assert (answer["rewritten_by"], answer["search"]["question"]) == ("code", expected)
        assert answer["question"] == "And when is it due?"
        assert f"searched for: {expected}" in answer["notes"]
        assert any("3 May 2026" in one["citation"]["quote"] for one in answer["citations"])
    assert (both.status_code, both.json()["error"]["param"]) == (400, "messages")
    assert (foreign.status_code, operator.status_code) == (404, 400)
    assert operator.json()["error"]["param"] == "messages[0].role"
    assert "due" not in json.dumps(turns)


def test_fields_are_taken_out_with_where_they_stand(server: LiveServer) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["name", "year"],
        "additionalProperties": False,
    }
    with server.client(server.token_of("extractor")) as client:
        added(client, "book.txt", b"Emma is a novel. It came out in 1815.")
        body = {"schema": schema, "collections": ["invoices"], "model": "scripted:json"}
        rows = client.post("/v1/extractions", json=body).json()["data"]
        nothing = client.post("/v1/extractions", json={"schema": schema})

    assert [row["values"] for row in rows] == [{"name": "Emma", "year": 1815}]
    assert all(evidence["verdict"] != "absent" for evidence in rows[0]["evidence"])
    assert nothing.json()["error"]["code"] == "missing_required_parameter"


@pytest.mark.parametrize(
    "name",
    ["", "..", "../up.txt", "/etc/passwd", "a/b.txt", "a\\b.txt", ".hidden", "a\nb.txt", "x" * 201, " a.txt"],
)
def test_a_name_that_is_no_file_name_is_refused(server: LiveServer, name: str) -> None:
    with server.client() as client:
        answer = added(client, name, b"text")

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "name"


@pytest.mark.parametrize("written", ["leases/2026/spring", "leases%2F2026%2Fspring"])
def test_the_name_of_a_collection_may_hold_slashes(server: LiveServer, written: str) -> None:
    with server.client(server.token_of(f"filer-{len(written)}")) as client:
        answer = added(client, "invoice.md", INVOICE.encode(), collection=written)
        listed = client.get("/v1/documents", params={"collection": "leases/2026/spring"}).json()["documents"]
        nameless = client.post("/v1/collections/documents?name=a.md", content=b"x", headers=BINARY)
        blank = added(client, "invoice.md", INVOICE.encode(), collection="%20")

    assert answer.status_code == 201, answer.text
    assert [document["collection"] for document in listed] == ["leases/2026/spring"]
    assert (nameless.status_code, nameless.json()["error"]["code"]) == (404, "not_found")
    assert (blank.status_code, "no usable collection name" in blank.text) == (400, True)


@pytest.mark.parametrize(
    ("path", "param", "hint"),
    [
        ("/v1/documents?colection=invoices", "colection", "did you mean 'collection'?"),
        ("/v1/conversations?limit=2&ofset=1", "ofset", "did you mean 'offset'?"),
        ("/v1/collections?zzz=1", "zzz", "this route takes none"),
        ("/v1/models?zzz=1", "zzz", "this route takes none"),
    ],
)
def test_a_query_parameter_that_is_not_known_is_named(
    server: LiveServer, path: str, param: str, hint: str
) -> None:
    with server.client() as client:
        answer = client.get(path)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "unknown_parameter", param)
    assert error["appliance"]["hint"] == hint


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("broken.pdf", b"%PDF-1.7\nnothing", id="broken"),
        pytest.param("empty.txt", b"", id="empty"),
        pytest.param("program.exe", b"MZ\x00\x01\x02\x03", id="program"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(server: LiveServer, name: str, content: bytes) -> None:
    with server.client(server.token_of(f"reader-{name}")) as client:
        answer = added(client, name, content)
        listed = client.get("/v1/documents").json()["documents"]

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["appliance"]["details"]["reason"]
    assert [document["state"] for document in listed] == ["failed"]


def test_what_is_counted_has_the_numbers_of_the_model(server: LiveServer) -> None:
    with server.client() as client:
        text = client.post("/tokenize", json={"content": "one two three", "model": "scripted:greet"}).json()
        both = client.post("/tokenize", json={"content": "x", "messages": [{"role": "user", "content": "x"}]})

    assert (text["count"], text["context_window"]) == (6, 4096)
    assert both.status_code == 400


def test_without_a_reranker_the_refusal_says_so(server: LiveServer) -> None:
    with server.client() as client:
        unnamed = client.post("/v1/rerank", json={"query": "x", "documents": ["a", "b"]})
        other = client.post(
            "/v1/rerank", json={"query": "x", "documents": ["a"], "model": "all-minilm:l6-v2"}
        )

    assert (unnamed.status_code, other.status_code) == (404, 404)
    assert "no reranker" in unnamed.json()["error"]["message"]
    assert "all-minilm:l6-v2 is no reranker; it is an embedder" in other.json()["error"]["message"]


def test_old_conversations_and_documents_go_by_rule(server: LiveServer) -> None:
    with server.client(server.token_of("hoarder")) as client, server.client() as admin:
        old = client.post("/v1/conversations", json={"title": "old"}).json()["id"]
        older = client.post("/v1/conversations", json={"title": "older"}).json()["id"]
        kept = client.post("/v1/conversations", json={"title": "kept"}).json()["id"]
        with server.services.database.transaction() as connection:
            statement = "UPDATE chats SET updated_at_s = updated_at_s - 864000 WHERE id IN (?, ?)"
            connection.execute(statement, (old, older))
        rule = admin.put("/v1/admin/retention", json={"what": "conversations", "days": 5, "user": "hoarder"})
        left = [chat["id"] for chat in client.get("/v1/conversations").json()["conversations"]]
        listed = admin.get("/v1/admin/retention").json()["rules"]
        removed = admin.delete("/v1/admin/retention/conversations", params={"user": "hoarder"})
        audit = admin.get("/v1/admin/audit", params={"limit": 1000}).json()["entries"]

    assert rule.json()["forgotten"] == 2
    assert left == [kept]
    assert [one["days"] for one in listed] == [5.0]
    assert removed.status_code == 200
    assert old in [entry["subject"] for entry in audit if entry["action"] == "conversation.expired"]
    assert "hoarder" not in json.dumps(
        [entry for entry in audit if entry["action"] == "conversation.expired"]
    )


def test_a_subject_is_forgotten_everywhere_and_others_keep_theirs(server: LiveServer) -> None:
    with server.client(server.token_of("one")) as one, server.client(server.token_of("two")) as two:
        for client in (one, two):
            added(client, "note.txt", b"Mister Wollstonecraft owes us a horse.")
        receipt = one.post("/v1/forget", json={"subject": "Wollstonecraft"}).json()
        hits = [
            len(client.post("/v1/search", json={"question": "Wollstonecraft", "mode": "text"}).json()["hits"])
            for client in (one, two)
        ]
        several = one.post("/v1/forget", json={"subject": "abc", "everything": True})

    assert receipt["is_clean"], receipt
    assert hits == [0, 1]
    assert several.status_code == 400


def test_texts_are_ordered_by_the_reranker(tmp_path: Path) -> None:
    reranker: ClosableReranker = FastembedReranker(Logits(-1.0, 2.0, 0.0))  # type: ignore[arg-type]
    stored_model(EMBEDDER)
    local = Catalog(ModelStore(MODELS_DIR)).local(EMBEDDER)
    rerankers = LateModels(lambda _: local, lambda _: reranker)
    with live_server(tmp_path, rerankers=rerankers) as running, running.client() as client:
        body = {"query": "q", "documents": ["a", "b", "c"], "top_n": 2}
        ordered = client.post("/v1/rerank", json=body).json()["results"]

    assert [one["index"] for one in ordered] == [1, 2]
    assert ordered[1]["relevance_score"] == 0.5
