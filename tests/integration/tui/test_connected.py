"""The interface over a running server: its models answer, its documents are asked, chats stay here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.config import load_settings
from appliance.core.errors import ApplianceError, AuthenticationError, ProviderUnavailableError
from appliance.jobs.extract import RowDone
from appliance.jobs.rows import ExtractedRow
from appliance.memory.document_scope import DocumentScope
from tests.conftest import EMBEDDER, stored_model
from tests.live_server import LiveServer, live_server
from tui.connected.session import connected_session
from tui.in_process.session import InProcessSession

INVOICE = "# Invoice 4711\n\nThe supplier is Nordwind Stahl of Kiel. Good morning to you.\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    stored_model(EMBEDDER)
    with live_server(tmp_path_factory.mktemp("server")) as running:
        yield running


async def connected(
    server: LiveServer, folder: Path, monkeypatch: pytest.MonkeyPatch, *, token: str = "", model: str = ""
) -> InProcessSession:
    monkeypatch.setenv("APPLIANCE_TOKEN", token or server.token)
    flags = {"data_dir": folder / "data", "state_dir": folder / "state"}
    settings = load_settings({**flags, "model": model} if model else flags)
    session = await connected_session(settings, server.url)
    await session.open()
    return session


async def rows_of(
    server: LiveServer, folder: Path, monkeypatch: pytest.MonkeyPatch, token: str, document_id: str
) -> list[ExtractedRow]:
    session = await connected(server, folder, monkeypatch, token=token, model="scripted:json")
    try:
        events = session.extraction.run("name, year int", "", [document_id])
        return [event.row async for event in events if isinstance(event, RowDone)]
    finally:
        await session.close()


async def test_a_model_of_the_server_answers_and_the_chat_is_kept_here(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await connected(server, tmp_path, monkeypatch, model="scripted:greet")
    try:
        chat = await session.chats.create()
        events = [event async for event in session.chats.ask(chat.id, "hello")]
        stored = await session.chats.branch(chat.id)
    finally:
        await session.close()

    assert events[-1].kind == "answer_saved"
    assert [(turn.role, turn.text) for turn in stored] == [
        ("user", "hello"),
        ("assistant", "Good morning to you."),
    ]
    with server.client() as client:
        assert client.get("/v1/conversations").json().get("data", []) == []


async def test_documents_there_are_added_asked_extracted_and_removed(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = tmp_path / "invoice.md"
    paper.write_text(INVOICE, encoding="utf-8")
    token = server.token_of("reader")
    session = await connected(server, tmp_path, monkeypatch, token=token, model="scripted:greet")
    try:
        lines = [event async for event in session.library.add(str(paper), "bills")]
        (row,) = await session.library.documents()
        found = await session.library.search("Who is the supplier?")
        chat = await session.chats.create()
        scope = DocumentScope(collections=("bills",))
        asking = session.chats.ask_documents(chat.id, "Who is the supplier of the invoice?", scope)
        async for _ in asking:
            pass
        answer = (await session.chats.branch(chat.id))[-1]
        sources = await session.chats.sources(answer.id)
        rows = await rows_of(server, tmp_path / "other", monkeypatch, token, row.document_id)
        removed = await session.library.remove(row.document_id)
        left = await session.library.documents()
    finally:
        await session.close()

    assert [getattr(line, "text", "") for line in lines][-1] == "added invoice.md"
    assert (row.name, row.collection, row.is_ready) == ("invoice.md", "bills", True)
    assert "Nordwind Stahl" in found.passages[0].text
    assert answer.text
    assert sources is not None
    assert all(source.is_verified for source in sources.sources)
    assert sources.sources
    assert rows[0].values == {"name": "Emma", "year": 1815}
    assert [(one.path, one.verdict) for one in rows[0].evidence] == [("name", "absent"), ("year", "absent")]
    assert removed.startswith("removed: 1 passage;")
    assert left == []


@pytest.mark.parametrize(
    "token, error", [("wrong", AuthenticationError), ("", AuthenticationError)], ids=["wrong", "none"]
)
async def test_a_token_that_is_not_taken_is_told_with_the_way_out(
    token: str, error: type[ApplianceError], server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPLIANCE_TOKEN", token)

    with pytest.raises(error) as refused:
        await connected_session(load_settings(), server.url)

    assert "appliance token" in refused.value.hint


async def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLIANCE_TOKEN", "x")

    with pytest.raises(ProviderUnavailableError, match="does not answer"):
        await connected_session(load_settings(), "http://127.0.0.1:9")
