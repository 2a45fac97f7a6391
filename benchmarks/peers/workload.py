"""Prompts of exactly the wished number of tokens, from a seed, so that both sides are asked the same."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.core.messages import AssistantMessage, Conversation, Message, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.engine.client import Engine
from benchmarks.exact_text import exact_text, words

SYSTEM = "You are a storyteller who never stops."


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


async def sized_messages(
    engine: Engine, *, model: str, tokens: int, seed: str, closing: str = "Go on with this story at length."
) -> list[Message]:
    """A conversation of one turn whose rendered prompt has exactly this many tokens.

    Raises:
        NoExactTextError: no such prompt was found, for instance because the template alone is longer.
    """

    def messages_of(text: str) -> list[Message]:
        return [SystemMessage(text=SYSTEM), UserMessage(text=text)]

    async def count_tokens(text: str) -> int:
        request = request_of(messages_of(text), model=model, owner="sizing", output_tokens=1)
        return await engine.count_tokens(request)

    def make(count: int, word_seed: str) -> str:
        return f"{words(count, seed=word_seed)}. {closing}"

    return messages_of(await exact_text(tokens, seed=seed, count_tokens=count_tokens, make=make))


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
