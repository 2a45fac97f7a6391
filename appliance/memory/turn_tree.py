"""The tree of turns of a chat: add, branch, walk, and what made each answer.

What a turn says is never changed; an answer that was cut off may get longer while it is the last of its branch.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable

from appliance.core.errors import InvalidRequestError
from appliance.core.messages import AssistantMessage, ToolMessage
from appliance.core.ports import Clock
from appliance.core.requests import LOCAL_OWNER
from appliance.memory.chats import index_title, no_such_chat, title_from
from appliance.memory.codec import storable
from appliance.memory.journal import AnswerJournal, index_turn, stop_unfinished_answers
from appliance.memory.rows import TURN_COLUMNS, TURNS, turns_of
from appliance.memory.sent import decode_request, encode_request
from appliance.memory.turns import Branches, Role, SentRequest, Turn, TurnState
from appliance.storage.database import Database
from appliance.storage.lock import process_mark

_ANCESTORS = """
WITH RECURSIVE branch (id, parent_id, depth) AS (
    SELECT id, parent_id, 0 FROM turns WHERE id = ? AND owner = ?
    UNION ALL
    SELECT turns.id, turns.parent_id, branch.depth + 1 FROM turns JOIN branch ON turns.id = branch.parent_id
)
"""


class TurnTree:
    """The turns of one owner's chats."""

    def __init__(
        self, database: Database, *, owner: str = LOCAL_OWNER, now_s: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._owner = owner
        self._now_s = now_s

    def add_user_turn(self, chat_id: str, text: str, *, parent_id: str | None) -> Turn:
        """Store a question under a parent (None begins the chat) and show its branch. It is on disk now.

        Raises:
            InvalidRequestError: the text is empty, or the chat or parent is not this owner's.
        """
        if not text.strip():
            raise InvalidRequestError("there is no text to send")
        with self._database.transaction() as connection:
            turn_id = self._insert(connection, chat_id, parent_id, "user", "done", text)
            self._title_once(connection, chat_id, text)
        return self.get(turn_id)

    def add_tool_turn(self, chat_id: str, message: ToolMessage, *, parent_id: str) -> Turn:
        """Store the result of a tool call."""
        with self._database.transaction() as connection:
            turn_id = self._insert(
                connection,
                chat_id,
                parent_id,
                "tool",
                "done",
                message.text,
                call=(message.call_id, message.name),
            )
        return self.get(turn_id)

    def add_note(self, chat_id: str, text: str, *, parent_id: str | None) -> Turn:
        """Store something that is shown in the chat and never sent to a model."""
        with self._database.transaction() as connection:
            turn_id = self._insert(connection, chat_id, parent_id, "note", "done", text)
        return self.get(turn_id)

    def begin_answer(
        self,
        chat_id: str,
        request: SentRequest,
        *,
        parent_id: str,
        receipt_json: str = "",
    ) -> Turn:
        """Store a partial answer with all that is needed to run it again, and show its branch.

        It is empty, or begins with the text of the open turn that the request goes on with.
        """
        branch = self.branch(parent_id)
        so_far = request.open_turn or AssistantMessage()
        with self._database.transaction() as connection:
            turn_id = self._insert(
                connection,
                chat_id,
                parent_id,
                "assistant",
                "partial",
                so_far.text,
                reasoning=storable(so_far.reasoning),
            )
            connection.execute(
                "INSERT INTO answers (turn_id, owner, request_json, receipt_json) VALUES (?, ?, ?, ?)",
                (turn_id, self._owner, storable(encode_request(request, branch)), storable(receipt_json)),
            )
        return self.get(turn_id)

    def reopen_answer(self, turn: Turn, request: SentRequest, *, receipt_json: str = "") -> Turn:
        """Make an answer that was cut off partial again, and show its branch; what is written now is added to it.

        Its text, tokens and times stay, also when nothing comes of going on. `request` and receipt are the new ones.

        Raises:
            InvalidRequestError: it is being written, another turn follows it, or it was deleted or changed.
        """
        stop_unfinished_answers(self._database)
        branch = self.branch(turn.parent_id)
        with self._database.transaction() as connection:
            self._check_place(connection, turn.chat_id, turn.parent_id)
            reopened = connection.execute(
                "UPDATE turns SET state = 'partial', writer = ? WHERE id = ? AND owner = ? AND state <> 'partial' "
                "AND text = ? AND NOT EXISTS (SELECT 1 FROM turns AS later WHERE later.parent_id = turns.id)",
                (process_mark(), turn.id, self._owner, turn.text),
            )
            if reopened.rowcount == 0:
                raise InvalidRequestError(
                    "the chat went on meanwhile, so this answer cannot be continued",
                    hint="look at the chat again",
                )
            connection.execute(
                "UPDATE answers SET request_json = ?, receipt_json = ? WHERE turn_id = ?",
                (storable(encode_request(request, branch)), storable(receipt_json), turn.id),
            )
            connection.execute(
                "UPDATE chats SET active_turn_id = ?, updated_at_s = ? WHERE id = ?",
                (turn.id, self._now_s(), turn.chat_id),
            )
        return self.get(turn.id)

    def is_followed(self, turn_id: str) -> bool:
        """Whether another turn stands below this one."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT 1 FROM turns WHERE parent_id = ? AND owner = ? LIMIT 1", (turn_id, self._owner)
            ).fetchone()
        return found is not None

    def journal(self, turn_id: str, clock: Clock) -> AnswerJournal:
        """Return the writer of a partial answer."""
        return AnswerJournal(self._database, owner=self._owner, turn_id=turn_id, clock=clock)

    def get(self, turn_id: str) -> Turn:
        """Return one turn.

        Raises:
            InvalidRequestError: this owner has no such turn.
        """
        found = self._load([turn_id])
        if not found:
            raise InvalidRequestError(f"there is no turn {turn_id!r}")
        return found[turn_id]

    def branch(self, leaf_id: str | None) -> list[Turn]:
        """Return the turns from the beginning of the chat down to a turn."""
        if leaf_id is None:
            return []
        with self._database.read() as connection:
            rows = connection.execute(
                f"{_ANCESTORS} SELECT {TURN_COLUMNS} FROM branch JOIN turns ON turns.id = branch.id "  # noqa: S608
                "LEFT JOIN answers ON answers.turn_id = turns.id ORDER BY branch.depth DESC",
                (leaf_id, self._owner),
            ).fetchall()
            return turns_of(connection, rows)

    def shown_branch(self, chat_id: str) -> list[Turn]:
        """Return the branch a chat shows."""
        return self.branch(self._active_turn_id(chat_id))

    def all_turns(self, chat_id: str) -> list[Turn]:
        """Return every turn of a chat in order of creation."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {TURN_COLUMNS} FROM {TURNS} WHERE turns.chat_id = ? AND turns.owner = ? "  # noqa: S608
                "ORDER BY turns.sequence",
                (chat_id, self._owner),
            ).fetchall()
            return turns_of(connection, rows)

    def branches_at(self, turn_id: str) -> Branches:
        """Return the alternatives to a turn: the turns with the same parent."""
        turn = self.get(turn_id)
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id FROM turns WHERE chat_id = ? AND owner = ? AND parent_id IS ? ORDER BY sequence",
                (turn.chat_id, self._owner, turn.parent_id),
            ).fetchall()
        turn_ids = tuple(row[0] for row in rows)
        return Branches(turn_ids=turn_ids, shown=turn_ids.index(turn_id))

    def show_branch_of(self, turn_id: str) -> list[Turn]:
        """Show the branch through a turn, down to the newest leaf below it, and return it."""
        turn = self.get(turn_id)
        with self._database.transaction() as connection:
            leaf_id = _newest_leaf(connection, turn_id)
            connection.execute(
                "UPDATE chats SET active_turn_id = ? WHERE id = ? AND owner = ?",
                (leaf_id, turn.chat_id, self._owner),
            )
        return self.branch(leaf_id)

    def request_of(self, turn_id: str) -> SentRequest | None:
        """Return the request behind an answer; None where it is not known, as in imported chats."""
        row = self._answer_field(turn_id, "request_json")
        return decode_request(row, self._load) if row else None

    def receipt_of(self, turn_id: str) -> str:
        """Return the receipt of an answer's prompt as JSON text, or an empty string."""
        return self._answer_field(turn_id, "receipt_json")

    def _insert(
        self,
        connection: sqlite3.Connection,
        chat_id: str,
        parent_id: str | None,
        role: Role,
        state: TurnState,
        text: str,
        *,
        reasoning: str = "",
        call: tuple[str, str] = ("", ""),
    ) -> str:
        turn_id = uuid.uuid4().hex
        self._check_place(connection, chat_id, parent_id)
        stored_text = storable(text)
        (sequence,) = connection.execute(
            "INSERT INTO turns (id, owner, chat_id, parent_id, role, state, text, reasoning, tool_call_id, "
            "tool_name, created_at_s, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "RETURNING sequence",
            (
                turn_id, self._owner, chat_id, parent_id, role, state, stored_text, reasoning, *call,
                self._now_s(), process_mark() if state == "partial" else "",
            ),
        ).fetchone()  # fmt: skip
        connection.execute(
            "UPDATE chats SET active_turn_id = ?, updated_at_s = ?, last_sequence = ? WHERE id = ?",
            (turn_id, self._now_s(), sequence, chat_id),
        )
        if state != "partial":
            index_turn(connection, sequence, stored_text)
        return turn_id

    def _check_place(self, connection: sqlite3.Connection, chat_id: str, parent_id: str | None) -> None:
        chat = connection.execute(
            "SELECT deleted_at_s FROM chats WHERE id = ? AND owner = ?", (chat_id, self._owner)
        ).fetchone()
        if chat is None:
            raise no_such_chat(chat_id)
        if chat[0] is not None:
            raise InvalidRequestError(
                "the chat is in the trash", hint="`appliance chats undo` brings it back"
            )
        if parent_id is None:
            return
        parent = connection.execute(
            "SELECT 1 FROM turns WHERE id = ? AND chat_id = ? AND owner = ?",
            (parent_id, chat_id, self._owner),
        ).fetchone()
        if parent is None:
            raise InvalidRequestError(f"there is no turn {parent_id!r} in this chat")

    def _title_once(self, connection: sqlite3.Connection, chat_id: str, text: str) -> None:
        title = title_from(storable(text))
        titled = connection.execute(
            "UPDATE chats SET title = ?, is_titled = 1 WHERE id = ? AND is_titled = 0", (title, chat_id)
        )
        if titled.rowcount:
            index_title(connection, chat_id, title)

    def _load(self, turn_ids: Iterable[str]) -> dict[str, Turn]:
        wanted = list(turn_ids)
        with self._database.read() as connection:
            rows = [
                row
                for turn_id in wanted
                for row in connection.execute(
                    f"SELECT {TURN_COLUMNS} FROM {TURNS} WHERE turns.id = ? AND turns.owner = ?",  # noqa: S608
                    (turn_id, self._owner),
                )
            ]
            return {turn.id: turn for turn in turns_of(connection, rows)}

    def _answer_field(self, turn_id: str, column: str) -> str:
        self.get(turn_id)
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {column} FROM answers WHERE turn_id = ? AND owner = ?",  # noqa: S608
                (turn_id, self._owner),
            ).fetchone()
        return str(row[0]) if row else ""

    def _active_turn_id(self, chat_id: str) -> str | None:
        with self._database.read() as connection:
            row: tuple[str | None] | None = connection.execute(
                "SELECT active_turn_id FROM chats WHERE id = ? AND owner = ?", (chat_id, self._owner)
            ).fetchone()
        if row is None:
            raise no_such_chat(chat_id)
        return row[0]


def _newest_leaf(connection: sqlite3.Connection, turn_id: str) -> str:
    row: tuple[str] | None = (turn_id,)
    leaf_id = turn_id
    while row is not None:
        leaf_id = row[0]
        row = connection.execute(
            "SELECT id FROM turns WHERE parent_id = ? ORDER BY sequence DESC LIMIT 1", (leaf_id,)
        ).fetchone()
    return leaf_id
