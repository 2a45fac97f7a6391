"""Applies the rules of retention: what is older than its rule allows is forgotten, and that is audited."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from appliance.core.errors import ApplianceError
from appliance.core.forgetting import ForgetChat, ForgetDocument, ForgetTarget
from appliance.retrieval.library import Library
from appliance.server.forgetting import Forgetting
from appliance.server.services import Services
from appliance.server.teams.retention import Kept, RetentionRules

SWEEP_INTERVAL_S = 3_600.0
ACTOR = "retention"

_DAY_S = 86_400.0

_log = logging.getLogger(__name__)


async def sweep_for_ever(services: Services) -> None:
    """Sweep now and every hour; a failure is logged and the next sweep tries again."""
    while True:
        try:
            await sweep(services)
        except ApplianceError:
            _log.exception("what is too old could not be forgotten")
        await services.appliance.clock.sleep(SWEEP_INTERVAL_S)


async def sweep(services: Services) -> int:
    """Forget what is too old; return how many things went."""
    rules = RetentionRules(services.database).rules()
    if not rules:
        return 0
    library = await services.library.get() if any(rule.what == "documents" for rule in rules) else None
    return await asyncio.to_thread(_sweep, services, library)


def _sweep(services: Services, library: Library | None) -> int:
    targets = _old_chats(services)
    if library is not None:
        _note_documents(services)
        targets += _old_documents(services)
    forgetting = Forgetting(services.appliance.settings, services.database, library)
    for owner in dict.fromkeys(target.owner for target in targets):
        of_owner = [target for target in targets if target.owner == owner]
        receipt = forgetting.several(of_owner)
        for target in of_owner:
            what = "conversation" if isinstance(target, ForgetChat) else "document"
            services.audit.append(
                ACTOR, f"{what}.expired", _id_of(target), owner=owner, is_clean=receipt.is_clean
            )
    return len(targets)


def _old_chats(services: Services) -> list[ForgetTarget]:
    with services.database.read() as connection:
        rows = connection.execute("SELECT id, owner, updated_at_s FROM chats").fetchall()
    old = _expired(services, "conversations", rows)
    return [ForgetChat(chat_id=chat_id, owner=owner) for chat_id, owner in old]


def _old_documents(services: Services) -> list[ForgetTarget]:
    with services.database.read() as connection:
        rows = connection.execute("SELECT document_id, owner, seen_at_s FROM documents_seen").fetchall()
    old = _expired(services, "documents", rows)
    return [ForgetDocument(document_id=document_id, owner=owner) for document_id, owner in old]


def _note_documents(services: Services) -> None:
    """Remember since when each document is here; one that was added elsewhere counts from its first sweep."""
    with services.database.transaction() as connection:
        connection.execute(
            "INSERT OR IGNORE INTO documents_seen (document_id, owner, seen_at_s) "
            "SELECT document_id, owner, ? FROM documents",
            (services.now_s(),),
        )
        connection.execute(
            "DELETE FROM documents_seen WHERE document_id NOT IN (SELECT document_id FROM documents)"
        )


def _expired(services: Services, what: Kept, rows: Sequence[tuple[str, str, float]]) -> list[tuple[str, str]]:
    rules = RetentionRules(services.database)
    days = {owner: rules.days_for(owner, what) for _, owner, _ in rows}
    now_s = services.now_s()
    old: list[tuple[str, str]] = []
    for thing_id, owner, at_s in rows:
        limit = days[owner]
        if limit is not None and now_s - at_s > limit * _DAY_S:
            old.append((thing_id, owner))
    return old


def _id_of(target: ForgetTarget) -> str:
    match target:
        case ForgetChat():
            return target.chat_id
        case ForgetDocument():
            return target.document_id
        case _:
            return ""
