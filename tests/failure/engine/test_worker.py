"""A worker that dies, hangs on a bad file or loses its parent never takes more than its own request with it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from appliance.core.errors import ApplianceError, EngineCrashedError, ModelFileError
from appliance.core.events import Completed, Failed, PrefillProgress, TextDelta
from appliance.engine.client import Engine
from tests.conftest import REPOSITORY
from tests.engine_calls import answer, ask, closing_engine, open_engine

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_killed_worker_fails_what_runs_and_the_next_request_works(starter_weights: Path) -> None:
    engine = open_engine(starter_weights, parallel=2)
    async with closing_engine(engine):

        async def run_until_the_end(number: int) -> list[object]:
            events = []
            async for event in engine.stream(ask(f"Tell story {number}.", max_tokens=400)):
                events.append(event)
                if isinstance(event, TextDelta) and number == 0:
                    os.kill(engine.pid or 0, signal.SIGKILL)
            return events

        outcomes = await asyncio.gather(*(run_until_the_end(number) for number in range(3)))
        text, completed = await answer(engine, ask("What is the capital of France?", max_tokens=4))

    for events in outcomes:
        assert isinstance(events[-1], Failed)
        assert events[-1].failure.kind == "engine_crashed"
        assert "SIGKILL" in events[-1].failure.message
        assert sum(isinstance(event, Failed | Completed) for event in events) == 1
    assert text
    assert completed.finish_reason == "length"


async def test_a_worker_that_hangs_is_ended_once_a_request_was_left_and_nothing_came(
    starter_weights: Path,
) -> None:
    engine = Engine(open_engine(starter_weights, parallel=2).params, hung_after_s=0.5)
    async with closing_engine(engine):
        await engine.start()
        hung_pid = engine.pid or 0
        os.kill(hung_pid, signal.SIGSTOP)
        waiting = asyncio.create_task(anext(engine.stream(ask("Hi", max_tokens=2))))
        left = asyncio.create_task(anext(engine.stream(ask("Hello", max_tokens=2))))
        while not left.cancelled():
            await asyncio.sleep(0)
            left.cancel()
        async with asyncio.timeout(60):
            event = await waiting
        _, completed = await answer(engine, ask("Hi", max_tokens=2))

        assert engine.pid != hung_pid
    assert isinstance(event, Failed)
    assert event.failure.kind == "engine_crashed"
    assert "no sign of life in 0.5 s" in event.failure.message
    assert completed.usage.output_tokens == 2


async def test_a_worker_that_gives_a_sign_of_life_is_left_alone(starter_weights: Path) -> None:
    engine = Engine(open_engine(starter_weights, parallel=1).params, hung_after_s=2.0)
    async with closing_engine(engine):
        await engine.start()
        pid = engine.pid
        async with aclosing(engine.stream(ask("Tell a story.", max_tokens=400))) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        looked = asyncio.Event()
        asyncio.get_running_loop().call_later(2.1, looked.set)
        await looked.wait()

        assert engine.pid == pid


async def test_a_worker_killed_while_idle_is_replaced(starter_weights: Path) -> None:
    engine = open_engine(starter_weights, parallel=1)
    async with closing_engine(engine):
        await engine.start()
        first_pid = engine.pid or 0
        os.kill(first_pid, signal.SIGKILL)
        while engine.pid == first_pid:
            await asyncio.sleep(0)
        _, completed = await answer(engine, ask("Hi", max_tokens=2))

        assert engine.pid != first_pid
        assert completed.usage.output_tokens == 2


async def test_a_cancel_during_prefill_stops_it_and_the_next_request_works(starter_engine: Engine) -> None:
    before = await starter_engine.stats()
    stream = starter_engine.stream(ask("very long prompt " * 550, max_tokens=4, owner="cancelled"))
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, PrefillProgress):
                total_tokens = event.total_tokens
                break
    while (after := await starter_engine.stats()).running:
        await asyncio.sleep(0)

    assert total_tokens > 1500
    assert after.prefilled_tokens - before.prefilled_tokens <= 512
    _, completed = await answer(starter_engine, ask("Hi", max_tokens=2))
    assert completed.usage.output_tokens == 2


async def test_a_cancelled_answer_frees_its_slot(starter_engine: Engine) -> None:
    for _ in range(10):
        stream = starter_engine.stream(ask("Tell me everything about the sea.", max_tokens=500))
        async with aclosing(stream):
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
    while (stats := await starter_engine.stats()).running:
        await asyncio.sleep(0)

    assert stats.waiting == 0


async def test_a_worker_dies_with_its_parent(starter_weights: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.engine_calls import open_engine\n"
        "async def main():\n"
        "    engine = open_engine(Path(sys.argv[1]), parallel=1)\n"
        "    await engine.start()\n"
        "    print(engine.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(starter_weights)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()

    _, alive = psutil.wait_procs([worker], timeout=10)
    assert not alive


@pytest.mark.slow
async def test_a_truncated_file_gives_a_typed_error_at_every_cut(
    starter_weights: Path, tmp_path: Path
) -> None:
    data = starter_weights.read_bytes()
    cuts = random.Random(20).sample(range(len(data)), 50)

    for cut in cuts:
        path = tmp_path / "cut.gguf"
        path.write_bytes(data[:cut])
        engine = open_engine(path, parallel=1)
        started_s = time.perf_counter()
        with pytest.raises(ModelFileError):
            await engine.start()
        assert engine.pid is None or time.perf_counter() - started_s < 60
        await engine.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"GGUF", b"not a model at all" * 100, b"GGUF" + b"\xff" * 4096, b"GGUF\x03\0\0\0" + b"\xff" * 16],
)
async def test_a_file_that_is_no_model_gives_a_typed_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    engine = open_engine(path, parallel=1)
    async with closing_engine(engine):
        (failed,) = [event async for event in engine.stream(ask("hello"))]

    assert isinstance(failed, Failed)
    assert failed.failure.kind == "invalid_request"
    assert "bad.gguf" in failed.failure.message


async def test_a_context_longer_than_the_training_is_refused(starter_weights: Path) -> None:
    engine = open_engine(starter_weights, context_window=16384, parallel=1)
    async with closing_engine(engine):
        with pytest.raises(ApplianceError, match="8192"):
            await engine.start()


async def test_text_that_is_no_unicode_is_refused(starter_engine: Engine) -> None:
    (failed,) = [event async for event in starter_engine.stream(ask("lone \ud800 surrogate"))]

    assert isinstance(failed, Failed)
    assert failed.failure.kind == "invalid_request"


@pytest.mark.parametrize("wrong", [{"max_tokens": 5.5}, {"seed": 1.5}, {"stop": "abc"}], ids=str)
async def test_a_value_of_the_wrong_type_is_refused_and_the_next_request_works(
    starter_engine: Engine, wrong: dict[str, object]
) -> None:
    (failed,) = [event async for event in starter_engine.stream(ask("Hi", **wrong))]
    _, completed = await answer(starter_engine, ask("Hi", max_tokens=2))

    assert isinstance(failed, Failed)
    assert failed.failure.kind == "invalid_request"
    assert next(iter(wrong)) in failed.failure.message
    assert completed.usage.output_tokens == 2


async def test_a_list_of_stop_strings_is_as_good_as_a_tuple(starter_engine: Engine) -> None:
    whole, _ = await answer(starter_engine, ask("Name three colours."))

    text, _ = await answer(starter_engine, ask("Name three colours.", stop=[whole[4:8]]))

    assert text == whole[: whole.index(whole[4:8])]


async def test_a_start_that_is_cancelled_leaves_no_process(starter_weights: Path) -> None:
    engine = open_engine(starter_weights, parallel=1)
    async with closing_engine(engine):
        loading = asyncio.create_task(engine.start())
        while engine.pid is None:
            await asyncio.sleep(0)
        first_pid = engine.pid
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        _, completed = await answer(engine, ask("Hi", max_tokens=2))

        assert completed.usage.output_tokens == 2
        assert engine.pid != first_pid
        assert not psutil.pid_exists(first_pid)


async def test_closing_an_engine_that_loads_does_not_wait_for_the_load(starter_weights: Path) -> None:
    engine = open_engine(starter_weights, parallel=1)
    loading = asyncio.create_task(engine.start())
    while engine.pid is None:
        await asyncio.sleep(0)
    pid = engine.pid
    await engine.close()
    (outcome,) = await asyncio.gather(loading, return_exceptions=True)

    assert isinstance(outcome, EngineCrashedError)
    assert "closed" in outcome.message
    assert not psutil.pid_exists(pid)


STUCK_TEMPLATE = (
    "{% set n = namespace(a=[1], b=[1]) %}"
    "{% for i in range(60) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}"
    "{{ n.a == n.b }}"
)


@pytest.mark.slow
async def test_a_template_that_nothing_can_interrupt_ends_its_process_not_the_caller(
    starter_weights: Path,
) -> None:
    engine = open_engine(starter_weights, parallel=1, chat_template=STUCK_TEMPLATE)
    async with closing_engine(engine), asyncio.timeout(90):
        (failed,) = [event async for event in engine.stream(ask("hello"))]

    assert isinstance(failed, Failed)
    assert failed.failure.kind == "engine_crashed"
