"""What the small built-in evaluation asks: facts with one answer, data to write as JSON, a needle, and a text."""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.exact_text import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A question and every answer that counts as right, in lower case."""

    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """A sentence to be found in a text of so many words, `depth` of the text before it, and what to answer."""

    text: str
    question: str
    answer: str
    depth: float


FACTS: tuple[Fact, ...] = (
    Fact(question="What is the capital of France?", answers=("paris",)),
    Fact(question="What is the capital of Japan?", answers=("tokyo",)),
    Fact(question="What is the capital of Italy?", answers=("rome",)),
    Fact(question="What is the capital of Egypt?", answers=("cairo",)),
    Fact(question="How many days are in a week?", answers=("7", "seven")),
    Fact(question="How many legs does a spider have?", answers=("8", "eight")),
    Fact(question="How many minutes are in an hour?", answers=("60", "sixty")),
    Fact(question="What is 2 + 3?", answers=("5", "five")),
    Fact(question="What is 7 times 6?", answers=("42", "forty-two")),
    Fact(question="What is 15 minus 9?", answers=("6", "six")),
    Fact(question="Which planet is closest to the sun?", answers=("mercury",)),
    Fact(question="Which gas do plants take in from the air?", answers=("carbon dioxide", "co2")),
    Fact(question="What is the chemical symbol of gold?", answers=("au",)),
    Fact(question="What is frozen water called?", answers=("ice",)),
    Fact(question="Which ocean is the largest?", answers=("pacific", "pacific ocean", "the pacific ocean")),
    Fact(question="What colour do blue and yellow make when mixed?", answers=("green",)),
    Fact(question="Which animal is called the king of the jungle?", answers=("lion", "the lion")),
    Fact(question="What is the opposite of hot?", answers=("cold",)),
    Fact(question="Who wrote the play Hamlet?", answers=("william shakespeare", "shakespeare")),
    Fact(question="In which continent is Brazil?", answers=("south america",)),
)
# Answered before each question, so that small models see what form is asked for.
EXAMPLES = (("What is the capital of Spain?", "Madrid"), ("How many wheels does a bicycle have?", "2"))
SYSTEM = "Answer with the answer alone: one word or number, no sentence."


def is_match(answer: str, fact: Fact) -> bool:
    """Whether an answer is one of the right ones, apart from case, articles and the full stop."""
    said = " ".join(answer.lower().split()).strip(" .!\"'*`")
    return said in fact.answers


def needles(context_words: int, depths: tuple[float, ...], *, seed: int) -> list[Needle]:
    """Hide a code of four digits at each depth of a text of words; each text is another one."""
    found = []
    for number, depth in enumerate(depths):
        code = str(random.Random(f"needle-{seed}-{number}").randint(1000, 9999))
        filler = words(context_words, seed=f"haystack-{seed}-{number}").split()
        position = round(depth * len(filler))
        hidden = f"The secret code is {code}."
        text = f"{' '.join(filler[:position])}. {hidden} {' '.join(filler[position:])}."
        found.append(Needle(text=text, question="What is the secret code?", answer=code, depth=depth))
    return found


TEXT = """\
The harbour of the old town lies at the mouth of a river that carries more sand than water in a dry summer. For three
hundred years the people who lived there fished for herring, mended their nets on the stone wall, and quarrelled about
the price of salt. When the railway came, the fish could reach the city in one night, and for a while everyone believed
that the good years would never end. Houses with two floors were built along the quay, a school was opened, and a clock
was set into the tower of the church so that nobody could say any longer that he had come late because of the tide.

The good years ended slowly. First the herring stayed away for one season, then for two, and the older men said that
this had happened before and would pass. The younger ones did not wait. They took work on the steamers or in the mills,
sent money home, and came back at Christmas with hats that made their mothers laugh. By the time the fish returned, half
of the boats had been sold, and the smokehouse had become a place where children played on rainy afternoons. Nobody had
decided that it should be so; it was the sum of many small decisions, each of which had been reasonable by itself.

What saved the town was not an idea but a mistake. A surveyor who had been asked to measure the depth of the river wrote
down feet where he should have written metres, and the ministry, which believed him, sent a dredger that was far too
large. It dug a channel so deep that ships could enter at any tide. The engineers noticed the error only when the work
was done, and since filling the channel again would have cost more than digging it, they left it as it was. Within ten
years there were cranes on the quay, a customs house, and a small bank whose director had never learned to swim.

A visitor today sees little of all this. The cranes are gone, and the customs house sells coffee. On the wall where the
nets were mended, tourists sit and watch the ferries. But if you walk along the river early in the morning, when the
light is low, you can still see the line where the deep water begins. It is darker than the rest, and quite straight,
because it was drawn with a ruler by a man who had made an error of a factor of three, and who, as far as anybody knows,
was never told what had become of it.

Measuring is harder than it seems, and not only for surveyors. A number that is written down looks the same whether it
was taken with care or in a hurry, on a good day or a bad one. Whoever reads it later sees four digits and a unit, and
trusts them. It helps to write beside each number how it was found, how often, and how far apart the single values lay.
It helps even more to measure the same thing twice, on different days, and to be honest when the two results do not
agree. Most of the trouble in the world of measurement comes from people who measured once, liked what they saw, and
stopped. The surveyor of our story was lucky: his mistake made a town rich. Other mistakes have brought down bridges,
lost ships, and sent patients home with the wrong medicine, and none of those who made them had meant any harm.
"""
