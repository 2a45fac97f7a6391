"""When Python looks for garbage: all of it takes a sixth of a second, so not while words arrive and keys are typed."""

from __future__ import annotations

import gc

_YOUNG_OBJECTS = 2_000
_YOUNG_ROUNDS = 10
# A full search after so many partial ones would take an answer of some hundred thousand words.
_PARTIAL_ROUNDS = 1_000


def search_seldom() -> None:
    """Let what is there now stay out of every search, and search the rest whole only when told to."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_ROUNDS, _PARTIAL_ROUNDS)


def search_now() -> None:
    """Search whole, since nobody waits."""
    gc.collect()
