"""Whatever the sizes of their requests, owners who always wait get even shares of the tokens."""

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.gateway.waiting import Ask, FairQueue, Waiter

MOST_TOKENS = 5000


def waiter_of(owner: str, tokens: int) -> Waiter:
    ask = Ask(owner=owner, model="m", tokens=tokens, is_large=False)
    return Waiter(ask, asyncio.Future(loop=LOOP))


LOOP = asyncio.new_event_loop()
LOOP.close()
SIZES = st.lists(st.integers(1, MOST_TOKENS), min_size=20, max_size=60)


@settings(max_examples=50, deadline=None)
@given(anna=SIZES, ben=SIZES, cleo=SIZES)
def test_shares_differ_by_less_than_two_requests(anna: list[int], ben: list[int], cleo: list[int]) -> None:
    queue, served = FairQueue(), Counter[str]()
    sizes = {"anna": anna, "ben": ben, "cleo": cleo}
    for owner, tokens in sizes.items():
        queue.begin(owner)
        for size in tokens:
            queue.add(waiter_of(owner, size))

    while all(queue.length_of(owner) for owner in sizes):
        waiter = queue.take_next(lambda ask: True)
        assert waiter is not None
        queue.charge(waiter.ask)
        queue.settle(waiter.ask, waiter.ask.tokens)
        served[waiter.ask.owner] += waiter.ask.tokens
        assert (
            max(served[owner] for owner in sizes) - min(served[owner] for owner in sizes) <= 2 * MOST_TOKENS
        )


@settings(max_examples=50, deadline=None)
@given(asks=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_everybody_who_waits_is_seated_once_or_leaves(asks: list[tuple[str, bool]]) -> None:
    queue = FairQueue()
    waiters = []
    for owner, is_large in asks:
        queue.begin(owner)
        ask = Ask(owner=owner, model="m", tokens=10, is_large=is_large)
        waiters.append(Waiter(ask, asyncio.Future(loop=LOOP)))
        queue.add(waiters[-1])
    leaving = waiters[::3]
    for waiter in leaving:
        queue.remove(waiter)

    seated = []
    while (waiter := queue.take_next(lambda ask: True)) is not None:
        seated.append(waiter)

    assert len(queue) == 0
    assert sorted(map(id, seated)) == sorted(id(waiter) for waiter in waiters if waiter not in leaving)
