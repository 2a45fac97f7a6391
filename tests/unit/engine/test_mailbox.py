"""A slow caller loses no text, and the queue stays bounded."""

from __future__ import annotations

from appliance.core.events import PrefillProgress, TextDelta
from appliance.engine.mailbox import Mailbox


async def test_a_slow_caller_gets_all_text_in_fewer_events() -> None:
    mailbox = Mailbox()
    for number in range(1000):
        mailbox.put(TextDelta(text=f"{number} "))

    taken = [await mailbox.take() for _ in range(256)]

    texts = [event.text for event in taken if isinstance(event, TextDelta)]
    assert "".join(texts) == "".join(f"{number} " for number in range(1000))


async def test_only_the_newest_progress_waits() -> None:
    mailbox = Mailbox()
    for done in (10, 20, 30):
        mailbox.put(PrefillProgress(processed_tokens=done, total_tokens=30, cached_tokens=0))
    mailbox.put(TextDelta(text="a"))

    assert await mailbox.take() == PrefillProgress(processed_tokens=30, total_tokens=30, cached_tokens=0)
    assert await mailbox.take() == TextDelta(text="a")
