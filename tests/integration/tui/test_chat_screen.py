"""The chat as a user drives it: keys in, screen and store out."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.events import Key, Paste
from textual.pilot import Pilot

from appliance.core.clock import SystemClock
from appliance.core.errors import Failure
from appliance.core.forgetting import ForgetChat
from appliance.memory.forget_chats import ForgettableChats
from appliance.providers.script import EchoQuestion, Fail, Say, ScriptedModel, Think
from tests.screen_text import screen_text, until
from tests.ui_session import MODEL, TestSession
from tui.app import ApplianceUI
from tui.screens.chat import ChatScreen
from tui.widgets.turn import TurnView

ENDLESS = ScriptedModel(name=MODEL, turns=((Say(text="word " * 2000, token_s=0.01),),))


def chat_of(app: ApplianceUI) -> ChatScreen:
    screen = app.screen_stack[1]
    assert isinstance(screen, ChatScreen)
    return screen


async def opened(app: ApplianceUI, pilot: Pilot[None]) -> ChatScreen:
    await until(lambda: app.is_session_open, "the session opens")
    await pilot.pause()
    return chat_of(app)


async def ask(app: ApplianceUI, pilot: Pilot[None], text: str) -> None:
    chat = chat_of(app)
    before = len(chat.transcript.turns)
    chat.prompt.write(text)
    await pilot.press("enter")
    await until(lambda: len(chat.transcript.turns) > before and not chat.is_answering, "the answer ends")
    await pilot.pause()


def roles_and_texts(chat: ChatScreen) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in chat.transcript.turns]


async def test_a_question_is_answered_on_the_screen_and_kept_in_the_store(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await pilot.press(*"hello", "enter")
        await until(lambda: len(chat.transcript.turns) == 2 and not chat.is_answering, "the answer ends")
        await pilot.pause()

        assert "hello" in screen_text(app)
        assert chat.chat is not None
        stored = await app.session.chats.branch(chat.chat.id)
        assert [(turn.role, turn.text) for turn in stored] == [("user", "hello"), ("assistant", "hello")]


async def test_a_question_that_could_not_be_stored_stands_in_the_input_again(tmp_path: Path) -> None:
    session = TestSession(tmp_path)
    app = ApplianceUI(session)
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "hello")
        assert chat.chat is not None
        ForgettableChats(session.conversations.database).forget(ForgetChat(chat_id=chat.chat.id))
        chat.prompt.write("a long thought")
        await pilot.press("enter")
        await until(lambda: chat.prompt.text == "a long thought", "the question is back")

        assert not chat.is_answering


async def test_an_edit_that_could_not_be_stored_is_an_edit_again(tmp_path: Path) -> None:
    session = TestSession(tmp_path)
    app = ApplianceUI(session)
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "hello")
        chat.prompt.write("/edit")
        await pilot.press("enter")
        await until(lambda: chat.editing is not None, "the question is edited")
        edited = chat.editing
        assert chat.chat is not None
        ForgettableChats(session.conversations.database).forget(ForgetChat(chat_id=chat.chat.id))
        chat.prompt.write("hello again")
        await pilot.press("enter")
        await until(lambda: "there is no chat" in screen_text(app), "it could not be stored")
        await until(lambda: chat.prompt.text == "hello again" and not chat.is_answering, "it is back")

        assert chat.editing == edited


async def test_a_question_sent_before_the_store_is_open_is_sent_once_it_is(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = chat_of(app)
        chat.prompt.write("early")
        await pilot.press("enter")
        await until(lambda: len(chat.transcript.turns) == 2 and not chat.is_answering, "the answer ends")

        assert roles_and_texts(chat) == [("user", "early"), ("assistant", "early")]


async def test_escape_stops_the_answer_and_keeps_what_was_written(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path, ENDLESS, clock=SystemClock()))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await pilot.press(*"go", "enter")
        await until(lambda: "word" in screen_text(app), "the answer begins")
        await pilot.press("escape")
        await until(lambda: not chat.is_answering, "the answer stops")

        answer = chat.transcript.turns[-1]
        assert answer.state == "stopped"
        assert 0 < len(answer.text) < len("word " * 2000)
        assert answer.text.startswith("word word")
        await pilot.pause()
        assert "k continues" in screen_text(app)


async def test_a_stopped_answer_can_be_continued(tmp_path: Path) -> None:
    model = ScriptedModel(name=MODEL, turns=((Say(text="first " * 30, token_s=0.05),),))
    app = ApplianceUI(TestSession(tmp_path, model, clock=SystemClock()))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await pilot.press(*"go", "enter")
        await until(lambda: "first" in screen_text(app), "the answer begins")
        await pilot.press("escape")
        await until(lambda: not chat.is_answering, "the answer stops")
        stopped = chat.transcript.turns[-1].text
        chat.prompt.write("/continue")
        await pilot.press("enter")
        await until(lambda: chat.transcript.turns[-1].state == "done", "the answer goes on")

        assert chat.transcript.turns[-1].text.split() == ["first"] * 30
        assert chat.transcript.turns[-1].text.startswith(stopped)
        assert len(chat.transcript.turns) == 2


async def test_editing_a_question_makes_a_branch_and_the_old_one_stays_reachable(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "one")
        chat.prompt.write("/edit")
        await pilot.press("enter")
        await until(lambda: chat.editing is not None, "the question is edited")
        assert chat.prompt.text == "one"
        chat.prompt.write("two")
        await pilot.press("enter")
        await until(lambda: roles_and_texts(chat)[-1:] == [("assistant", "two")], "the new branch is shown")
        await until(lambda: not chat.is_answering, "the answer ends")

        assert roles_and_texts(chat) == [("user", "two"), ("assistant", "two")]
        view = chat.query(TurnView).first()
        view.focus()
        await pilot.press("left")
        await until(lambda: roles_and_texts(chat)[0] == ("user", "one"), "the old branch is shown")
        assert "‹ 1/2 ›" in screen_text(app)


async def test_regenerating_keeps_the_old_answer_on_a_branch(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "again please")
        first = chat.transcript.turns[-1].id
        chat.query(TurnView).last().focus()
        await pilot.press("r")
        await until(lambda: chat.transcript.turns[-1].id != first and not chat.is_answering, "answers again")
        await pilot.pause()

        branches = await app.session.chats.branches_at(first)
        assert len(branches.turn_ids) == 2
        assert "‹ 2/2 ›" in screen_text(app)


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter"])
async def test_a_new_line_is_no_end_of_the_question(tmp_path: Path, key: str) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        height = chat.prompt.size.height
        await pilot.press("a", key, "b")
        await pilot.pause()

        assert chat.prompt.text == "a\nb"
        assert chat.prompt.size.height == height + 1
        assert chat.transcript.turns == []


async def test_a_paste_of_100_kb_arrives_whole_and_its_newlines_do_not_send(tmp_path: Path) -> None:
    text = "line of pasted text\r\n" * 5000
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        chat.prompt.post_message(Paste(text))
        await pilot.pause()

        assert chat.prompt.text == text.replace("\r\n", "\n")
        assert chat.transcript.turns == []


async def test_up_recalls_questions_only_from_the_first_line(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "older")
        await ask(app, pilot, "newer")
        await pilot.press("x", "ctrl+j", "y", "up")
        assert chat.prompt.text == "x\ny"
        await pilot.press("up")
        assert chat.prompt.text == "newer"
        await pilot.press("up")
        assert chat.prompt.text == "older"
        await pilot.press("down", "down")

        assert chat.prompt.text == "x\ny"


async def test_thinking_is_folded_until_it_is_asked_for(tmp_path: Path) -> None:
    model = ScriptedModel(name=MODEL, turns=((Think(text="secret plan"), Say(text="Answer.")),))
    app = ApplianceUI(TestSession(tmp_path, model))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "why")
        assert "secret plan" not in screen_text(app)
        assert "thought 2 words" in screen_text(app)
        chat.query(TurnView).last().focus()
        await pilot.press("t")
        await pilot.pause()

        assert "secret plan" in screen_text(app)


async def test_a_failure_of_the_model_is_shown_with_what_was_written(tmp_path: Path) -> None:
    fail = Fail(failure=Failure(kind="engine_crashed", message="the worker died", hint="ask again"))
    model = ScriptedModel(name=MODEL, turns=((Say(text="Half of"), fail),))
    app = ApplianceUI(TestSession(tmp_path, model))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await ask(app, pilot, "why")

        text = screen_text(app)
        assert "Half of" in text
        assert "the worker died" in text
        assert "ask again" in text


async def test_the_reader_who_scrolled_up_is_left_alone_and_told_of_new_lines(tmp_path: Path) -> None:
    paragraphs = "\n\n".join(f"paragraph {n}" for n in range(400))
    model = ScriptedModel(name=MODEL, turns=((Say(text=paragraphs, token_s=0.01),),))
    app = ApplianceUI(TestSession(tmp_path, model, clock=SystemClock()))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await pilot.press(*"go", "enter")
        await until(lambda: chat.transcript.max_scroll_y > 20, "the answer is longer than the screen")
        await pilot.press("pageup")
        await pilot.pause()
        where = chat.transcript.scroll_y
        await until(lambda: "new lines" in screen_text(app), "the pill appears")
        assert chat.transcript.scroll_y == where
        await pilot.press("ctrl+end")
        await until(lambda: "new lines" not in screen_text(app), "the pill goes")
        await pilot.press("escape")
        await until(lambda: not chat.is_answering, "the answer stops")

        assert chat.transcript.is_following


async def test_an_unknown_command_names_the_nearest_and_sends_nothing(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test(notifications=True) as pilot:
        chat = await opened(app, pilot)
        chat.prompt.write("/modle")
        await pilot.press("enter")
        await until(lambda: "did you mean /model" in screen_text(app), "the nearest is named")

        assert chat.transcript.turns == []


async def test_a_chat_that_was_deleted_comes_back_with_undo(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "keep me")
        chat.prompt.write("/delete")
        await pilot.press("enter")
        await until(lambda: chat.chat is None, "the chat is gone")
        assert await app.session.chats.list_chats() == []
        chat.prompt.write("/undo")
        await pilot.press("enter")
        await until(lambda: chat.chat is not None, "the chat is back")
        await until(lambda: len(chat.transcript.turns) == 2, "its turns are shown")

        assert roles_and_texts(chat) == [("user", "keep me"), ("assistant", "keep me")]


async def test_the_list_of_chats_finds_words_of_an_answer(tmp_path: Path) -> None:
    model = ScriptedModel(name=MODEL, turns=((EchoQuestion(), Say(text=" with a needle inside")),))
    app = ApplianceUI(TestSession(tmp_path, model))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "first chat")
        await pilot.press("ctrl+n")
        await ask(app, pilot, "second chat")
        await pilot.press("f2")
        await until(lambda: "Chats · 2" in screen_text(app), "both chats are listed")
        await pilot.press("slash", *"needle second")
        await until(lambda: "1 found" in screen_text(app), "one is found")
        await pilot.press("enter")
        await until(lambda: app.screen is chat, "the chat is opened")

        assert chat.chat is not None
        assert chat.chat.title == "second chat"


@pytest.mark.parametrize("rows", [24, 200], ids=["pages", "a screen that holds more than is mounted"])
async def test_a_long_chat_mounts_its_last_page_and_the_others_on_the_way_up(
    rows: int, tmp_path: Path
) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test(size=(80, rows)) as pilot:
        chat = await opened(app, pilot)
        stored = await app.session.chats.create()
        for number in range(30):
            async for _ in app.session.chats.ask(stored.id, f"question {number}"):
                pass
        await app.open_chat(stored.id)
        await pilot.pause()
        assert len(chat.query(TurnView)) < len(chat.transcript.turns) == 60
        for _ in range(40):
            await pilot.press("pageup")
            await pilot.pause()

        await until(lambda: len(chat.query(TurnView)) == 60, "all turns were loaded at the top")


async def test_quitting_while_an_answer_is_written_keeps_what_was_shown(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path, ENDLESS, clock=SystemClock()))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await pilot.press(*"go", "enter")
        await until(lambda: "word word" in screen_text(app), "the answer begins")
        await pilot.press("ctrl+q")

    again = ApplianceUI(TestSession(tmp_path))
    async with again.run_test() as pilot:
        chat = await opened(again, pilot)
        (stored,) = await again.session.chats.list_chats()
        await again.open_chat(stored.id)
        await pilot.pause()

        answer = chat.transcript.turns[-1]
        assert answer.role == "assistant"
        assert answer.state == "stopped"
        assert answer.text.startswith("word word")


async def test_an_earlier_turn_that_does_not_fit_is_said_in_the_chat(tmp_path: Path) -> None:
    model = ScriptedModel(name=MODEL, turns=((EchoQuestion(),),), context_window=200)
    app = ApplianceUI(TestSession(tmp_path, model))
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(app, pilot)
        await ask(app, pilot, "first " * 50)
        await ask(app, pilot, "second " * 60)

        assert "are not in the prompt: they do not fit" in screen_text(app)


async def test_a_key_right_after_tab_acts_on_the_turn_and_not_on_the_input(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "again and again")
        first = chat.transcript.turns[-1].id
        for key in ("tab", "r"):
            app.post_message(Key(key, None if key == "tab" else key))
        await until(lambda: chat.transcript.turns[-1].id != first, "the turn is answered again")

        assert chat.prompt.text == ""


async def test_the_beginning_of_a_long_chat_is_one_key_away_and_so_is_its_end(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        stored = await app.session.chats.create()
        for number in range(40):
            async for _ in app.session.chats.ask(stored.id, f"question {number}."):
                pass
        await app.open_chat(stored.id)
        await until(lambda: "question 39." in screen_text(app), "the end is shown")

        await pilot.press("ctrl+home")
        await until(lambda: "question 0." in screen_text(app), "the beginning is shown")
        assert "later turns" not in screen_text(app)
        for _ in range(3):
            await pilot.press("pagedown")
            await pilot.pause()
        assert not chat.transcript.is_following
        await pilot.press("ctrl+end")
        await until(lambda: "question 39." in screen_text(app), "the end is shown again")

        await until(lambda: chat.transcript.is_following, "it follows again")


async def test_an_answer_far_above_the_reader_is_there_again_when_she_goes_back(tmp_path: Path) -> None:
    answer = "\n\n".join(f"paragraph {number}" for number in range(120))
    app = ApplianceUI(TestSession(tmp_path, ScriptedModel(name=MODEL, turns=((Say(text=answer),),))))
    async with app.run_test() as pilot:
        chat = await opened(app, pilot)
        await ask(app, pilot, "go")
        await until(lambda: "paragraph 119" in screen_text(app), "the end is shown")
        height = chat.transcript.virtual_size.height
        await pilot.press("ctrl+home")
        await until(lambda: "paragraph 0\n" in screen_text(app), "the beginning is shown")

        assert chat.transcript.virtual_size.height == height
