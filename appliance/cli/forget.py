"""`appliance forget`: remove a chat, a document or a subject from everywhere, and print the receipt."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from contextlib import ExitStack

import click

from appliance.cli.chats import json_option, open_conversations
from appliance.cli.invocation import Invocation
from appliance.cli.team_store import open_team_store
from appliance.config import Settings
from appliance.core.errors import ModelNotFoundError, StorageError
from appliance.core.forgetting import ForgetChat, ForgetDocument, ForgetSubject, Forgettable, ForgetTarget
from appliance.core.terminal_text import clean_for_terminal
from appliance.memory.conversations import Conversations
from appliance.memory.forget import ForgetReceipt, forget, render_receipt
from appliance.memory.forget_chats import ForgettableChats
from appliance.memory.forget_kept import kept_beside


@click.command("forget")
@click.option("--chat", help="The id, its first characters, or the exact title of a chat.")
@click.option("--document", help="The id of a document.")
@click.option("--subject", help="A name or phrase; everything that mentions it goes.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def forget_command(
    invocation: Invocation,
    *,
    chat: str | None,
    document: str | None,
    subject: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove something for good: chats, facts, documents, indexes, saved prefixes, backups.

    There is no undo. The receipt says what was removed, where the removed texts were searched for
    afterwards, and what was found; the exit code is 1 when something remains. The audit log says that
    something was forgotten, not what. A server that runs on the same data folder drops what its models
    keep within a second.
    """
    if sum(choice is not None for choice in (chat, document, subject)) != 1:
        raise click.UsageError("name one of --chat, --document or --subject")
    with open_conversations(invocation) as conversations:
        target = _target(conversations, chat, document, subject)
        chats = ForgettableChats(conversations.database)
        if not yes:
            _ask(target, chats.preview(target))
        with ExitStack() as closing:
            receipt = forget(target, _stores(invocation.settings(), conversations, chats, closing))
    with open_team_store(invocation) as store:
        store.audit.append(store.actor, f"forgotten.{target.kind}", target.owner, is_clean=receipt.is_clean)
    click.echo(_as_json(receipt) if as_json else clean_for_terminal(render_receipt(receipt)))
    if not receipt.is_clean:
        raise StorageError(
            "something that should be gone was found",
            hint="close other programs that use the data folder, then run the same command again",
        )


def _target(
    conversations: Conversations, chat: str | None, document: str | None, subject: str | None
) -> ForgetTarget:
    if chat is not None:
        return ForgetChat(chat_id=conversations.chats.resolve(chat).id)
    if document is not None:
        return ForgetDocument(document_id=document)
    return ForgetSubject(phrase=subject or "")


def _ask(target: ForgetTarget, counts: dict[str, int]) -> None:
    found = ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing in chats"
    more = "" if isinstance(target, ForgetChat) else ", and documents"
    click.confirm(f"This removes for good: {found}{more}; saved prefixes and backups too. Go on?", abort=True)


def _stores(
    settings: Settings, conversations: Conversations, chats: ForgettableChats, closing: ExitStack
) -> Sequence[Forgettable]:
    stores: list[Forgettable] = [chats]
    if settings.index_uri or (settings.data_dir / "index").exists():
        stores.append(_documents(settings, closing))
    return [*stores, *kept_beside(settings, conversations.database, closing)]


def _documents(settings: Settings, closing: ExitStack) -> Forgettable:
    from appliance.cli.documents import open_library
    from appliance.memory.forget_documents import ForgettableDocuments

    try:
        library = open_library(settings)
    except ModelNotFoundError as exc:
        raise StorageError(
            "documents cannot be searched for what is to be forgotten, for their embedder is not here; "
            "nothing was removed",
            hint=exc.hint,
        ) from exc
    closing.callback(library.close)
    return ForgettableDocuments(library, settings.data_dir / "index")


def _as_json(receipt: ForgetReceipt) -> str:
    reports = [{**dataclasses.asdict(report), "needles": len(report.needles)} for report in receipt.reports]
    probes = [
        {"store": probe.store, "checked": list(probe.checked), "finds": len(probe.hits)}
        for probe in receipt.probes
    ]
    remains = sorted({f"{hit.store}: {hit.place}" for hit in receipt.remains})
    return json.dumps(
        {"is_clean": receipt.is_clean, "reports": reports, "probes": probes, "remains": remains},
        ensure_ascii=False,
        indent=2,
    )
