"""Prompts of exactly the wished number of tokens, from a seed, so that both sides are asked the same."""

from __future__ import annotations

import random
from collections.abc import Sequence

from appliance.core.messages import AssistantMessage, Conversation, Message, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.engine.client import Engine
from benchmarks.peers.engine_side import EngineFailedError

SYSTEM = "You are a storyteller who never stops."

_WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem "
    "hand part place case week company system program question work government number night point home water room "
    "mother area money story fact month lot right study book eye job word business issue side kind head house "
    "service friend father power hour game line end member law car city community name president team minute idea "
    "body information back parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education"
)
_ATTEMPTS = 64


def request_of(
    messages: Sequence[Message], *, model: str, owner: str, output_tokens: int, stop: tuple[str, ...] = ()
) -> GenerateRequest:
    """A greedy request. An `owner` of its own makes sure that nothing kept for others is reused."""
    return GenerateRequest(
        conversation=Conversation(tuple(messages)),
        model=model,
        sampling=SamplingParams(temperature=0.0, max_tokens=output_tokens, stop=stop),
        owner=owner,
    )


def words(count: int, *, seed: str) -> str:
    """Words in an order that the seed decides."""
    chooser = random.Random(seed)
    known = _WORDS.split()
    return " ".join(chooser.choice(known) for _ in range(count))


async def sized_messages(
    engine: Engine, *, model: str, tokens: int, seed: str, closing: str = "Go on with this story at length."
) -> list[Message]:
    """A conversation of one turn whose rendered prompt has exactly this many tokens.

    Raises:
        EngineFailedError: no such prompt was found, for instance because the template alone is longer.
    """
    count = tokens
    for attempt in range(_ATTEMPTS):
        # A different word order shifts token boundaries where the right length cannot be met with this one.
        text = f"{words(max(count, 0), seed=f'{seed}/{attempt // 8}')}. {closing}"
        messages: list[Message] = [SystemMessage(text=SYSTEM), UserMessage(text=text)]
        request = request_of(messages, model=model, owner="sizing", output_tokens=1)
        missing = tokens - await engine.count_tokens(request)
        if missing == 0:
            return messages
        count += missing
        if count < 0:
            break
    raise EngineFailedError(f"no prompt of exactly {tokens} tokens was found")


def next_turn(messages: Sequence[Message], answer: str, question: str) -> list[Message]:
    """The conversation with an answer and the next question."""
    return [*messages, AssistantMessage(text=answer), UserMessage(text=question)]


def wire_messages(messages: Sequence[Message]) -> list[dict[str, str]]:
    """The conversation as OpenAI's chat endpoint takes it."""
    roles = {"system": "system", "user": "user", "assistant": "assistant"}
    return [
        {"role": roles[message.kind], "content": message.text}
        for message in messages
        if message.kind != "tool"
    ]
