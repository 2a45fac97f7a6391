from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from appliance.core.clock import SystemClock
from appliance.core.errors import InvalidRequestError, StorageError
from appliance.core.events import ModelIdentity, TextDelta
from appliance.core.forgetting import (
    ForgetChat,
    ForgetDocument,
    ForgetHit,
    ForgetProbe,
    ForgetReport,
    ForgetSubject,
)
from appliance.core.messages import UserMessage
from appliance.core.requests import SamplingParams
from appliance.memory.byte_scan import files_below, scan_files
from appliance.memory.conversations import Conversations
from appliance.memory.forget import forget, render_receipt
from appliance.memory.forget_chats import ForgettableChats
from appliance.memory.forget_files import StoreFile
from appliance.memory.journal import AnswerEnd
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.memory.turns import SentRequest, Turn
from appliance.storage.database import STORE_FILE, Database

SUBJECT = "Marta Kowalska"


def ask(
    conversations: Conversations, chat_id: str, question: str, answer: str, *, parent: str | None = None,
    evidence: str = "", receipt: str = "",
) -> Turn:  # fmt: skip
    asked = conversations.turns.add_user_turn(chat_id, question, parent_id=parent)
    messages = (UserMessage(text=evidence),) if evidence else ()
    request = SentRequest(
        model="m", messages=(*messages, UserMessage(text=question)), sampling=SamplingParams(seed=1)
    )
    turn = conversations.turns.begin_answer(chat_id, request, parent_id=asked.id, receipt_json=receipt)
    journal = conversations.turns.journal(turn.id, SystemClock())
    for word in answer.split(" "):
        journal.append(TextDelta(text=word + " "))
    journal.finish(AnswerEnd(state="done", finish_reason="stop", model=ModelIdentity(provider="p", name="m")))
    return conversations.turns.get(turn.id)


def harmless(conversations: Conversations) -> str:
    chat = conversations.chats.create()
    parent = None
    for number in range(20):
        text = f"Ordinary question {number} about the weather in town"
        parent = ask(conversations, chat.id, text, f"It rains on day {number}.", parent=parent).id
    return chat.id


def stores(database: Database) -> list[ForgettableChats | StoreFile]:
    return [ForgettableChats(database), StoreFile(database)]


def vocabulary(database: Database) -> list[tuple[str, int, int]]:
    with database.transaction() as connection:
        connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.v USING fts5vocab ('main', 'chat_words', 'row')"
        )
        return connection.execute("SELECT term, doc, cnt FROM temp.v").fetchall()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Conversations, Conversations]:
    """Two stores with the same harmless chat."""
    opened = []
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
        conversations = Conversations(Database(tmp_path / name / STORE_FILE, [CONVERSATIONS, FACTS]))
        harmless(conversations)
        opened.append(conversations)
    return opened[0], opened[1]


def test_a_store_that_forgot_a_chat_equals_one_that_never_had_it(
    pair: tuple[Conversations, Conversations],
) -> None:
    had, never = pair
    chat = had.chats.create(system_text="Advise the Kowalska household")
    first = ask(had, chat.id, f"{SUBJECT} owes zanzibar 400 crowns", "Noted, zanzibar it is.")
    ask(had, chat.id, "And Zażółć gęślą?", "Yes indeed 日本語の質問", parent=first.id)
    had.summaries.add(had.turns.shown_branch(chat.id), "Talk about zanzibar debts", made_by="m")
    had.database.back_up()

    receipt = forget(ForgetChat(chat_id=chat.id), stores(had.database))

    assert receipt.is_clean
    assert receipt.reports[0].removed == {"chats": 1, "turns": 4, "summaries": 1}
    assert receipt.reports[1].removed == {"backups": 1}
    assert receipt.needle_count > 0
    folder = had.database.path.parent
    needles = [SUBJECT, "zanzibar", "Zażółć", "Kowalska", "日本語", "質問", chat.id]
    assert scan_files(files_below(folder), needles) == []
    assert vocabulary(had.database) == vocabulary(never.database)
    assert had.search("zanzibar") == []
    assert [hit.excerpt for hit in had.search("weather")] == [hit.excerpt for hit in never.search("weather")]
    assert [each.title for each in had.chats.list_chats()] == [
        each.title for each in never.chats.list_chats()
    ]
    forget(ForgetChat(chat_id="0" * 32), stores(never.database))
    assert had.database.path.stat().st_size == never.database.path.stat().st_size
    assert had.database.check_integrity() == ()


def test_a_subject_is_gone_from_every_byte_and_the_rest_of_the_chat_stays(
    pair: tuple[Conversations, Conversations],
) -> None:
    had, _ = pair
    chat = had.chats.create()
    before = ask(had, chat.id, "What is a ledger?", "A book of accounts.")
    named = ask(had, chat.id, f"What does {SUBJECT.upper()} owe?", "She owes 400 crowns.", parent=before.id)
    after = ask(had, chat.id, "And what is a crown?", "A coin.", parent=named.id, evidence=f"About {SUBJECT}")
    had.chats.rename(chat.id, f"Notes on {SUBJECT}")

    receipt = forget(ForgetSubject(phrase="marta  kowalska"), stores(had.database))

    texts = [(turn.state, turn.text) for turn in had.turns.branch(after.id)]
    assert receipt.is_clean
    assert texts[:2] == [("done", "What is a ledger?"), ("done", "A book of accounts. ")]
    assert texts[2:4] == [("forgotten", ""), ("forgotten", "")]
    assert texts[4:] == [("done", "And what is a crown?"), ("done", "A coin. ")]
    assert had.turns.request_of(after.id) is None
    assert had.chats.get(chat.id).title == "New chat"
    assert scan_files(files_below(had.database.path.parent), [SUBJECT, "Kowalska", "400 crowns"]) == []
    assert "marta" not in render_receipt(receipt).lower()


def test_a_word_within_another_is_not_the_subject(pair: tuple[Conversations, Conversations]) -> None:
    had, _ = pair
    chat = had.chats.create()
    ask(had, chat.id, "Is Annapolis large?", "Annapolis is small.")

    receipt = forget(ForgetSubject(phrase="Anna"), stores(had.database))

    assert receipt.removed_count == 0
    assert receipt.is_clean
    assert [turn.text for turn in had.turns.shown_branch(chat.id)] == [
        "Is Annapolis large?",
        "Annapolis is small. ",
    ]


def test_a_document_takes_the_answers_made_with_it_along(pair: tuple[Conversations, Conversations]) -> None:
    had, _ = pair
    chat = had.chats.create()
    made = ask(had, chat.id, "What says the paper?", "Quoted secret sauce.", receipt='{"chunks": ["doc-77"]}')
    other = ask(had, chat.id, "And the sky?", "Blue.", parent=made.id, receipt='{"chunks": ["doc-7"]}')

    receipt = forget(ForgetDocument(document_id="doc-77"), stores(had.database))

    assert receipt.is_clean
    assert had.turns.get(made.id).state == "forgotten"
    assert had.turns.get(other.id).text == "Blue. "
    assert scan_files(files_below(had.database.path.parent), ["secret sauce", "doc-77"]) == []


def test_what_another_chat_says_too_is_named_and_kept(pair: tuple[Conversations, Conversations]) -> None:
    had, _ = pair
    kept, gone = had.chats.create(), had.chats.create()
    for chat in (kept, gone):
        ask(had, chat.id, "The same long sentence in two chats", "Only here." if chat is gone else "There.")

    receipt = forget(ForgetChat(chat_id=gone.id), stores(had.database))

    assert receipt.is_clean
    assert {hit.place.partition(" ")[0] for hit in receipt.elsewhere if hit.kind == "row"} >= {"turns.text"}
    assert had.search("same sentence")[0].chat_id == kept.id


def test_another_owner_keeps_what_one_owner_forgets_and_is_not_named(database: Database) -> None:
    mine, theirs = Conversations(database), Conversations(database, owner="other")
    for conversations in (mine, theirs):
        chat = conversations.chats.create()
        ask(conversations, chat.id, f"Tell me of {SUBJECT}", "No.")

    receipt = forget(ForgetSubject(phrase=SUBJECT), stores(database))

    assert receipt.is_clean
    assert mine.search("Kowalska") == []
    assert len(theirs.search("Kowalska")) == 2
    assert (receipt.elsewhere, receipt.remains) == ((), ())


def test_a_chat_of_another_owner_cannot_be_forgotten(database: Database) -> None:
    theirs = Conversations(database, owner="other")
    chat = theirs.chats.create(title="Theirs")

    receipt = forget(ForgetChat(chat_id=chat.id), stores(database))

    assert receipt.removed_count == 0
    assert theirs.chats.get(chat.id).title == "Theirs"


def test_forgetting_while_another_reads_says_that_bytes_remain(
    database: Database, conversations: Conversations
) -> None:
    chat = conversations.chats.create()
    ask(conversations, chat.id, f"Tell me of {SUBJECT}", "No.")

    with database.read() as connection:
        connection.execute("SELECT count(*) FROM turns").fetchone()
        with pytest.raises(StorageError):
            Database(database.path, [CONVERSATIONS, FACTS], busy_timeout_s=0.1).scrub()

    assert forget(ForgetSubject(phrase=SUBJECT), stores(database)).is_clean


class Leaky:
    """A store that forgets nothing."""

    name = "leaky"

    def __init__(self, text: str) -> None:
        self._text = text

    def forget(self, target: object) -> ForgetReport:
        return ForgetReport(store=self.name)

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        hits = tuple(
            ForgetHit(store=self.name, place="cache.bin", needle=needle, kind="bytes")
            for needle in needles
            if needle in self._text
        )
        return ForgetProbe(store=self.name, checked=("cache.bin",), hits=hits)


def test_the_receipt_names_a_store_that_kept_something(
    database: Database, conversations: Conversations
) -> None:
    chat = conversations.chats.create()
    ask(conversations, chat.id, "The vault opens at midnight exactly", "Understood, at midnight.")
    leaky = Leaky("... The vault opens at midnight exactly ...")

    receipt = forget(ForgetChat(chat_id=chat.id), [*stores(database), leaky])

    assert not receipt.is_clean
    assert "NOT CLEAN" in render_receipt(receipt)
    assert "leaky: cache.bin" in render_receipt(receipt)


def test_forgetting_what_is_not_there_is_no_error(database: Database) -> None:
    receipt = forget(ForgetChat(chat_id="0" * 32), stores(database))

    assert receipt.removed_count == 0
    assert receipt.is_clean


def test_a_subject_of_two_letters_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        ForgetSubject(phrase=" x ")
