"""Says, before anything is sent, that a model runs on another machine and what is asked will leave this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.cli.screen import AnswerScreen
from appliance.core.errors import ApplianceError
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.routing import Candidate

if TYPE_CHECKING:
    from appliance.app import Appliance

_PLACES = {"this_network": "in this network", "elsewhere": "outside this network"}


async def note_where_data_goes(appliance: Appliance, model: str, screen: AnswerScreen) -> None:
    """Write a line for each other machine that may be sent what is asked of a model or route."""
    if not appliance.settings.providers:
        return
    request = GenerateRequest(conversation=Conversation.of(UserMessage(text="?")), model=model)
    try:
        decision = await appliance.gateway.decide(request)
    except ApplianceError:
        # The request itself will say so.
        return
    for line in dict.fromkeys(_line(appliance, candidate) for candidate in decision.candidates):
        if line:
            screen.note(line)


def _line(appliance: Appliance, candidate: Candidate) -> str:
    place = _PLACES.get(candidate.placement)
    if place is None:
        return ""
    server = appliance.settings.providers.get(candidate.provider)
    host = server.address.host if server is not None else candidate.provider
    return f"note: {candidate.model} runs on {host}, {place}: what is asked leaves this machine"
