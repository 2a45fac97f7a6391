"""Forgetting across chats and documents, with the real index and embedder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.forgetting import ForgetDocument, ForgetSubject, Forgettable
from appliance.core.requests import LOCAL_OWNER
from appliance.memory.byte_scan import files_below, scan_files
from appliance.memory.conversations import Conversations
from appliance.memory.forget import forget, render_receipt
from appliance.memory.forget_chats import ForgettableChats
from appliance.memory.forget_documents import ForgettableDocuments
from appliance.memory.forget_files import StoreFile
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.retrieval.files import find_files
from appliance.retrieval.library import Library
from appliance.retrieval.search import SearchRequest
from appliance.storage.database import STORE_FILE, Database

SUBJECT = "Marta Kowalska"


@pytest.fixture
def library(tmp_path: Path, embedder_folder: Path) -> Iterator[Library]:
    opened = Library.open(tmp_path / "data", embedder_folder, threads=1)
    opened.check()
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "personal.md").write_text(f"# Contract\n\n{SUBJECT} earns quince marmalade every month.\n")
    (papers / "plain.md").write_text("# Leave\n\nEvery employee may take thirty days of leave.\n")
    opened.ingestion.add(find_files([str(papers)]), owner=LOCAL_OWNER, collection="papers")
    opened.fill_vectors()
    yield opened
    opened.close()


@pytest.fixture
def stores(library: Library, tmp_path: Path) -> Iterator[list[Forgettable]]:
    database = Database(tmp_path / "data" / STORE_FILE, [CONVERSATIONS, FACTS])
    conversations = Conversations(database)
    chat = conversations.chats.create()
    conversations.turns.add_user_turn(chat.id, f"What does {SUBJECT} earn?", parent_id=None)
    documents = ForgettableDocuments(library, tmp_path / "data" / "index")
    yield [ForgettableChats(database), documents, StoreFile(database)]
    database.close()


def sources(library: Library, question: str) -> list[str]:
    result = library.searcher.search(SearchRequest(question=question, owner=LOCAL_OWNER))
    return [Path(hit.chunk.source).name for hit in result.hits]


def test_a_subject_leaves_chats_documents_index_and_every_byte(
    stores: list[Forgettable], library: Library, tmp_path: Path
) -> None:
    receipt = forget(ForgetSubject(phrase=SUBJECT), stores)

    assert receipt.is_clean, render_receipt(receipt)
    assert receipt.reports[0].removed["turns"] == 1
    assert receipt.reports[1].removed["documents"] == 1
    assert scan_files(files_below(tmp_path / "data"), [SUBJECT, "Kowalska", "quince marmalade"]) == []
    assert sources(library, "quince marmalade") in ([], ["plain.md"])
    assert sources(library, "how many days of leave") == ["plain.md"]


def test_a_document_goes_alone(stores: list[Forgettable], library: Library, tmp_path: Path) -> None:
    (document,) = [
        record for record in library.store.documents(LOCAL_OWNER) if record.source.endswith("personal.md")
    ]

    receipt = forget(ForgetDocument(document_id=document.document_id), stores)

    assert receipt.is_clean, render_receipt(receipt)
    assert scan_files(files_below(tmp_path / "data"), ["quince marmalade"]) == []
    assert [Path(each.source).name for each in library.store.documents(LOCAL_OWNER)] == ["plain.md"]
