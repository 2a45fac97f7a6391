"""The worked example: a support ticket comes in as HTTP, and leaves as a typed value.

The path, step by step: FastAPI has checked the body against `TicketBody` and the guard its token; the token's
user owns all that follows. The ticket is stored as a turn of a conversation of that owner. A `GenerateRequest`
is made of the conversation, and the gateway answers it with an instance of `TicketClassification`: the answer
is written under a grammar made of the type, judged by its validators, and written once more when they object.
The answer is stored below the ticket, and goes out with what it cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, field_validator

from appliance.config import Settings
from appliance.core.errors import error_of
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure
from appliance.server.openai.answers import receipt_json, usage_json
from appliance.server.own.exchange import Exchange
from appliance.server.services import ChatCaller, Services, ServicesOf
from appliance.server.teams.tokens import Caller
from appliance.server.wire import JsonObject, ModelName, Wire

router = APIRouter(prefix="/v1/tickets", tags=["Example"])

PROMPT_ID = "ticket-classification"
PROMPT_VERSION = "1"
_INSTRUCTIONS = (
    "You sort support tickets. Choose the category and the urgency that fit the last ticket best, and say in one "
    "sentence what the customer wants. A human is needed when money, law, safety or anger is involved."
)
_ANSWER_TOKENS = 200


class TicketBody(Wire):
    """A ticket. With a conversation id it is read in the light of the tickets before it."""

    text: Annotated[str, Field(min_length=1, max_length=20_000)]
    conversation_id: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    model: ModelName | None = None


class TicketClassification(BaseModel):
    """What a ticket is about. The model fills it in; the validators judge it."""

    category: Literal["billing", "technical", "account", "delivery", "other"]
    urgency: Literal["low", "normal", "high"]
    summary: Annotated[str, Field(min_length=1, max_length=200)]
    needs_human: bool

    @field_validator("summary")
    @classmethod
    def _says_something(cls, summary: str) -> str:
        if not any(character.isalpha() for character in summary):
            raise ValueError("say in words what the customer wants")
        return summary.strip()


class TicketAnswer(BaseModel):
    """What goes out: the typed value, where it is stored, and what it cost."""

    conversation_id: str
    ticket: TicketClassification
    usage: JsonObject
    appliance: JsonObject


@router.post("/classify")
async def classify(
    body: TicketBody, request: Request, caller: ChatCaller, services: ServicesOf
) -> TicketAnswer:
    """Say what a ticket is about."""
    asked_model = services.model(body.model)
    await services.appliance.gateway.capabilities(asked_model)
    conversations = services.conversations(caller)
    opened = services.exchanges.open(conversations, body.conversation_id, body.text, system=_INSTRUCTIONS)
    async with opened as exchange:
        exchange.request = _ticket_request(exchange, caller, asked_model, services.appliance.settings)
        return await services.running.unless_gone(request, _classified(services, exchange, exchange.request))


async def _classified(services: Services, exchange: Exchange, asked: GenerateRequest) -> TicketAnswer:
    result = await services.appliance.gateway.generate(asked, TicketClassification)
    exchange.result = result
    if isinstance(result, GenerateFailure):
        raise error_of(result.failure)
    return TicketAnswer(
        conversation_id=exchange.chat_id,
        ticket=result.value,
        usage=usage_json(result.usage),
        appliance=receipt_json(asked, [result]),
    )


def _ticket_request(exchange: Exchange, caller: Caller, model: str, settings: Settings) -> GenerateRequest:
    return GenerateRequest(
        conversation=exchange.conversation,
        model=model,
        sampling=replace(settings.default_sampling(), temperature=0.0, max_tokens=_ANSWER_TOKENS),
        owner=caller.owner,
        prompt_id=PROMPT_ID,
        prompt_version=PROMPT_VERSION,
    )
