"""Real weights go on inside an open turn: nearly all of the prompt is reused, and no word is broken at the seam."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.core.messages import AssistantMessage, Conversation, Message, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.engine.client import Engine
from tests.engine_calls import answer, ask

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

QUESTION = "List the numbers from one to fifty in words."


def going_on(request: GenerateRequest, so_far: str, **sampling: object) -> GenerateRequest:
    messages: tuple[Message, ...] = (*request.conversation.messages, AssistantMessage(text=so_far))
    values = {"temperature": 0.0, "max_tokens": 8, **sampling}
    return replace(
        request,
        conversation=Conversation(messages, is_open=True),
        sampling=SamplingParams(**values),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("length", [1, 5, 12])
async def test_the_rest_begins_with_everything_but_the_last_token_cached(
    starter_engine: Engine, length: int
) -> None:
    request = ask(QUESTION, owner=f"reader{length}", max_tokens=length)
    so_far, first = await answer(starter_engine, request)

    counted = await starter_engine.count_tokens(going_on(request, so_far))
    _, rest = await answer(starter_engine, going_on(request, so_far))

    assert rest.usage.input_tokens == counted == first.usage.input_tokens + length
    assert rest.usage.cached_tokens == counted - 1


async def test_space_at_the_end_of_the_text_is_neither_doubled_nor_broken_off_the_next_word(
    starter_engine: Engine,
) -> None:
    request = ask("Repeat: the quick brown fox.")
    bare, _ = await answer(starter_engine, going_on(request, "the quick"))
    spaced, _ = await answer(starter_engine, going_on(request, "the quick "))

    assert bare.startswith(" ")
    assert spaced == bare[1:]


async def test_drawn_tokens_begin_with_the_space_that_is_owed_too(starter_engine: Engine) -> None:
    request = ask("Repeat: the quick brown fox.")
    for seed in range(4):
        drawn = going_on(request, "the quick  ", temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, seed=seed)
        text, completed = await answer(starter_engine, drawn)

        assert completed.usage.output_tokens > 0
        assert "\ufffd" not in text


async def test_half_a_character_at_the_end_of_a_cut_answer_is_not_shown(starter_engine: Engine) -> None:
    """The starter model writes this emoji as four tokens of a byte each or nearly so."""
    emoji = await starter_engine.tokenize("🦊")
    assert len(emoji) > 1
    bias = {emoji[0]: 100.0}

    text, completed = await answer(starter_engine, ask("A fox.", max_tokens=1, logit_bias=bias))

    assert (text, completed.finish_reason) == ("", "length")


async def test_log_probabilities_belong_to_the_words_behind_the_seam(starter_engine: Engine) -> None:
    request = ask("Repeat: the quick brown fox.")
    events = [
        event
        async for event in starter_engine.stream(
            going_on(request, "the quick ", max_tokens=4, top_logprobs=1)
        )
    ]

    shown = [event for event in events if event.kind == "text_delta"]
    told = b"".join(bytes(one.token_bytes) for event in shown for one in event.logprobs)
    assert told.decode().removeprefix(" ") == "".join(event.text for event in shown)


async def test_the_system_text_and_earlier_turns_stand_before_the_open_one(starter_engine: Engine) -> None:
    system, asked, said = SystemMessage(text="Be brief."), UserMessage(text="Hi"), AssistantMessage(text="Yo")
    whole = Conversation(
        (system, asked, said, UserMessage(text="And?"), AssistantMessage(text="I")), is_open=True
    )
    request = replace(ask("x"), conversation=whole)

    tokens = await starter_engine.prompt_tokens(request)
    begun = await starter_engine.prompt_tokens(
        replace(request, conversation=Conversation(whole.messages[:-1]))
    )

    assert tokens == [*begun, *await starter_engine.tokenize("I")]
