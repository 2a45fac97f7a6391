"""What was asked is kept for the history of the terminal interface, and goes with the chat it was asked in."""

from pathlib import Path

from appliance.core.forgetting import ForgetChat
from appliance.memory.asked import ASKED_FILE, AskedQuestions, ForgettableQuestions
from appliance.memory.conversations import Conversations
from appliance.memory.schema import CONVERSATIONS
from appliance.storage.database import Database


def test_questions_come_back_in_order_and_a_broken_line_is_left_out(tmp_path: Path) -> None:
    asked = AskedQuestions(tmp_path)
    asked.add("one\ntwo")
    with (tmp_path / ASKED_FILE).open("a", encoding="utf-8") as file:
        file.write('{"no text"\n')
    asked.add("長江?")

    assert asked.read() == ["one\ntwo", "長江?"]


def test_a_question_is_forgotten_with_its_chat_and_stays_while_another_has_it(tmp_path: Path) -> None:
    database = Database(tmp_path / "chats.db", [CONVERSATIONS])
    chats = Conversations(database)
    kept = chats.chats.create()
    chats.turns.add_user_turn(kept.id, "asked twice", parent_id=None)
    asked = AskedQuestions(tmp_path)
    for text in ("secret", "asked twice"):
        asked.add(text)

    report = ForgettableQuestions(asked, database).forget(ForgetChat(chat_id="gone"))

    assert report.removed == {"questions": 1}
    assert asked.read() == ["asked twice"]
    assert "secret" not in (tmp_path / ASKED_FILE).read_text(encoding="utf-8")
    database.close()
