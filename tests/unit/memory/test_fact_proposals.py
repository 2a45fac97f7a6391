"""Which words of a user are proposed as facts, and which facts a chat is answered with."""

from __future__ import annotations

import json

import pytest

from appliance.core.clock import VirtualClock
from appliance.core.errors import ApplianceError, Failure
from appliance.gateway import Gateway
from appliance.memory.conversations import Conversations
from appliance.memory.fact_proposals import FactPhrases
from appliance.memory.fact_recall import FactRecall
from appliance.memory.facts import Facts, propose_facts
from appliance.memory.turns import Turn
from appliance.providers.script import Fail, Say, ScriptedModel, Step
from appliance.providers.scripted import ScriptedProvider
from appliance.storage.database import Database
from tests.unit.memory.test_facts import WordEmbedder


@pytest.fixture
def facts(database: Database) -> Facts:
    return Facts(database, WordEmbedder())


@pytest.fixture
def turns(conversations: Conversations) -> list[Turn]:
    chat = conversations.chats.create()
    return [conversations.turns.add_user_turn(chat.id, "I live in Paris. Why is it wet?", parent_id=None)]


def phrases_of(step: Step) -> FactPhrases:
    clock = VirtualClock()
    model = ScriptedModel(name="m", turns=((step,),))
    return FactPhrases(Gateway([ScriptedProvider([model], clock)], clock), model="m")


async def test_only_what_the_user_said_becomes_a_proposal(facts: Facts, turns: list[Turn]) -> None:
    said = Say(text=json.dumps({"phrases": ["i live in paris", "I am a spy"]}))

    proposed = await propose_facts(facts, turns, phrases_of(said))

    assert [(fact.text, fact.state, fact.source_turn_id) for fact in proposed] == [
        ("I live in Paris", "proposed", turns[0].id)
    ]
    assert FactRecall(facts)(turns) == []


async def test_a_model_that_fails_proposes_nothing_and_says_why(facts: Facts, turns: list[Turn]) -> None:
    failing = phrases_of(Fail(failure=Failure(kind="timeout", message="too slow")))

    with pytest.raises(ApplianceError, match="too slow"):
        await propose_facts(facts, turns, failing)


async def test_of_many_facts_those_near_the_first_question_are_recalled_in_their_order(
    facts: Facts, turns: list[Turn]
) -> None:
    for text in ("my dog is rex", "i live in paris", "my name is rome", "i live in rome"):
        facts.add(text)

    assert FactRecall(facts, most=2)(turns) == ["i live in paris", "i live in rome"]
    assert len(FactRecall(facts, most=4)(turns)) == 4
