from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import pytest

from appliance.core.errors import InvalidRequestError
from appliance.core.ports import Vector
from appliance.memory.conversations import Conversations
from appliance.memory.facts import Facts, propose_facts, quote_of_user
from appliance.memory.turns import Turn
from appliance.storage.database import Database

VOCABULARY = ["live", "paris", "rome", "dog", "vegetarian", "name", "is", "in", "i", "my", "rex"]


class WordEmbedder:
    """An embedder whose vectors count known words."""

    def __init__(self, digest: str = "words-1") -> None:
        self.digest = digest
        self.dimension = len(VOCABULARY) + 1
        self.max_input_tokens = 512

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._embed(text.lower().split()) for text in texts]

    def _embed(self, words: list[str]) -> Vector:
        counts = [float(words.count(word)) for word in VOCABULARY] + [0.1]
        length = sqrt(sum(count * count for count in counts))
        return [count / length for count in counts]


class Now:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def facts(database: Database, now: Now) -> Facts:
    return Facts(database, WordEmbedder(), now_s=now)


@pytest.fixture
def turns(conversations: Conversations) -> list[Turn]:
    chat = conversations.chats.create()
    said = conversations.turns.add_user_turn(
        chat.id, "By the way, I live\n in PARIS. My dog is called Rex.", parent_id=None
    )
    return [said]


async def test_only_what_the_user_really_said_is_proposed_in_the_users_own_words(
    facts: Facts, turns: list[Turn]
) -> None:
    async def extract(shown: Sequence[Turn]) -> list[str]:
        assert [turn.role for turn in shown] == ["user"]
        return ["i live in paris", "The user is a billionaire", "live in Par", "", "x" * 9000]

    proposed = await propose_facts(facts, turns, extract)

    assert [(fact.text, fact.state) for fact in proposed] == [("I live in PARIS", "proposed")]
    assert (proposed[0].source_turn_id, proposed[0].source_chat_id) == (turns[0].id, turns[0].chat_id)
    assert facts.list_facts() == []
    assert facts.relevant("where do I live") == []


def test_a_proposal_is_saved_when_it_is_confirmed_and_not_proposed_again(
    facts: Facts, turns: list[Turn]
) -> None:
    (proposal,) = facts.propose(turns, ["I live in PARIS"])

    confirmed = facts.confirm(proposal.id)

    assert confirmed.replaced_text == ""
    assert [fact.text for fact in facts.list_facts()] == ["I live in PARIS"]
    assert facts.propose(turns, ["i live in paris"]) == []
    assert facts.list_facts("proposed") == []


def test_a_near_duplicate_replaces_the_older_words_and_says_so(facts: Facts) -> None:
    first = facts.add("I live in paris").fact

    merged = facts.add("in paris I live")

    assert merged.replaced_text == "I live in paris"
    assert merged.fact.id == first.id
    assert [fact.text for fact in facts.list_facts()] == ["in paris I live"]


def test_different_facts_stay_apart(facts: Facts) -> None:
    facts.add("I live in paris")
    facts.add("my dog is rex")

    assert len(facts.list_facts()) == 2
    assert facts.relevant("what is my dog")[0].text == "my dog is rex"
    assert len(facts.relevant("what is my dog", limit=1)) == 1


def test_an_expired_fact_is_gone_from_lists_and_prompts_and_then_from_disk(facts: Facts, now: Now) -> None:
    fact = facts.add("I live in paris", expires_at_s=now.seconds + 10).fact
    now.seconds += 10

    assert facts.list_facts() == []
    assert facts.relevant("where do I live") == []
    assert facts.get(fact.id).expires_at_s == now.seconds
    assert facts.delete_expired() == 1
    with pytest.raises(InvalidRequestError):
        facts.get(fact.id)


def test_a_corrected_fact_says_that_it_no_longer_quotes(facts: Facts) -> None:
    fact = facts.add("I live in paris").fact

    corrected = facts.correct(fact.id, "  I live in\nrome ")

    assert (corrected.text, corrected.is_corrected) == ("I live in rome", True)
    assert facts.relevant("rome")[0].id == fact.id
    for bad in ("", " \n ", "x" * 501):
        with pytest.raises(InvalidRequestError):
            facts.correct(fact.id, bad)


def test_facts_of_one_owner_do_not_exist_for_another(database: Database, facts: Facts) -> None:
    theirs = Facts(database, WordEmbedder(), owner="other")
    fact = facts.add("I live in paris").fact

    assert theirs.list_facts() == []
    assert theirs.relevant("paris") == []
    assert theirs.add("I live in paris").replaced_text == ""
    for forbidden in (theirs.get, theirs.delete, theirs.confirm):
        with pytest.raises(InvalidRequestError):
            forbidden(fact.id)
    assert facts.get(fact.id).text == "I live in paris"


def test_facts_of_another_embedder_are_embedded_again_before_they_are_compared(database: Database) -> None:
    Facts(database, WordEmbedder("words-1")).add("I live in paris")
    newer = Facts(database, WordEmbedder("words-2"))

    assert newer.relevant("paris") == []
    assert newer.embed_again() == 1
    assert [fact.text for fact in newer.relevant("paris")] == ["I live in paris"]
    assert newer.embed_again() == 0


def test_a_quote_is_whole_words_of_the_newest_turn_that_has_them(turns: list[Turn]) -> None:
    assert quote_of_user("my dog", turns) == ("My dog", turns[0])
    assert quote_of_user("my do", turns) is None
    assert quote_of_user("dog.*", turns) is None
