"""Every screen at 80×24 and 160×50, as text. `UPDATE_SNAPSHOTS=1` writes the files anew."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from appliance.providers.script import Say, ScriptedModel, Think
from tests.screen_text import screen_text, until
from tests.ui_session import (
    DOCUMENT,
    MODEL,
    FixedLibrary,
    TestSession,
    some_documents,
    some_passages,
)
from tui.app import ApplianceUI
from tui.screens.chat import ChatScreen

FOLDER = Path(__file__).with_name("screens")
SIZES = [(80, 24), (160, 50)]
ANSWER = """# Rivers

The **Danube** is long, see [a map](https://example.org/map).

```python
def length(river):
    return LENGTHS[river]
```

| river | km |
|---|---|
| Danube | 2850 |
| 長江 | 6300 |

1. first
2. second 🎉
"""
MODEL_OF_SCREENS = ScriptedModel(name=MODEL, turns=((Think(text="Which rivers?"), Say(text=ANSWER)),))

Visit = Callable[[ApplianceUI, Pilot[None]], Awaitable[None]]


async def welcome(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.pause()


async def chat(app: ApplianceUI, pilot: Pilot[None]) -> None:
    screen = app.screen
    assert isinstance(screen, ChatScreen)
    screen.prompt.write("Which rivers are long?")
    await pilot.press("enter")
    await until(lambda: len(screen.transcript.turns) == 2 and not screen.is_answering, "the answer ends")
    await pilot.pause()


async def slash(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.press("slash", "s")


async def receipt(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await chat(app, pilot)
    await pilot.press("ctrl+t")


async def chats(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await chat(app, pilot)
    await pilot.press("f2")
    await until(lambda: "Chats · 1" in screen_text(app), "the chat is listed")


async def models(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.press("f4")
    await until(lambda: "tight" in screen_text(app), "the models are listed")


async def pulled(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await models(app, pilot)
    await pilot.press("p")
    await until(lambda: "sha256 checked" in screen_text(app), "the pull ends")


async def library(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.press("f3")
    await until(lambda: "documents: 3" in screen_text(app), "the documents are listed")


async def found(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await library(app, pilot)
    await pilot.press("slash", *"notice", "enter")
    await until(lambda: "found: 1" in screen_text(app), "a passage is found")


async def why(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await found(app, pilot)
    await pilot.press("w")


async def asked_documents(app: ApplianceUI, pilot: Pilot[None]) -> None:
    screen = app.screen
    assert isinstance(screen, ChatScreen)
    screen.prompt.write("/ask when may I leave?")
    await pilot.press("enter")
    await until(lambda: len(screen.transcript.turns) == 2 and not screen.is_answering, "the answer ends")
    await pilot.pause()


async def mention(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.press(*"ask ", "at")
    await until(lambda: "@contracts" in screen_text(app), "the names are listed")


async def folded(app: ApplianceUI, pilot: Pilot[None]) -> None:
    screen = app.screen
    assert isinstance(screen, ChatScreen)
    await chat(app, pilot)
    assert screen.chat is not None
    turns = await app.session.chats.branch(screen.chat.id)
    assert isinstance(app.session, TestSession)
    app.session.conversations.summaries.add(turns, "They spoke of rivers.", made_by=MODEL)
    await app.open_chat(screen.chat.id)


async def memory(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await app.session.memory.add("I live in Rome")
    await folded(app, pilot)
    await pilot.press("f7")
    await until(lambda: "1 fact ·" in screen_text(app), "the facts are listed")


async def extract(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.press("f8")
    await until(lambda: "0 of 3 documents" in screen_text(app), "the documents are known")


async def extracted(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await extract(app, pilot)
    await pilot.press("s", *"tenant, rent int", "enter", "d", "a", "enter", "r")
    await until(lambda: "2 rows" in screen_text(app), "the rows are there")
    await pilot.press("right")


async def picked(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await extract(app, pilot)
    await pilot.press("d", "space")


async def sourced(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await asked_documents(app, pilot)
    await pilot.press("tab", "s")
    await until(lambda: "read 2 of 96 passages" in screen_text(app), "the sources are shown")


async def quoted(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await sourced(app, pilot)
    await pilot.press("enter")
    await until(lambda: "word for word" in screen_text(app), "the document is shown")


async def settings(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.press("f5")


async def log(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.press("f6")
    await until(lambda: "└─ decode" in screen_text(app), "the spans are shown")


async def bench(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.press("f9")
    await until(lambda: "2 runs kept" in screen_text(app), "the runs are listed")


async def measured(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await bench(app, pilot)
    await pilot.press("r")
    await until(lambda: "is kept" in screen_text(app), "the measurement ends")


async def help_page(app: ApplianceUI, pilot: Pilot[None]) -> None:
    await pilot.press("f1")


VISITS: tuple[Visit, ...] = (
    welcome, chat, slash, receipt, chats, models, pulled, library, found, why, asked_documents, sourced, quoted, mention,
    folded, memory, extract, extracted, picked, settings, log, bench, measured, help_page,
)  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("visit", VISITS, ids=lambda visit: visit.__name__)
async def test_a_screen_looks_as_it_did(
    visit: Visit, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    documents = FixedLibrary(some_documents(), some_passages(), DOCUMENT)
    app = ApplianceUI(TestSession(tmp_path, MODEL_OF_SCREENS, library=documents))
    async with app.run_test(size=size) as pilot:
        await until(lambda: app.model_state == "ready", "the model is loaded")
        await pilot.pause()
        await visit(app, pilot)
        await pilot.pause()
        shown = screen_text(app)

    expected = FOLDER / f"{visit.__name__}-{size[0]}x{size[1]}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(shown, encoding="utf-8")
    assert shown == expected.read_text(encoding="utf-8")
