"""`POST /v1/forget`: the caller's own things go for good, with a receipt."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from appliance.core.forgetting import ForgetChat, ForgetDocument, ForgetSubject, ForgetTarget
from appliance.memory.forget import ForgetReceipt
from appliance.retrieval.library import Library
from appliance.server.forgetting import Forgetting, forget_receipt_json
from appliance.server.own.documents import find_document
from appliance.server.own.exchange import any_chat
from appliance.server.problems import refused
from appliance.server.services import ChatCaller, DocumentCaller, Services, ServicesOf
from appliance.server.wire import JsonObject, Wire

router = APIRouter(prefix="/v1", tags=["Forgetting"])


class ForgetBody(Wire):
    """What to forget: exactly one of these."""

    conversation_id: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    document_id: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    subject: Annotated[str, Field(min_length=3, max_length=500)] | None = None
    everything: bool | None = None


@router.post("/forget")
async def forget(
    body: ForgetBody,
    caller: ChatCaller,
    reader: DocumentCaller,  # noqa: ARG001  what is forgotten may be a document
    services: ServicesOf,
) -> JsonObject:
    """Remove something of the caller for good, and search every store for what was removed."""
    stated = [name for name in ForgetBody.model_fields if getattr(body, name) not in (None, False)]
    if len(stated) != 1:
        raise refused("name exactly one thing to forget", param=stated[-1] if stated else "everything")
    if body.everything:
        receipt = await forget_everything(services, caller.owner)
    else:
        receipt = await _forget_one(services, body, caller.owner)
    await asyncio.to_thread(
        services.audit.append, caller.owner, f"forgotten.{stated[0]}", is_clean=receipt.is_clean
    )
    return forget_receipt_json(receipt)


async def forget_everything(services: Services, owner: str) -> ForgetReceipt:
    """Forget all that an owner stored, in running models too."""
    await services.appliance.forget_owner(owner)
    forgetting = await _forgetting(services)
    return await asyncio.to_thread(forgetting.everything, owner)


async def _forget_one(services: Services, body: ForgetBody, owner: str) -> ForgetReceipt:
    target: ForgetTarget
    if body.conversation_id is not None:
        conversations = services.conversations_of(owner)
        chat = await asyncio.to_thread(any_chat, conversations, body.conversation_id)
        target = ForgetChat(chat_id=chat.id, owner=owner)
    elif body.document_id is not None:
        library = await services.library.get()
        await find_document(library, owner, body.document_id)
        target = ForgetDocument(document_id=body.document_id, owner=owner)
    else:
        target = ForgetSubject(phrase=body.subject or "", owner=owner)
    await services.appliance.forget_owner(owner)
    forgetting = await _forgetting(services)
    return await asyncio.to_thread(forgetting.one, target)


async def _forgetting(services: Services) -> Forgetting:
    library: Library | None = None
    settings = services.appliance.settings
    if settings.index_uri or (settings.data_dir / "index").exists():
        library = await services.library.get()
    return Forgetting(settings, services.database, library)
