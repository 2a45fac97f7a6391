"""What a child process writes before it is killed, and what it says on standard output it may be held to.

Each line is JSON and is printed only after the call that stored it has returned: `asked` (a question),
`shown` (an answer's text so far), `ended`, `renamed`, `deleted`, `restored`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from appliance.core.clock import SystemClock
from appliance.core.events import ModelIdentity, TextDelta
from appliance.core.messages import UserMessage
from appliance.core.requests import SamplingParams
from appliance.memory.conversations import Conversations
from appliance.memory.journal import AnswerEnd, stop_unfinished_answers
from appliance.memory.schema import CONVERSATIONS
from appliance.memory.turns import SentRequest
from appliance.storage.database import Database

TURNS = 4
DELTAS = 40


def promise(**what: str) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def answer(conversations: Conversations, chat_id: str, parent_id: str, question: str) -> str:
    request = SentRequest(
        model="m", messages=(UserMessage(text=question),), sampling=SamplingParams(seed=1), prompt_id="p"
    )
    turn = conversations.turns.begin_answer(chat_id, request, parent_id=parent_id, receipt_json="{}")
    journal = conversations.turns.journal(turn.id, SystemClock())
    text = ""
    for number in range(DELTAS):
        journal.append(TextDelta(text=f" word{number}"))
        text += f" word{number}"
        promise(kind="shown", turn=turn.id, text=text)
    journal.finish(
        AnswerEnd(state="done", finish_reason="stop", model=ModelIdentity(provider="p", name="m", digest="d"))
    )
    promise(kind="ended", turn=turn.id, text=text)
    return turn.id


def work(path: Path) -> None:
    database = Database(path, [CONVERSATIONS])
    stop_unfinished_answers(database)
    conversations = Conversations(database)
    chat = conversations.chats.create()
    parent_id = None
    for number in range(TURNS):
        question = f"question {number} of {chat.id}"
        turn = conversations.turns.add_user_turn(chat.id, question, parent_id=parent_id)
        promise(kind="asked", turn=turn.id, text=question)
        parent_id = answer(conversations, chat.id, turn.id, question)
    conversations.chats.rename(chat.id, "renamed chat")
    promise(kind="renamed", chat=chat.id)
    conversations.chats.delete(chat.id)
    promise(kind="deleted", chat=chat.id)
    conversations.chats.restore(chat.id)
    promise(kind="restored", chat=chat.id)
    database.close()
