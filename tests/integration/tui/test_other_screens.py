"""Models, library and settings as a user drives them."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from tests.screen_text import screen_text, until
from tests.ui_session import (
    DOCUMENT,
    FixedLibrary,
    FixedModels,
    TestSession,
    an_answer,
    some_documents,
    some_models,
    some_passages,
)
from tui.app import ApplianceUI
from tui.screens.chat import ChatScreen


async def opened(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await until(lambda: app.model_state == "ready", "the model is loaded")
    await pilot.pause()


async def test_a_model_is_loaded_and_unloaded_from_the_catalogue(tmp_path: Path) -> None:
    models = FixedModels(some_models())
    app = ApplianceUI(TestSession(tmp_path, models=models))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await pilot.press("f4")
        await until(lambda: "tight" in screen_text(app), "the models are listed")
        await pilot.press("down", "l")
        await until(lambda: "qwen3:8b-q4_k_m is loaded" in screen_text(app), "the model is loaded")
        assert "qwen3:8b-q4_k_m" in models.loaded
        await pilot.press("u")
        await until(lambda: "qwen3:8b-q4_k_m" not in models.loaded, "the model is unloaded")


async def test_enter_on_a_model_lets_it_answer(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await pilot.press("f4")
        await until(lambda: "tight" in screen_text(app), "the models are listed")
        await pilot.press("down", "enter")
        await until(lambda: isinstance(app.screen, ChatScreen), "the chat is shown")

        assert app.session.model == "qwen3:8b-q4_k_m"


async def test_a_model_that_cannot_chat_or_is_not_here_is_refused_with_the_reason(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test(notifications=True) as pilot:
        await opened(app, pilot)
        model = app.session.model
        await pilot.press("f4")
        await until(lambda: "tight" in screen_text(app), "the models are listed")
        await pilot.press("down", "down", "enter")
        await until(lambda: "p fetches it" in screen_text(app), "the way out is named")
        await pilot.press("down", "enter")
        await until(lambda: "cannot chat" in screen_text(app), "the reason is named")

        assert app.session.model == model


async def test_a_document_that_failed_says_why(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await pilot.press("f3")
        await until(lambda: "1 failed" in screen_text(app), "the documents are listed")
        await pilot.press("down", "down")
        await until(lambda: "encrypted: it has a password" in screen_text(app), "the reason is shown")


async def test_adding_a_file_reports_each_outcome(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await pilot.press("f3")
        await until(lambda: "documents: 3" in screen_text(app), "the documents are listed")
        await pilot.press("a")
        await pilot.press(*"secret", "enter")
        await pilot.press("enter")
        await until(lambda: "failed secret (encrypted" in screen_text(app), "the outcome is shown")

        assert "in default" in screen_text(app)


async def test_a_document_is_removed_only_after_a_yes(tmp_path: Path) -> None:
    library = FixedLibrary(some_documents(), some_passages())
    app = ApplianceUI(TestSession(tmp_path, library=library))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await pilot.press("f3")
        await until(lambda: "documents: 3" in screen_text(app), "the documents are listed")
        await pilot.press("d", "enter")
        await pilot.pause()
        assert len(library.rows_shown) == 3
        await pilot.press("d", "y")
        await until(lambda: "documents: 2" in screen_text(app), "one is gone")


async def test_the_palette_finds_a_screen(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await pilot.press("ctrl+p")
        await pilot.press(*"sett")
        await until(lambda: "F5: every setting" in screen_text(app), "the screen is found")
        await pilot.press("down", "enter")
        await until(lambda: "APPLIANCE_OFFLINE" in screen_text(app), "the settings are shown")


async def test_the_theme_changes_and_the_text_stays(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await pilot.press("f5")
        await until(lambda: "APPLIANCE_OFFLINE" in screen_text(app), "the settings are shown")
        before, was_dark = screen_text(app), app.current_theme.dark
        await pilot.press("t")
        await pilot.pause()

        assert app.current_theme.dark is not was_dark
        assert screen_text(app) == before


async def test_a_source_opens_the_document_at_its_quote_and_an_invented_one_is_marked(tmp_path: Path) -> None:
    library = FixedLibrary(some_documents(), some_passages(), DOCUMENT, an_answer())
    app = ApplianceUI(TestSession(tmp_path, library=library))
    async with app.run_test(notifications=True) as pilot:
        await opened(app, pilot)
        await pilot.press("f3")
        await until(lambda: "documents: 3" in screen_text(app), "the documents are listed")
        await pilot.press("q", *"when", "enter")
        await until(lambda: "Three months. [1]" in screen_text(app), "the answer is shown")
        assert "✗ UNVERIFIED" in screen_text(app)
        assert "UNVERIFIED: It is free." in screen_text(app)
        await pilot.press("enter")
        await until(lambda: "The notice period is three months." in screen_text(app), "the quote is in sight")
        await until(lambda: "verified word for word" in screen_text(app), "the document is shown")
        await pilot.press("escape", "down", "enter")
        await until(lambda: "stands in no document" in screen_text(app), "there is nothing to open")


async def test_the_documents_can_be_asked_from_the_chat(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        chat = app.screen
        assert isinstance(chat, ChatScreen)
        chat.prompt.write("/ask when may I leave")
        await pilot.press("enter")
        await until(lambda: "Three months. [1]" in screen_text(app), "the answer is shown")
        await pilot.press("escape")
        await until(lambda: app.screen is chat, "the chat is back")

        assert chat.transcript.turns == []
