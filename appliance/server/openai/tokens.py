"""`POST /tokenize`: how many tokens a text or a conversation has for a model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from appliance.core.errors import ModelNotFoundError
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.server.openai.chat_wire import WireMessage
from appliance.server.openai.messages import conversation_of, goes_on
from appliance.server.problems import refused
from appliance.server.services import ChatCaller, Services, ServicesOf
from appliance.server.wire import JsonObject, ModelName, Text, Wire

router = APIRouter(tags=["Tokens"])


class TokenizeBody(Wire):
    """A text as one question, or a conversation; counted as the model would read it, its template included."""

    content: Text | None = None
    messages: Annotated[list[WireMessage], Field(min_length=1, max_length=10_000)] | None = None
    model: ModelName | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None


@router.post("/tokenize")
async def tokenize(
    body: TokenizeBody, request: Request, caller: ChatCaller, services: ServicesOf
) -> JsonObject:
    """Count tokens as a prompt has them, and say how many the context window holds.

    For `content` the ids of the bare text come along where the model runs on this machine; they are the names
    that `logit_bias` takes.
    """
    gateway = services.appliance.gateway
    if (body.content is None) == (body.messages is None):
        raise refused("give either content or messages", param="content", code="invalid_value")
    is_open = goes_on(body.continue_final_message, body.add_generation_prompt)
    conversation = (
        Conversation((UserMessage(text=body.content or ""),), is_open=is_open)
        if body.messages is None
        else conversation_of(body.messages, is_open=is_open)
    )
    asked = GenerateRequest(conversation=conversation, model=services.model(body.model), owner=caller.owner)
    offered = await gateway.capabilities(asked.model)
    count = await services.running.unless_gone(request, gateway.count_tokens(asked))
    tokens = None if body.content is None else await _ids(services, asked.model, body.content)
    return {
        "count": count,
        "context_window": offered.context_window,
        "tokens": tokens,
        "model": asked.model,
    }


async def _ids(services: Services, model: str, text: str) -> list[int] | None:
    try:
        return await services.appliance.local_models.tokenize(model, text)
    except ModelNotFoundError:
        return None
