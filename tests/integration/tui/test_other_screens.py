"""Models, library and settings as a user drives them."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Input

from appliance.config.keys import USUAL_KEYS
from appliance.providers.script import Say, ScriptedModel
from tests.screen_text import screen_text, until
from tests.ui_session import (
    ANSWER,
    DOCUMENT,
    MODEL,
    FixedLibrary,
    FixedModels,
    TestSession,
    some_documents,
    some_models,
    some_passages,
)
from tui.app import ApplianceUI
from tui.screens.chat import ChatScreen
from tui.screens.file_picker import FilePicker
from tui.widgets.turn import TurnView


async def opened(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await until(lambda: app.model_state == "ready", "the model is loaded")
    await pilot.pause()


def chat_of(app: ApplianceUI) -> ChatScreen:
    screen = app.screen_stack[1]
    assert isinstance(screen, ChatScreen)
    return screen


async def test_a_model_that_runs_elsewhere_is_said_to_beside_its_name(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path, leaves_for="gpu.example"))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)

        assert "leaves this machine for gpu.example" in screen_text(app)


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
        await pilot.press("full_stop", "slash", *"secret", "enter")
        await pilot.press("enter")
        await until(lambda: "failed ./secret (encrypted" in screen_text(app), "the outcome is shown")

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
    library = FixedLibrary(some_documents(), some_passages(), DOCUMENT)
    app = ApplianceUI(TestSession(tmp_path, library=library))
    async with app.run_test(notifications=True) as pilot:
        await opened(app, pilot)
        await pilot.press("f3")
        await until(lambda: "documents: 3" in screen_text(app), "the documents are listed")
        await pilot.press("q", *"when", "enter")
        await until(lambda: "s opens the sources" in screen_text(app), "the answer is shown")
        assert "✗ UNVERIFIED" in screen_text(app)
        chat_of(app).query(TurnView).last().focus()
        await pilot.press("s")
        await until(lambda: "read 2 of 96 passages" in screen_text(app), "the sources are shown")
        assert "UNVERIFIED: It is free." in screen_text(app)
        await pilot.press("enter")
        await until(lambda: "The notice period is three months." in screen_text(app), "the quote is in sight")
        await until(lambda: "verified word for word" in screen_text(app), "the document is shown")
        await pilot.press("escape", "down", "enter")
        await until(lambda: "stands in no document" in screen_text(app), "there is nothing to open")


async def test_an_answer_from_documents_is_a_turn_of_the_chat_with_sources_and_receipt(
    tmp_path: Path,
) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        chat = chat_of(app)
        chat.prompt.write("/ask when may I leave")
        await pilot.press("enter")
        await until(lambda: len(chat.transcript.turns) == 2 and not chat.is_answering, "the answer ends")
        await pilot.pause()

        assert chat.chat is not None
        stored = await app.session.chats.branch(chat.chat.id)
        assert [turn.text for turn in stored] == ["when may I leave", ANSWER]
        sources = await app.session.chats.sources(stored[-1].id)
        assert sources is not None
        assert [row.is_verified for row in sources.sources] == [True, False]
        await pilot.press("ctrl+n")
        await app.open_chat(chat.chat.id if chat.chat else stored[0].chat_id)
        await until(lambda: "[2] ✗ UNVERIFIED" in screen_text(app), "the sources are shown again")


async def test_answering_again_asks_the_documents_again(tmp_path: Path) -> None:
    library = FixedLibrary(some_documents(), some_passages())
    app = ApplianceUI(TestSession(tmp_path, library=library))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        chat = chat_of(app)
        chat.prompt.write("what does @lease.pdf say?")
        await pilot.press("enter")
        await until(lambda: len(chat.transcript.turns) == 2 and not chat.is_answering, "the answer ends")
        chat.prompt.write("/retry")
        await pilot.press("enter")
        await until(lambda: len(library.asked) == 2 and not chat.is_answering, "it is asked again")

        assert [scope.document_ids for scope in library.asked] == [("d1",), ("d1",)]
        assert chat.transcript.turns[-1].text == ANSWER


async def test_a_name_behind_an_at_is_completed_and_asks_that_collection(tmp_path: Path) -> None:
    library = FixedLibrary(some_documents(), some_passages())
    app = ApplianceUI(TestSession(tmp_path, library=library))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        chat = chat_of(app)
        await pilot.press(*"what says ", "at", *"con")
        await until(lambda: "@contracts" in screen_text(app), "the collection is offered")
        await pilot.press("tab")
        assert chat.prompt.text == "what says @contracts "
        await pilot.press(*"on rent", "enter")
        await until(lambda: library.asked != [], "the documents are asked")

        assert library.asked[0].collections == ("contracts",)


async def test_a_mistyped_name_beside_a_right_one_is_refused_and_the_question_stays(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test(notifications=True) as pilot:
        await opened(app, pilot)
        chat = chat_of(app)
        chat.prompt.write("@lease.pdf and @leese.pdf")
        await pilot.press("enter")
        await until(lambda: "there is no document or" in screen_text(app), "it is told")

        assert chat.prompt.text == "@lease.pdf and @leese.pdf"
        assert chat.transcript.turns == []


async def test_a_proposed_fact_is_confirmed_corrected_and_enters_the_next_prompt(tmp_path: Path) -> None:
    phrases = Say(text='{"phrases": ["I live in Rome"]}')
    app = ApplianceUI(TestSession(tmp_path, ScriptedModel(name=MODEL, turns=((phrases,),)), facts="ask"))
    async with app.run_test(notifications=True) as pilot:
        await opened(app, pilot)
        chat = chat_of(app)
        await pilot.press(*"I live in Rome now", "enter")
        await until(lambda: len(chat.transcript.turns) == 2 and not chat.is_answering, "the answer ends")
        await pilot.press("ctrl+n")
        await until(lambda: "once you confirm it" in screen_text(app), "the fact is proposed")
        await pilot.press("f7")
        await until(lambda: "1 to confirm" in screen_text(app), "the proposal is listed")
        await pilot.press("y")
        await until(lambda: "1 fact · 0 to confirm" in screen_text(app), "it is confirmed")
        await pilot.press("e", "end", *" since May", "enter")
        await until(lambda: "corrected by you" in screen_text(app), "it is corrected")
        await pilot.press("escape", *"hello", "enter")
        await until(lambda: len(chat.transcript.turns) == 2 and not chat.is_answering, "the answer ends")

        view = await app.session.chats.receipt(chat.transcript.turns[-1].id)
        assert "I live in Rome since May" in view.messages[0][1]


async def test_a_fact_is_deleted_only_after_a_yes_and_its_source_is_opened(tmp_path: Path) -> None:
    phrases = Say(text='{"phrases": ["I live in Rome"]}')
    app = ApplianceUI(TestSession(tmp_path, ScriptedModel(name=MODEL, turns=((phrases,),)), facts="ask"))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        chat = chat_of(app)
        await pilot.press(*"I live in Rome now", "enter")
        await until(lambda: len(chat.transcript.turns) == 2 and not chat.is_answering, "the answer ends")
        await pilot.press("f7", "p")
        await until(lambda: "1 to confirm" in screen_text(app), "the proposal is listed")
        await pilot.press("o")
        await until(lambda: app.screen is chat, "the chat is shown")
        assert app.focused is chat.query(TurnView).first()
        await pilot.press("f7")
        await until(lambda: "1 to confirm" in screen_text(app), "the proposal is listed")
        await pilot.press("d", "enter", "d", "y")
        await until(lambda: "0 to confirm" in screen_text(app), "it is gone")


async def test_rows_fill_a_table_show_their_evidence_and_are_written(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await opened(app, pilot)
        await pilot.press("f8")
        await until(lambda: "0 of 3 documents" in screen_text(app), "the documents are known")
        await pilot.press("r")
        await until(lambda: "name the fields first" in screen_text(app), "fields are asked for")
        await pilot.press("s", *"tenant, rent int", "enter", "d", "a", "enter", "r")
        await until(lambda: "2 rows" in screen_text(app), "the rows are there")
        assert app.session.extraction.asked == [("tenant, rent int", "", ("d1", "d2"))]
        await pilot.press("right", "right")
        await until(lambda: "rent: 900  NOT IN THE DOCUMENT" in screen_text(app), "the doubt is shown")
        await pilot.press("left")
        await until(lambda: "word for word “Ada Byron” page 1" in screen_text(app), "the evidence is shown")
        target = tmp_path / "rows.csv"
        await pilot.press("c", *(["backspace"] * 20))
        app.screen.query_one(Input).value = str(target)
        await pilot.press("enter")
        await until(target.exists, "the file is written")

    assert target.read_text(encoding="utf-8").startswith("document,source,tenant,rent,problem,tenant verdict")


async def test_a_file_is_chosen_by_walking_through_folders(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "lease.txt").write_text("x")
    chosen: list[str | None] = []
    app = ApplianceUI(TestSession(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await app.push_screen(FilePicker("Which?", tmp_path), chosen.append)
        await until(lambda: "papers/" in screen_text(app), "the folder is listed")
        await pilot.press(*"pap", "tab")
        await until(lambda: "lease.txt" in screen_text(app), "its files are listed")
        await pilot.press("enter")
        await until(lambda: chosen != [], "a file is taken")

    assert chosen == [str(tmp_path / "papers" / "lease.txt")]


async def test_another_key_opens_a_screen_and_is_shown_in_the_help(tmp_path: Path) -> None:
    keys = {**USUAL_KEYS, "memory": "alt+m", "chats": "f7"}
    app = ApplianceUI(TestSession(tmp_path), keys=keys)
    async with app.run_test(size=(100, 60)) as pilot:
        await opened(app, pilot)
        await pilot.press("alt+m")
        await until(lambda: "Memory · 0 facts" in screen_text(app), "the memory is shown")
        await pilot.press("f7")
        await until(lambda: "Chats · 0" in screen_text(app), "the chats are shown")
        await pilot.press("f1")
        await until(lambda: "Alt+M" in screen_text(app), "the help names the key")

        assert "settings, log, memory" in screen_text(app)


async def test_a_measurement_shows_its_figures_and_is_compared_with_an_earlier_one(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test(notifications=True) as pilot:
        await opened(app, pilot)
        await pilot.press("f9")
        await until(lambda: "2 runs kept" in screen_text(app), "the runs are listed")
        await pilot.press("r")
        await until(lambda: "ttft 0.275 s [0.21–0.42]" in screen_text(app), "the result is shown")
        await pilot.press("c")
        await until(lambda: "mark an earlier run first" in screen_text(app), "it is told what to mark")
        await pilot.press("end", "c")
        await until(lambda: "[0.97, 1.08]" in screen_text(app), "the comparison is shown")


async def test_the_log_opens_a_request_with_its_facts(tmp_path: Path) -> None:
    app = ApplianceUI(TestSession(tmp_path))
    async with app.run_test() as pilot:
        await opened(app, pilot)
        await pilot.press("f6")
        await until(lambda: "└─ decode" in screen_text(app), "the spans are shown")
        await pilot.press("enter")
        await until(lambda: "x=chat" in screen_text(app), "the facts are shown")
        await pilot.press("escape", "w")
        await until(lambda: "loaded in 0.1 s" in screen_text(app), "the workers' log is shown")
