from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from appliance.core.errors import ContextOverflowError
from appliance.core.messages import Message
from appliance.memory.conversations import Conversations
from appliance.memory.prompt import AnswerSettings, BranchPrompt, PreparedPrompt
from appliance.memory.short_term import FullMemory, MemoryPolicy, SlidingWindow
from appliance.memory.turns import Chat, Turn

SETTINGS = AnswerSettings(model="small:1", prompt_id="plain", prompt_version="2")


def words(messages: Sequence[Message]) -> int:
    return sum(len(message.text.split()) for message in messages)


async def summarise(before: str, messages: Sequence[Message]) -> str:
    return f"{before}+{len(messages)}" if before else f"{len(messages)}"


@pytest.fixture
def chat(conversations: Conversations) -> Chat:
    """Three questions of twenty words."""
    created = conversations.chats.create(system_text="be brief")
    parent_id = None
    for number in range(3):
        text = f"question {number} " + "word " * 18
        parent_id = conversations.turns.add_user_turn(created.id, text, parent_id=parent_id).id
    return conversations.chats.get(created.id)


def branch_of(conversations: Conversations, chat: Chat) -> list[Turn]:
    return conversations.turns.shown_branch(chat.id)


def prompt(
    conversations: Conversations, budget_tokens: int, policy: MemoryPolicy | None = None, facts: str = ""
) -> BranchPrompt:
    return BranchPrompt(
        settings=SETTINGS, budget_tokens=budget_tokens, count_tokens=words, summaries=conversations.summaries,
        owner="local", policy=policy, summarise=summarise, facts_text=lambda: facts,
    )  # fmt: skip


async def prepare(
    conversations: Conversations, chat: Chat, budget_tokens: int, policy: MemoryPolicy | None = None
) -> PreparedPrompt:
    return await prompt(conversations, budget_tokens, policy)(chat, branch_of(conversations, chat))


async def test_what_fits_is_sent_whole_with_the_system_text_first(
    conversations: Conversations, chat: Chat
) -> None:
    prepared = await prepare(conversations, chat, 62)

    kinds = [message.kind for message in prepared.request.conversation.messages]
    assert kinds == ["system", "user", "user", "user"]
    assert (prepared.marker, prepared.new_summary) == ("", None)
    assert (prepared.request.prompt_id, prepared.request.prompt_version) == ("plain", "2")


async def test_what_does_not_fit_is_summarised_once_and_the_marker_says_so(
    conversations: Conversations, chat: Chat
) -> None:
    first = await prepare(conversations, chat, 55)
    again = await prepare(conversations, chat, 55)

    assert first.new_summary is not None
    assert first.new_summary.text == "2"
    assert first.marker == "2 earlier turns (40 tokens) stand in the prompt as a summary"
    assert again.new_summary is None
    assert again.request.conversation == first.request.conversation
    sent = first.request.conversation.messages[1].text
    assert '<summary>\n"2"\n</summary>' in sent
    assert sent.endswith(branch_of(conversations, chat)[-1].text)
    receipt = json.loads(first.receipt_json)
    assert [each["reason"] for each in receipt["folded"]] == ["summarised", "summarised"]
    assert receipt["summary_id"] == first.new_summary.id


async def test_facts_stand_before_the_first_question_and_count_against_the_budget(
    conversations: Conversations, chat: Chat
) -> None:
    branch = branch_of(conversations, chat)

    prepared = await prompt(conversations, 66, FullMemory(), "four words of facts")(chat, branch)

    assert prepared.request.conversation.messages[1].text.startswith("four words of facts\n\nquestion 0")
    with pytest.raises(ContextOverflowError):
        await prompt(conversations, 65, FullMemory(), "four words of facts")(chat, branch)


async def test_a_sliding_window_says_what_is_missing_and_summarises_nothing(
    conversations: Conversations, chat: Chat
) -> None:
    prepared = await prepare(conversations, chat, 45, SlidingWindow())

    assert prepared.marker.startswith("1 earlier turns (20 tokens) are not in the prompt")
    assert conversations.summaries.of_chat(chat.id) == []
