"""Examples are chosen by likeness, in an order that is always the same."""

from collections.abc import Sequence
from math import sqrt

from appliance.core.ports import Vector
from appliance.prompts.example_bank import ExampleBank
from appliance.prompts.template import Example

WORDS = ("refund", "password", "delivery")


class WordEmbedder:
    """Counts a few words; vectors of length 1."""

    digest = "0" * 64
    dimension = len(WORDS) + 1
    max_input_tokens = 100

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.embedded += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        counts = [float(text.count(word)) for word in WORDS] + [0.1]
        length = sqrt(sum(count * count for count in counts))
        return [count / length for count in counts]


EXAMPLES = [
    Example(user="refund please", assistant="billing"),
    Example(user="my password is lost", assistant="account"),
    Example(user="where is the delivery", assistant="shipping"),
    Example(user="a refund for a delivery", assistant="billing"),
]


def users(examples: Sequence[Example]) -> list[str]:
    return [example.user for example in examples]


def test_the_most_similar_stands_last() -> None:
    chosen = ExampleBank(EXAMPLES, WordEmbedder()).nearest("refund of my money", count=2)

    assert users(chosen) == ["a refund for a delivery", "refund please"]


def test_equal_ones_stand_in_the_order_of_the_bank() -> None:
    bank = ExampleBank([EXAMPLES[0], EXAMPLES[0], EXAMPLES[1]], WordEmbedder())

    assert bank.nearest("refund", count=2) == [EXAMPLES[0], EXAMPLES[0]]
    assert users(bank.nearest("nothing of it", count=3)) == users([EXAMPLES[1], EXAMPLES[0], EXAMPLES[0]])


def test_what_is_not_alike_enough_is_left_out() -> None:
    bank = ExampleBank(EXAMPLES, WordEmbedder())

    assert users(bank.nearest("password", count=4, least_similarity=0.9)) == ["my password is lost"]


def test_the_bank_is_embedded_once() -> None:
    embedder = WordEmbedder()
    bank = ExampleBank(EXAMPLES, embedder)

    for question in ("refund", "password"):
        bank.nearest(question, count=1)

    assert len(embedder.embedded) == len(EXAMPLES) + 2


def test_an_empty_bank_and_no_examples_wanted_need_no_embedder() -> None:
    embedder = WordEmbedder()

    assert ExampleBank([], embedder).nearest("refund", count=3) == []
    assert ExampleBank(EXAMPLES, embedder).nearest("refund", count=0) == []
    assert embedder.embedded == []
