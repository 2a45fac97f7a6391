"""KV prefixes: never across owners, restored after a restart, and a bad file is never wrong text."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from appliance.core.events import Completed
from appliance.engine.client import Engine
from tests.engine_calls import answer, ask, closing_engine, open_engine

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROMPT = "The quick brown fox jumps over the lazy dog. " * 20


async def test_a_prefix_never_crosses_an_owner(starter_engine: Engine) -> None:
    await answer(starter_engine, ask(PROMPT, owner="ann", max_tokens=2))

    _, other = await answer(starter_engine, ask(PROMPT, owner="bob", max_tokens=2))
    _, same = await answer(starter_engine, ask(PROMPT, owner="ann", max_tokens=2))

    assert other.usage.cached_tokens == 0
    assert same.usage.cached_tokens == same.usage.input_tokens - 1


async def test_a_running_request_shares_its_prefix_with_its_owner_only(starter_engine: Engine) -> None:
    running = starter_engine.stream(ask(PROMPT + "Go on.", owner="carl", max_tokens=200))
    async with aclosing(running):
        async for event in running:
            if event.kind == "text_delta":
                break
        _, same = await answer(starter_engine, ask(PROMPT + "Stop.", owner="carl", max_tokens=2))
        _, other = await answer(starter_engine, ask(PROMPT + "Stop.", owner="dora", max_tokens=2))

    assert same.usage.cached_tokens > 150
    assert other.usage.cached_tokens == 0


async def ask_in_new_process(weights: Path, folder: Path, *, owner: str = "local") -> tuple[str, Completed]:
    engine = open_engine(weights, prefix_dir=folder, parallel=2)
    async with closing_engine(engine):
        return await answer(engine, ask(PROMPT, owner=owner, max_tokens=12))


async def test_a_prefix_survives_a_restart_and_gives_the_same_text(
    starter_weights: Path, tmp_path: Path
) -> None:
    cold_text, cold = await ask_in_new_process(starter_weights, tmp_path)
    warm_text, warm = await ask_in_new_process(starter_weights, tmp_path)
    _, foreign = await ask_in_new_process(starter_weights, tmp_path, owner="another")

    assert cold.usage.cached_tokens == 0
    assert warm.usage.cached_tokens == warm.usage.input_tokens - 1
    assert warm_text == cold_text
    assert foreign.usage.cached_tokens == 0


async def test_a_corrupt_prefix_file_is_a_miss_never_wrong_text(
    starter_weights: Path, tmp_path: Path
) -> None:
    cold_text, _ = await ask_in_new_process(starter_weights, tmp_path)
    (path,) = tmp_path.rglob("*.kv")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))

    text, completed = await ask_in_new_process(starter_weights, tmp_path)

    assert completed.usage.cached_tokens == 0
    assert text == cold_text


async def test_forgetting_an_owner_drops_memory_and_files(starter_weights: Path, tmp_path: Path) -> None:
    engine = open_engine(starter_weights, prefix_dir=tmp_path, parallel=2)
    async with closing_engine(engine):
        await answer(engine, ask(PROMPT, owner="ann", max_tokens=2))
        await engine.save_prefixes()
        saved = len(list(tmp_path.rglob("*.kv")))
        await engine.forget_owner("ann")
        _, again = await answer(engine, ask(PROMPT, owner="ann", max_tokens=2))
        left = len(list(tmp_path.rglob("*.kv")))

    assert (saved, left) == (1, 0)
    assert again.usage.cached_tokens == 0


async def test_kept_sequences_give_way_when_cells_run_out(starter_weights: Path) -> None:
    engine = open_engine(
        starter_weights, context_window=256, parallel=1, kept_sequences=8, prefix_ram_bytes=0
    )
    async with closing_engine(engine):
        for number in range(6):
            _, completed = await answer(engine, ask(f"{number} " + "sun " * 120, owner="x", max_tokens=4))
            assert completed.finish_reason == "length"
        stats = await engine.stats()

    assert stats.kept_tokens <= 256


CHATS = tuple(f"Chat {name}. {PROMPT * 2}" for name in ("one", "two", "three"))


async def test_a_chat_left_for_another_is_parked_and_comes_back_whole(starter_weights: Path) -> None:
    engine = open_engine(starter_weights, parallel=1, kv_type="reproducible")
    async with closing_engine(engine):
        first = [await answer(engine, ask(chat, max_tokens=8)) for chat in CHATS]
        parked_bytes = (await engine.stats()).parked_bytes
        again = [await answer(engine, ask(chat, max_tokens=8)) for chat in CHATS]

    assert parked_bytes > 0
    assert [text for text, _ in again] == [text for text, _ in first]
    assert all(done.usage.cached_tokens == done.usage.input_tokens - 1 for _, done in again)


async def test_parked_chats_stay_below_their_limit_and_the_oldest_goes(starter_weights: Path) -> None:
    sizes = []
    for limit in (512 << 20, 12 << 20):
        engine = open_engine(starter_weights, parallel=1, prefix_ram_bytes=limit)
        async with closing_engine(engine):
            for chat in CHATS:
                await answer(engine, ask(chat, max_tokens=2))
            sizes.append((await engine.stats()).parked_bytes)
            _, oldest = await answer(engine, ask(CHATS[0], max_tokens=2))
        assert (oldest.usage.cached_tokens > 64) == (limit > 12 << 20)

    assert sizes[0] > 12 << 20 >= sizes[1] > 0


async def test_forgetting_an_owner_drops_what_is_parked(starter_weights: Path) -> None:
    engine = open_engine(starter_weights, parallel=1)
    async with closing_engine(engine):
        await answer(engine, ask(CHATS[0], owner="ann", max_tokens=2))
        await answer(engine, ask(CHATS[1], owner="bob", max_tokens=2))
        before = (await engine.stats()).parked_bytes
        await engine.forget_owner("ann")
        after = (await engine.stats()).parked_bytes

    assert (before > 0, after) == (True, 0)


async def test_a_parked_prefix_is_saved_to_disk_too(starter_weights: Path, tmp_path: Path) -> None:
    engine = open_engine(starter_weights, prefix_dir=tmp_path, parallel=1)
    async with closing_engine(engine):
        for chat in CHATS[:2]:
            await answer(engine, ask(chat, max_tokens=2))
        await engine.save_prefixes()
    engine = open_engine(starter_weights, prefix_dir=tmp_path, parallel=1)
    async with closing_engine(engine):
        _, parked = await answer(engine, ask(CHATS[0], max_tokens=2))

    assert parked.usage.cached_tokens == parked.usage.input_tokens - 1


async def test_kept_sequences_are_parked_when_cells_run_out(starter_weights: Path) -> None:
    engine = open_engine(starter_weights, context_window=256, parallel=1, kept_sequences=8)
    prompts = [f"{number} " + "sun " * 120 for number in range(4)]
    async with closing_engine(engine):
        for prompt in prompts:
            await answer(engine, ask(prompt, owner="x", max_tokens=4))
        _, again = await answer(engine, ask(prompts[0], owner="x", max_tokens=4))
        stats = await engine.stats()

    assert stats.parked_bytes > 0
    assert again.usage.cached_tokens == again.usage.input_tokens - 1
