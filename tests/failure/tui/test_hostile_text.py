"""No control of a model, a document, a file name or a chat reaches the terminal, on any screen."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.pty_process import run_in_pty
from tests.ui_session import (
    FixedBench,
    FixedExtraction,
    FixedLibrary,
    FixedLog,
    FixedModels,
    TestSession,
    an_answer,
    some_documents,
    some_models,
    some_passages,
    some_rows,
)

if TYPE_CHECKING:
    from tui.app import ApplianceUI

MARK = "HOSTILE"
# Each text carries a marker inside the sequence, so that a terminal that saw the sequence is told apart
# from the sequences the interface itself writes.
TEXTS = (
    f"\x1b]0;{MARK}-title\x07",
    f"\x1b]52;c;{MARK}-clip\x07",
    f"\x1b]8;;http://{MARK}-link\x1b\\text\x1b]8;;\x1b\\",
    f"\x1bP{MARK}-dcs\x1b\\",
    f"\x1b_{MARK}-apc\x1b\\",
    f"\x1b^{MARK}-pm\x1b\\",
    f"\x9b31m{MARK}-c1",
    f"\x90{MARK}-c1dcs\x9c",
    f"\x9d52;c;{MARK}-c1osc\x07",
    f"\x1b[2J\x1b[H{MARK}-clear",
    f"\x1b[?1049l{MARK}-screen",
    f"\u202e{MARK}-bidi\u2066x\u2069",
    f"{MARK}\U000e0041\U000e0042-tags",
    f"[/foo]{MARK}[bold][@click=app.quit]x[/]",
    f"[link=x]{MARK}[/link",
    f"{MARK}\x00\x07\x08\x0b\x0c\x0e\x7f-c0",
    f"&#27;[31m&#x202e;{MARK}&ZeroWidthSpace;-entity",
    f"<script>{MARK}</script><!-- {MARK} -->",
    f"e{'́' * 60}{MARK}-marks",
    f"\ud800{MARK}-surrogate",
    f"`\x1b[31m{MARK}-code`\n\n```\x1b[31m\n\x1b]0;{MARK}-fence\x07\n```",
    f"| a\x1b[31m | {MARK} |\n|---|---|\n| \x9b1m | x |",
)  # fmt: skip
HOSTILE = "\n\n".join(TEXTS)
FORBIDDEN = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xE0000, 0xE0080), *range(0x80, 0xA0))

# What the interface itself writes: moves, colours, modes, and the shape of the mouse pointer.
OWN_SEQUENCES = re.compile("\x1b\\[[0-9;?<>=]*[$]?[A-Za-z]|\x1b\\]22;[a-z-]*\x07")

CHILD = """
import asyncio, sys
from pathlib import Path
from tests.failure.tui.test_hostile_text import hostile_app
hostile_app(Path(sys.argv[1])).run()
"""


def hostile_app(folder: Path) -> ApplianceUI:
    """An interface in which everything foreign is hostile; it walks through its screens and leaves."""
    from dataclasses import replace

    from appliance.providers.script import Say, ScriptedModel, Think
    from tests.ui_session import MODEL
    from tui.app import ApplianceUI
    from tui.screens.text_page import TextPage

    line = HOSTILE.replace("\n", " ")
    models = FixedModels([replace(row, name=f"{row.name}{line}", quantisation=line) for row in some_models()])
    documents = [
        replace(row, name=line, source=line, problem=line, collection=line) for row in some_documents()
    ]
    passages = some_passages()
    found = replace(
        passages,
        passages=tuple(replace(row, name=line, place=line, text=HOSTILE) for row in passages.passages),
        notes=(line,),
    )
    told = an_answer(line, line, HOSTILE)
    model = ScriptedModel(name=MODEL, turns=((Think(text=HOSTILE), Say(text=HOSTILE)),))
    session = TestSession(
        folder,
        model,
        models=models,
        library=FixedLibrary(documents, found, HOSTILE, HOSTILE, told),
        extraction=FixedExtraction(some_rows(line, HOSTILE), names=("tenant", "rent", line)),
        bench=FixedBench(HOSTILE),
        log=FixedLog(HOSTILE),
    )

    class Walk(ApplianceUI):
        async def walk(self) -> None:
            chat = self._chat_screen
            while not self.is_session_open:
                await asyncio.sleep(0.02)
            chat.prompt.write(HOSTILE)
            chat.prompt.post_message(chat.prompt.Submitted(HOSTILE))
            await asyncio.sleep(0.1)
            while chat.is_answering or len(chat.transcript.turns) < 2:
                await asyncio.sleep(0.02)
            chat.notify_plain(HOSTILE, is_bad=True)
            for view in chat.query("TurnView"):
                view.action_toggle_reasoning()
            await asyncio.sleep(0.3)
            await self.session.memory.add(line[:400])
            turns = await self.session.chats.branch(chat.chat.id)
            session.conversations.summaries.add(turns, HOSTILE, made_by=line)
            await self.ask_documents(f"@{documents[0].name} {HOSTILE}")
            while chat.is_answering or len(chat.transcript.turns) < 4:
                await asyncio.sleep(0.02)
            await self.open_chat(chat.chat.id)
            for _ in range(2):
                chat.prompt.write("ask @")
                await asyncio.sleep(0.2)
            chat.prompt.write("")
            for place in (
                "chats",
                "models",
                "library",
                "settings",
                "log",
                "help",
                "memory",
                "extract",
                "bench",
            ):
                await self.action_show(place)
                await asyncio.sleep(0.3)
                await look_around(self, place)
            await self.push_screen(TextPage(HOSTILE, HOSTILE))
            await asyncio.sleep(0.2)
            self.pop_screen()
            await chat._actions.receipt(chat.last_answer)
            await asyncio.sleep(0.3)
            await chat._actions.pick_history()
            await asyncio.sleep(0.3)
            self.copy_to_file(HOSTILE)
            self.exit()

        def on_ready(self) -> None:
            self.run_worker(self.walk())

    return Walk(session, copy_folder=folder)


async def look_around(app: ApplianceUI, place: str) -> None:
    """Open what a screen opens on top of itself."""
    from tui.screens.answer import AnswerScreen, QuotePage

    if place == "extract":
        app.screen._schema_field.value = "x"
        app.screen._chosen = ["d1"]
        app.screen.action_run()
        await asyncio.sleep(0.3)
        await app.screen.action_documents()
        await asyncio.sleep(0.2)
        app.pop_screen()
    if place == "bench":
        app.screen.action_measure("latency")
        await asyncio.sleep(0.3)
    if place == "log":
        app.screen.action_workers()
        await asyncio.sleep(0.2)
        app.pop_screen()
    if place == "library":
        app.screen.search("x")
        await asyncio.sleep(0.2)
        await app.screen.action_why()
        await asyncio.sleep(0.2)
        app.pop_screen()
        sources = await app.session.chats.sources(app._chat_screen.last_answer.id)
        await app.push_screen(AnswerScreen(HOSTILE, HOSTILE, sources))
        await asyncio.sleep(0.2)
        await app.push_screen(QuotePage(sources.sources[0], HOSTILE))
        await asyncio.sleep(0.2)
        app.pop_screen()
        app.pop_screen()


def test_no_control_of_a_foreign_text_reaches_the_terminal(tmp_path: Path) -> None:
    code, written = run_in_pty([sys.executable, "-c", CHILD, str(tmp_path)])
    text = written.decode("utf-8", "replace")

    assert code == 0, text[-2000:]
    assert text.count(MARK) > 50
    for sequence in ("\x1b]", "\x1bP", "\x1b_", "\x1b^"):
        for part in text.split(sequence)[1:]:
            assert MARK not in part.split("\x1b")[0].split("\x07")[0], part[:80]
    assert f"\x1b[31m{MARK}" not in text
    assert [character for character in text if ord(character) in FORBIDDEN] == []
    # The interface leaves the alternate screen once, at its end, and clears it by no sequence of a text.
    assert text.count("\x1b[?1049l") == 1
    assert "\x1b[2J" not in text
    assert "\x1b[31m" not in text
    rest = OWN_SEQUENCES.sub("", text)
    assert {character for character in rest if ord(character) < 0x20 or ord(character) == 0x7F} <= {
        "\r",
        "\n",
    }
