"""The questions that were asked in the terminal interface, kept for its history, one JSON text a line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from appliance.core.forgetting import ForgetProbe, ForgetReport, ForgetTarget
from appliance.storage.database import Database

ASKED_FILE = "ui_history.jsonl"
_KEPT = 1000


class AskedQuestions:
    """The file of the questions. A disk that takes nothing costs the history, never the question."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ASKED_FILE

    def read(self) -> list[str]:
        """Return what was asked last, oldest first; lines that cannot be read are left out."""
        return self._all()[-_KEPT:]

    def add(self, text: str) -> None:
        """Remember a question."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(text) + "\n")
            self._path.chmod(0o600)
        except OSError:
            return

    def keep_only(self, found_in: Callable[[Sequence[str]], Collection[str]]) -> int:
        """Write the file anew with the questions that are found; return how many went."""
        asked = self._all()
        found = found_in(asked)
        kept = [text for text in asked if text in found]
        if len(kept) == len(asked):
            return 0
        fresh = self._path.with_suffix(".new")
        with os.fdopen(
            os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            file.writelines(json.dumps(text) + "\n" for text in kept)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        return len(asked) - len(kept)

    def _all(self) -> list[str]:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        return [text for line in lines if (text := _from_json(line))]


class ForgettableQuestions:
    """The history as part of forgetting: a question stays only while some chat still has it."""

    name = "what was asked"

    def __init__(self, questions: AskedQuestions, database: Database) -> None:
        self._questions = questions
        self._database = database

    def forget(self, target: ForgetTarget) -> ForgetReport:  # noqa: ARG002
        """Remove the questions that went with their chats."""
        count = self._questions.keep_only(self._in_chats)
        return ForgetReport(store=self.name, removed={"questions": count} if count else {})

    def probe(self, needles: Sequence[str]) -> ForgetProbe:  # noqa: ARG002
        """Find nothing: the file lies in the folder of state and logs, which is searched whole."""
        return ForgetProbe(store=self.name, checked=())

    def _in_chats(self, texts: Sequence[str]) -> Collection[str]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT text FROM turns WHERE role = 'user' AND text IN (SELECT value FROM json_each(?))",
                (json.dumps(texts),),
            ).fetchall()
        return {str(row[0]) for row in rows}


def _from_json(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
