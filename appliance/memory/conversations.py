"""The door to the conversations of one owner: chats, their turns, summaries and search."""

from __future__ import annotations

import time
from collections.abc import Callable

from appliance.core.requests import LOCAL_OWNER
from appliance.memory.chats import Chats
from appliance.memory.search import ChatHit, search_chats
from appliance.memory.summaries import Summaries
from appliance.memory.turn_tree import TurnTree
from appliance.storage.database import Database


class Conversations:
    """Everything one owner said and was answered. The database must have the CONVERSATIONS schema."""

    def __init__(
        self, database: Database, *, owner: str = LOCAL_OWNER, now_s: Callable[[], float] = time.time
    ) -> None:
        self.database = database
        self.owner = owner
        self.now_s = now_s
        self.chats = Chats(database, owner=owner, now_s=now_s)
        self.turns = TurnTree(database, owner=owner, now_s=now_s)
        self.summaries = Summaries(database, owner=owner, now_s=now_s)

    def search(self, query: str, *, limit: int = 50, offset: int = 0) -> list[ChatHit]:
        """Find turns and titles with every word of the query, best first; the trash is left out."""
        return search_chats(self.database, query, owner=self.owner, limit=limit, offset=offset)
