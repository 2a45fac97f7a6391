"""Follows what the command line forgets in the same data folder, so that running models let go of it too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from appliance.core.errors import ApplianceError
from appliance.core.ports import Clock
from appliance.server.teams.audit import COMMAND_LINE, AuditLog

FOLLOW_INTERVAL_S = 1.0

_log = logging.getLogger(__name__)


class ForgetFollower:
    """Reads the audit log from its end at the start on.

    Args:
        forget_owner: drops what running models keep of an owner.
    """

    def __init__(self, audit: AuditLog, forget_owner: Callable[[str], Awaitable[object]]) -> None:
        self._audit = audit
        self._forget_owner = forget_owner
        self._seen = audit.checkpoint().sequence

    async def follow(self) -> list[str]:
        """Forget the owners that the command line forgot something of since the last time; return them."""
        entries = await asyncio.to_thread(lambda: list(self._audit.entries(after=self._seen)))
        owners = dict.fromkeys(
            entry.subject
            for entry in entries
            if entry.actor == COMMAND_LINE and entry.action.startswith("forgotten.")
        )
        for owner in owners:
            await self._forget_owner(owner)
        if entries:
            self._seen = entries[-1].sequence
        return list(owners)

    async def follow_for_ever(self, clock: Clock) -> None:
        """Look every second; a failure is logged and the next look tries again."""
        while True:
            await clock.sleep(FOLLOW_INTERVAL_S)
            try:
                await self.follow()
            except ApplianceError:
                _log.exception("what the command line forgot could not be dropped from running models")
