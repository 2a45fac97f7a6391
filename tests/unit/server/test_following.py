"""A running server lets go of what a command forgets beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.errors import StorageError
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.server.following import ForgetFollower
from appliance.server.teams.audit import COMMAND_LINE, AuditLog
from appliance.server.teams.tables import TEAMS
from appliance.storage.database import STORE_FILE, Database


class Models:
    """Running models that let go of an owner, or fail to."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.is_broken = False

    async def forget_owner(self, owner: str) -> int:
        if self.is_broken:
            raise StorageError("the disk is full")
        self.forgotten.append(owner)
        return 0


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[AuditLog]:
    database = Database(tmp_path / STORE_FILE, [CONVERSATIONS, FACTS, TEAMS])
    yield AuditLog(database)
    database.close()


async def test_each_owner_is_forgotten_once_and_only_for_what_commands_did_since_the_start(
    audit: AuditLog,
) -> None:
    audit.append(COMMAND_LINE, "forgotten.user", "earlier")
    models = Models()
    follower = ForgetFollower(audit, models.forget_owner)
    audit.append(COMMAND_LINE, "forgotten.chat", "local")
    audit.append(COMMAND_LINE, "forgotten.user", "ada")
    audit.append(COMMAND_LINE, "forgotten.subject", "local")
    audit.append("bob", "forgotten.everything", "bob")
    audit.append(COMMAND_LINE, "user.added", "carl")

    first, second = await follower.follow(), await follower.follow()

    assert first == models.forgotten == ["local", "ada"]
    assert second == []


async def test_what_could_not_be_forgotten_is_tried_again(audit: AuditLog) -> None:
    models = Models()
    follower = ForgetFollower(audit, models.forget_owner)
    audit.append(COMMAND_LINE, "forgotten.user", "ada")
    models.is_broken = True
    with pytest.raises(StorageError):
        await follower.follow()

    models.is_broken = False
    await follower.follow()

    assert models.forgotten == ["ada"]
