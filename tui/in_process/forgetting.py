"""Forgetting for the terminal interface: from every store, with the receipt of what was searched afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from appliance.config import Settings
from appliance.core.errors import InvalidRequestError
from appliance.core.forgetting import ForgetDocument, ForgetTarget
from appliance.memory.forget import render_receipt
from appliance.memory.forget_chats import ForgettableChats
from appliance.storage.database import STORE_FILE, Database
from tui.rows import Forgotten

if TYPE_CHECKING:
    from appliance.retrieval.library import Library


class ForgettingOfUser:
    """`ForgetPort` over one data folder. `library` opens its documents; None where they are a server's."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        library: Callable[[], Library] | None,
        *,
        forget_prompts: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._database = database
        self._library = library
        self._forget_prompts = forget_prompts

    async def preview(self, target: ForgetTarget) -> dict[str, int]:
        """Count what would go from chats and facts."""
        return await asyncio.to_thread(ForgettableChats(self._database).preview, target)

    async def forget(self, target: ForgetTarget) -> Forgotten:
        """Remove it from every store and from running models, search them all, and say what was found."""
        if isinstance(target, ForgetDocument) and self._library is None:
            raise InvalidRequestError(
                "the documents are the server's", hint="POST /v1/forget there, or d in the library"
            )
        await self._forget_prompts()
        return await asyncio.to_thread(self._forget, target)

    def _forget(self, target: ForgetTarget) -> Forgotten:
        from appliance.server.forgetting import Forgetting

        settings = self._settings
        has_index = settings.index_uri or (settings.data_dir / "index").exists()
        library = self._library() if self._library is not None and has_index else None
        receipt = Forgetting(settings, self._database, library).one(target)
        self._note(target, is_clean=receipt.is_clean)
        return Forgotten(receipt=render_receipt(receipt), is_clean=receipt.is_clean)

    def _note(self, target: ForgetTarget, *, is_clean: bool) -> None:
        """Tell the audit log that something was forgotten; servers on this folder follow it."""
        from appliance.memory.schema import CONVERSATIONS, FACTS
        from appliance.server.teams.audit import COMMAND_LINE, AuditLog
        from appliance.server.teams.tables import TEAMS

        database = Database(self._settings.data_dir / STORE_FILE, [CONVERSATIONS, FACTS, TEAMS])
        try:
            AuditLog(database).append(
                COMMAND_LINE, f"forgotten.{target.kind}", target.owner, is_clean=is_clean
            )
        finally:
            database.close()
