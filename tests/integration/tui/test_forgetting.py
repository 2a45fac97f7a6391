"""`/forget` in the terminal interface: asked first, done everywhere, shown with its receipt."""

from dataclasses import replace
from pathlib import Path

from appliance.config import load_settings
from appliance.core.forgetting import ForgetChat, ForgetDocument, ForgetSubject
from tests.screen_text import screen_text, until
from tests.ui_session import TestSession
from tui.app import ApplianceUI
from tui.in_process.session import InProcessSession
from tui.screens.chat import ChatScreen
from tui.screens.dialogs import Confirm


async def test_a_chat_is_forgotten_only_after_a_yes_and_the_receipt_is_shown(tmp_path: Path) -> None:
    session = TestSession(tmp_path)
    app = ApplianceUI(session)
    async with app.run_test() as pilot:
        chat = app.screen
        assert isinstance(chat, ChatScreen)
        await until(lambda: chat.is_open, "the session is open")
        chat.prompt.write("my secret")
        await pilot.press("enter")
        await until(lambda: len(chat.transcript.turns) == 2 and not chat.is_answering, "the answer ends")
        assert chat.chat is not None
        chat_id = chat.chat.id
        chat.prompt.write("/forget")
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Confirm), "it asks")
        await pilot.press("enter")
        await until(lambda: app.screen is chat, "Enter alone is no")
        assert session.forgetting.asked == []

        chat.prompt.write("/forget")
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Confirm), "it asks again")
        await pilot.press("y")
        await until(lambda: "Result: nothing remains" in screen_text(app), "the receipt is shown")

        assert session.forgetting.asked == [ForgetChat(chat_id=chat_id)]
        assert chat.chat is None


async def test_a_document_and_a_subject_can_be_forgotten_and_an_unknown_name_is_told(tmp_path: Path) -> None:
    session = TestSession(tmp_path)
    app = ApplianceUI(session)
    async with app.run_test() as pilot:
        chat = app.screen
        assert isinstance(chat, ChatScreen)
        await until(lambda: chat.is_open, "the session is open")
        for argument in ("@lease.pdf", "Ada Byron"):
            chat.prompt.write(f"/forget {argument}")
            await pilot.press("enter")
            await until(lambda: isinstance(app.screen, Confirm), "it asks")
            await pilot.press("y")
            await until(lambda: "Result: nothing remains" in screen_text(app), "the receipt is shown")
            await pilot.press("escape")
            await until(lambda: app.screen is chat, "the page is left")
        chat.prompt.write("/forget @nobody.pdf")
        await pilot.press("enter")
        await until(lambda: "no document is named" in screen_text(app), "an unknown document is told")

        assert session.forgetting.asked == [
            ForgetDocument(document_id="d1"),
            ForgetSubject(phrase="Ada Byron"),
        ]


async def test_what_is_forgotten_is_gone_from_the_store_and_noted_without_its_words(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("data_dir", "state_dir", "cache_dir")}
    settings = replace(load_settings({"model": "scripted:echo", "facts": "off"}), **folders)
    session = InProcessSession(settings)
    await session.open()
    chat = await session.chats.create()
    async for _ in session.chats.ask(chat.id, "the zanzibar affair"):
        pass

    counts = await session.forgetting.preview(ForgetChat(chat_id=chat.id))
    forgotten = await session.forgetting.forget(ForgetChat(chat_id=chat.id))
    left = await session.chats.list_chats()
    await session.close()

    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert counts["turns"] == 2
    assert forgotten.is_clean
    assert "nothing remains" in forgotten.receipt
    assert left == []
    assert b"zanzibar" not in stored
    assert b"forgotten.chat" in stored
