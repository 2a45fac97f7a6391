from __future__ import annotations

import pytest

from appliance.core.errors import InvalidRequestError
from appliance.core.events import TextDelta, ToolCallDelta
from appliance.core.messages import UserMessage
from appliance.core.requests import SamplingParams
from appliance.memory.chats import title_from
from appliance.memory.conversations import Conversations
from appliance.memory.journal import AnswerEnd, stop_unfinished_answers
from appliance.memory.turns import SentRequest, Turn
from appliance.storage.database import Database
from tests.unit.memory.stopped_clock import StoppedClock

REQUEST = SentRequest(model="m", messages=(UserMessage(text="x"),), sampling=SamplingParams(seed=1))


def say(conversations: Conversations, chat_id: str, text: str, parent_id: str | None = None) -> Turn:
    return conversations.turns.add_user_turn(chat_id, text, parent_id=parent_id)


def begin(conversations: Conversations, question: Turn) -> Turn:
    return conversations.turns.begin_answer(question.chat_id, REQUEST, parent_id=question.id)


def test_a_chat_takes_its_title_from_the_first_question_and_keeps_the_users_own(
    conversations: Conversations,
) -> None:
    chat = conversations.chats.create()
    assert chat.title == "New chat"
    first = say(conversations, chat.id, "  How do\nI bake bread?  ")

    assert conversations.chats.get(chat.id).title == "How do I bake bread?"
    conversations.chats.rename(chat.id, " Bread \t talk ")
    say(conversations, chat.id, "And rolls?", first.id)
    assert conversations.chats.get(chat.id).title == "Bread talk"


@pytest.mark.parametrize("title", ["", " \n ", "x" * 201])
def test_a_title_that_cannot_be_shown_is_refused(title: str, conversations: Conversations) -> None:
    chat = conversations.chats.create()

    with pytest.raises(InvalidRequestError):
        conversations.chats.rename(chat.id, title)


def test_a_long_first_question_is_cut_at_a_word() -> None:
    title = title_from("word " * 40)

    assert len(title) <= 60
    assert title.endswith("word…")


def test_lists_show_pinned_chats_first_then_by_last_use(conversations: Conversations) -> None:
    old, used, pinned = (conversations.chats.create(title=title) for title in ("old", "used", "pinned"))
    say(conversations, pinned.id, "hello")
    say(conversations, used.id, "hello")
    conversations.chats.pin(pinned.id)

    assert [chat.id for chat in conversations.chats.list_chats()] == [pinned.id, used.id, old.id]
    conversations.chats.pin(pinned.id, is_pinned=False)
    assert [chat.id for chat in conversations.chats.list_chats(limit=1)] == [used.id]


def test_a_deleted_chat_is_found_nowhere_and_comes_back_whole(conversations: Conversations) -> None:
    chat = conversations.chats.create()
    turn = say(conversations, chat.id, "where is zanzibar")
    conversations.chats.delete(chat.id)

    assert conversations.chats.list_chats("all") == []
    assert conversations.search("zanzibar") == []
    assert [each.id for each in conversations.chats.list_chats("trash")] == [chat.id]
    with pytest.raises(InvalidRequestError, match="trash"):
        say(conversations, chat.id, "more", turn.id)
    last = conversations.chats.last_deleted()
    assert last is not None
    conversations.chats.restore(last.id)
    assert [each.text for each in conversations.turns.shown_branch(chat.id)] == ["where is zanzibar"]
    assert len(conversations.search("zanzibar")) == 2
    assert conversations.chats.last_deleted() is None


def test_an_archived_chat_leaves_the_list_and_search_still_finds_it(conversations: Conversations) -> None:
    chat = conversations.chats.create(title="Old plans")
    conversations.chats.archive(chat.id)

    assert conversations.chats.list_chats() == []
    assert [hit.is_archived for hit in conversations.search("plans")] == [True]
    assert conversations.chats.archive(chat.id, is_archived=False).is_archived is False


def test_a_chat_is_named_by_the_start_of_its_id_or_its_title(conversations: Conversations) -> None:
    chat = conversations.chats.create(title="Bread")
    conversations.chats.create(title="Twin")
    conversations.chats.create(title="Twin")

    assert conversations.chats.resolve(chat.id[:6].upper()).id == chat.id
    assert conversations.chats.resolve("Bread").id == chat.id
    for reference, message in (
        (chat.id[:3], "no chat"),
        ("Twin", "fits 2 chats"),
        ("", "no chat"),
        ("%", "no"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            conversations.chats.resolve(reference)


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_question_is_refused(text: str, conversations: Conversations) -> None:
    chat = conversations.chats.create()

    with pytest.raises(InvalidRequestError, match="no text"):
        say(conversations, chat.id, text)


def test_what_sqlite_cannot_hold_is_replaced_not_lost(conversations: Conversations) -> None:
    chat = conversations.chats.create()

    turn = say(conversations, chat.id, "a\x00b \ud800 c 😀")

    assert turn.text == "a\ufffdb \ufffd c 😀"
    assert len(conversations.search("c")) == 2


def test_every_call_refuses_the_ids_of_another_owner(
    conversations: Conversations, database: Database, clock: StoppedClock
) -> None:
    theirs = Conversations(database, owner="other")
    chat = theirs.chats.create(title="secret zanzibar")
    question = say(theirs, chat.id, "secret zanzibar")
    answer = begin(theirs, question)
    mine = conversations.chats.create()
    own = say(conversations, mine.id, "mine")
    chats, turns = conversations.chats, conversations.turns
    attempts = [
        lambda: chats.get(chat.id),
        lambda: chats.resolve(chat.id),
        lambda: chats.rename(chat.id, "x"),
        lambda: chats.pin(chat.id),
        lambda: chats.archive(chat.id),
        lambda: chats.delete(chat.id),
        lambda: chats.restore(chat.id),
        lambda: chats.set_system_text(chat.id, "x"),
        lambda: turns.get(question.id),
        lambda: turns.shown_branch(chat.id),
        lambda: turns.branches_at(question.id),
        lambda: turns.show_branch_of(question.id),
        lambda: turns.request_of(answer.id),
        lambda: turns.receipt_of(answer.id),
        lambda: turns.add_user_turn(chat.id, "x", parent_id=None),
        lambda: turns.add_user_turn(mine.id, "x", parent_id=question.id),
        lambda: turns.add_note(chat.id, "x", parent_id=question.id),
        lambda: turns.begin_answer(chat.id, REQUEST, parent_id=question.id),
        lambda: turns.journal(answer.id, clock).append(TextDelta(text="x")),
        lambda: turns.journal(answer.id, clock).finish(AnswerEnd(state="done")),
        lambda: conversations.summaries.add([question], "x", made_by="m"),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidRequestError):
            attempt()

    assert turns.all_turns(chat.id) == turns.branch(question.id) == []
    assert conversations.search("zanzibar") == []
    assert conversations.summaries.of_chat(chat.id) == []
    assert [each.id for each in chats.list_chats("all")] == [mine.id]
    assert theirs.chats.get(chat.id).title == "secret zanzibar"
    assert theirs.turns.get(answer.id).text == ""
    assert own.text == "mine"


def test_branches_are_switched_down_to_their_newest_leaf(conversations: Conversations) -> None:
    chat = conversations.chats.create()
    root = say(conversations, chat.id, "root")
    left = say(conversations, chat.id, "left", root.id)
    leaf = say(conversations, chat.id, "leaf of left", left.id)
    right = say(conversations, chat.id, "right", root.id)

    assert [turn.text for turn in conversations.turns.shown_branch(chat.id)] == ["root", "right"]
    assert conversations.turns.branches_at(right.id).turn_ids == (left.id, right.id)
    assert [turn.id for turn in conversations.turns.show_branch_of(left.id)] == [root.id, left.id, leaf.id]
    assert conversations.chats.get(chat.id).active_turn_id == leaf.id
    hits = {hit.excerpt: hit.is_shown for hit in conversations.search("right")}
    assert hits == {"right": False}


def test_a_request_keeps_turns_by_reference_and_comes_back_word_for_word(
    conversations: Conversations, database: Database
) -> None:
    chat = conversations.chats.create()
    question = say(conversations, chat.id, "a long question " * 200)
    message = question.message()
    assert message is not None
    request = SentRequest(
        model="m", messages=(UserMessage(text="evidence"), message), sampling=SamplingParams(seed=3)
    )

    answer = conversations.turns.begin_answer(chat.id, request, parent_id=question.id)

    assert conversations.turns.request_of(answer.id) == request
    with database.read() as connection:
        (stored,) = connection.execute("SELECT request_json FROM answers").fetchone()
    assert "a long question" not in stored


def test_an_answer_that_a_living_process_writes_is_partial_and_left_alone(
    conversations: Conversations, database: Database, clock: StoppedClock
) -> None:
    chat = conversations.chats.create()
    answer = begin(conversations, say(conversations, chat.id, "hello"))
    journal = conversations.turns.journal(answer.id, clock)
    journal.append(TextDelta(text="so far"))

    assert stop_unfinished_answers(database) == 0
    assert conversations.turns.get(answer.id).state == "partial"
    assert conversations.turns.get(answer.id).text == "so far"


def test_an_answer_whose_writer_died_is_shown_as_stopped_and_then_stored_so(
    conversations: Conversations, database: Database, clock: StoppedClock
) -> None:
    chat = conversations.chats.create()
    answer = begin(conversations, say(conversations, chat.id, "hello"))
    conversations.turns.journal(answer.id, clock).append(TextDelta(text="zanzibar so far"))
    with database.transaction() as connection:
        connection.execute("UPDATE turns SET writer = '1:0:another boot' WHERE id = ?", (answer.id,))

    before = conversations.turns.get(answer.id)
    stopped = stop_unfinished_answers(database)
    after = conversations.turns.get(answer.id)

    assert (before.state, before.text, stopped) == ("stopped", "zanzibar so far", 1)
    assert (after.state, after.text) == ("stopped", "zanzibar so far")
    assert len(conversations.search("zanzibar")) == 1
    assert stop_unfinished_answers(database) == 0


def test_the_disk_is_synced_every_32_tokens_or_second(
    conversations: Conversations, clock: StoppedClock
) -> None:
    chat = conversations.chats.create()
    journal = conversations.turns.journal(begin(conversations, say(conversations, chat.id, "hi")).id, clock)
    due: list[bool] = []
    for _ in range(64):
        journal.append(TextDelta(text="abc"))
        due.append(journal.checkpoint_due_in_s is None)
    assert [position for position, is_synced in enumerate(due) if is_synced] == [31, 63]

    journal.append(TextDelta(text="abc"))
    clock.pass_s(0.6)
    assert journal.checkpoint_due_in_s == pytest.approx(0.4)
    clock.pass_s(0.5)
    journal.append(TextDelta(text="abc"))
    assert journal.checkpoint_due_in_s is None


def test_two_tool_calls_with_one_id_fail_the_answer_and_keep_its_text(
    conversations: Conversations, clock: StoppedClock
) -> None:
    chat = conversations.chats.create()
    answer = begin(conversations, say(conversations, chat.id, "hi"))
    journal = conversations.turns.journal(answer.id, clock)
    journal.append(TextDelta(text="I look"))
    for index in range(2):
        journal.append(ToolCallDelta(index=index, call_id="same", name="look", arguments_delta="{}"))

    journal.finish(AnswerEnd(state="done", finish_reason="tool_calls"))

    ended = conversations.turns.get(answer.id)
    assert (ended.state, ended.text, ended.tool_calls) == ("failed", "I look", ())


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("cafe", True),
        ("CAFÉ", True),
        ("caf", True),
        ("afé", False),
        ('"le café"', True),
        ('"café le"', False),
        ("日本語", True),
        ("本", True),
        ("語の", True),
        ("日語", False),
        ("テスト", True),
        ("strasse", True),
        ("한국", True),
        ("Москв", True),
        ("สวัส", True),
        ("foo_bar", True),
        ("café zanzibar", False),
        ("", False),
        ('"', False),
        ("' OR 1=1 --", False),
        ("NEAR(", False),
        ("body:café", False),
        ("*", False),
    ],
)
def test_search_finds_words_in_any_script_and_takes_no_query_for_a_command(
    query: str, is_found: bool, conversations: Conversations
) -> None:
    chat = conversations.chats.create(title="t")
    say(conversations, chat.id, "Le Café, 日本語のテスト Straße 한국어 Москва สวัสดี foo_bar")

    assert bool(conversations.search(query)) is is_found


def test_an_excerpt_marks_what_was_found(conversations: Conversations) -> None:
    chat = conversations.chats.create(title="t")
    say(conversations, chat.id, "filler " * 60 + "the café at the corner " + "filler " * 60)

    (hit,) = conversations.search("cafe corner")

    assert [hit.excerpt[start:end] for start, end in hit.marks] == ["café", "corner"]
    assert len(hit.excerpt) < 200
    assert hit.excerpt.startswith("…")
    assert hit.excerpt.endswith("…")


def test_a_summary_fits_only_branches_that_hold_all_it_covers(conversations: Conversations) -> None:
    chat = conversations.chats.create()
    root = say(conversations, chat.id, "root")
    left = say(conversations, chat.id, "left", root.id)
    right = say(conversations, chat.id, "right", root.id)
    conversations.summaries.add([root], "short", made_by="m")
    longer = conversations.summaries.add([root, left], "longer", made_by="m")

    found = conversations.summaries.for_branch(conversations.turns.branch(left.id))
    other = conversations.summaries.for_branch(conversations.turns.branch(right.id))

    assert found == longer
    assert other is not None
    assert other.text == "short"
