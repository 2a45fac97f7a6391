"""Text of exactly the wished number of tokens, from a seed, under whatever tokenizer counts."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from appliance.core.errors import InvalidRequestError

WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem "
    "hand part place case week company system program question work government number night point home water room "
    "mother area money story fact month lot right study book eye job word business issue side kind head house "
    "service friend father power hour game line end member law car city community name president team minute idea "
    "body information back parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education"
)
_SEEDS = 8
_ATTEMPTS_A_SEED = 8

CountTokens = Callable[[str], Awaitable[int]]
MakeText = Callable[[int, str], str]


class NoExactTextError(InvalidRequestError):
    """No text of exactly so many tokens was found, for instance because what must stand in it is longer."""


def words(count: int, *, seed: str) -> str:
    """Words in an order that the seed decides; a longer text begins with the shorter one."""
    chooser = random.Random(seed)
    known = WORDS.split()
    return " ".join(chooser.choice(known) for _ in range(count))


def plain_words(count: int, seed: str) -> str:
    """Nothing but words; never empty."""
    return words(max(count, 1), seed=seed)


async def exact_text(
    tokens: int, *, seed: str, count_tokens: CountTokens, make: MakeText = plain_words
) -> str:
    """Find the text that has exactly this many tokens.

    Args:
        count_tokens: counts a text as it will be counted when it is sent.
        make: makes a text of about so many words from a seed.

    Raises:
        NoExactTextError: none was found.
    """
    shortest = 0
    for seed_number in range(_SEEDS):
        # Another order of words shifts token boundaries where the right length cannot be met with this one.
        count = tokens
        for _ in range(_ATTEMPTS_A_SEED):
            text = make(count, f"{seed}/{seed_number}")
            found = await count_tokens(text)
            if found == tokens:
                return text
            if count == 0 and found > tokens:
                shortest = min(shortest or found, found)
                break
            count = max(count + tokens - found, 0)
    raise NoExactTextError(
        f"no text of exactly {tokens} tokens was found"
        + (f"; the shortest prompt has {shortest}" if shortest else ""),
        hint=f"ask for at least {shortest} tokens" if shortest else "ask for another number of tokens",
    )
