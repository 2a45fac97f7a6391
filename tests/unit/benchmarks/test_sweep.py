"""Sweeps over simulated machines: what is recommended, what is said, and how often it is wrong on noisy ones."""

import asyncio
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from appliance.catalog.catalog import LocalModel
from appliance.catalog.memory_plan import LoadShape, MemoryPlan
from appliance.core.capabilities import ModelCard
from appliance.core.errors import ModelFileError, ProviderUnavailableError
from benchmarks.anytime import anytime_interval, least_values
from benchmarks.race import Contestant, Race
from benchmarks.recorder import Recorder
from benchmarks.records import RecordStore
from benchmarks.speed_tests import LoadChoice
from benchmarks.sweep import Sweep
from benchmarks.sweep_advice import Advice, Found, advise
from benchmarks.sweep_plan import Factor, RequestSize, SweepPlan, changed, thread_counts, variations
from benchmarks.sweep_suite import EngineTimer, record_sweep

Noise = Callable[[random.Random, float], float]

VALUES: Mapping[Factor, tuple[str | int, ...]] = {
    "threads": (1, 2),
    "batch_tokens": (512,),
    "ubatch_tokens": (128, 512),
    "flash_attention": ("auto", "off"),
    "kv_type": ("f16", "q8_0"),
    "context_window": (8192,),
    "gpu_layers": (),
}
USUAL = LoadChoice(threads=2, context_tokens=4096)
SIZE = RequestSize(prompt_tokens=256, output_tokens=64)


def _plan(budget_s: float = 180.0, *, lossy: bool = False, most_rounds: int = 200) -> SweepPlan:
    card = ModelCard(
        id="tiny", family="tiny", parameters=1, quantisation="Q4", context_window=8192, licence="MIT",
        capabilities=frozenset(), files=(),
    )  # fmt: skip
    local = LocalModel(id="tiny", card=card, digest="aa", path=Path("tiny.gguf"), files={})
    return SweepPlan(
        local=local, usual=USUAL, values=VALUES, size=SIZE, depth_tokens=0, most_rounds=most_rounds,
        budget_s=budget_s, parallel=4, may_change_answers=lossy,
    )  # fmt: skip


class SimulatedMachine:
    """Takes `request_s` for the usual choice, so many times less where a choice is faster, and noise on top."""

    def __init__(
        self,
        speed: Callable[[LoadChoice], float],
        noise: Noise,
        *,
        seed: int,
        budget_s: float,
        request_s: float,
    ) -> None:
        self.failure = "it has no such kernels"
        self._speed = speed
        self._noise = noise
        self._random = random.Random(seed)
        self._budget_s = budget_s
        self._request_s = request_s
        self._now_s = 0.0

    async def request_s(self, choice: LoadChoice) -> float | None:
        speed = self._speed(choice)
        if not speed:
            return None
        seconds = self._request_s / speed * self._noise(self._random, self._now_s)
        self._now_s += seconds * 1.1
        return seconds

    def left_s(self) -> float:
        return self._budget_s - self._now_s

    def now_s(self) -> float:
        return self._now_s


def _calm(chance: random.Random, _now_s: float) -> float:
    return chance.lognormvariate(0.0, 0.03)


def _noisy(chance: random.Random, _now_s: float) -> float:
    return chance.lognormvariate(0.0, 0.4)


def _disturbed(chance: random.Random, _now_s: float) -> float:
    """Most are alike, some take three times as long."""
    return chance.lognormvariate(0.0, 0.02) * (3.0 if chance.random() < 0.25 else 1.0)


def _wavy(chance: random.Random, now_s: float) -> float:
    """Somebody else works for 20 of every 50 seconds."""
    return chance.lognormvariate(0.0, 0.1) * (2.2 if now_s % 50 < 20 else 1.0)


def _slowing(chance: random.Random, now_s: float) -> float:
    return chance.lognormvariate(0.0, 0.05) * (1 + now_s / 100)


def _swept(
    speed: Callable[[LoadChoice], float],
    noise: Noise = _calm,
    *,
    seed: int = 1,
    budget_s: float = 180.0,
    request_s: float = 1.0,
    lossy: bool = False,
    most_rounds: int = 200,
) -> tuple[Found, Advice]:
    plan = _plan(budget_s, lossy=lossy, most_rounds=most_rounds)
    machine = SimulatedMachine(speed, noise, seed=seed, budget_s=budget_s, request_s=request_s)
    sweep = Sweep(plan, variations(plan, SIZE), machine, seed=str(seed))
    asyncio.run(sweep.run())
    return sweep.found(), advise(plan, SIZE, sweep.found(), _memory)


def _memory(choice: LoadChoice) -> MemoryPlan:
    return MemoryPlan(
        shape=LoadShape(context_tokens=choice.context_tokens), weights_bytes=100 << 20, repacked_bytes=0,
        kv_cache_bytes=choice.context_tokens << 10, compute_bytes=0, runtime_bytes=0, gpu_bytes=0,
        free_bytes=1 << 34, gpu_free_bytes=0, largest_context_tokens=8192,
    )  # fmt: skip


def _alike(_choice: LoadChoice) -> float:
    return 1.0


def _reason(advice: Advice, name: str) -> str:
    return next(one.reason for one in advice.settings if one.name == name)


@pytest.mark.parametrize("noise", [_calm, _noisy, _disturbed, _wavy, _slowing])
def test_where_nothing_differs_at_most_one_sweep_in_twenty_claims_anything(noise: Noise) -> None:
    wrong = 0
    for seed in range(120):
        found, advice = _swept(_alike, noise, seed=seed)
        claims = [one for one in found.entered.values() if one.standing in ("faster", "slower")]
        wrong += bool(claims) or bool(advice.changes)

    # One in twenty of 120 is 6; with these seeds it is 1 to 5.
    assert wrong <= 6


def test_slower_values_are_named_with_how_much_faster_the_kept_one_is() -> None:
    _, advice = _swept(lambda choice: 0.52 if choice.threads == 1 else 1.0)

    assert advice.changes == {}
    assert advice.headline.startswith("recommended: your settings as they are")
    assert _reason(advice, "threads").startswith("1.9")
    assert "times as fast as 1 (1." in _reason(advice, "threads")


def test_a_slower_value_is_found_out_on_a_noisy_machine_too() -> None:
    found, _ = _swept(lambda choice: 0.52 if choice.threads == 1 else 1.0, _wavy)

    assert {one.name: one.standing for one in found.entered.values()}["threads 1"] == "slower"


def test_one_faster_value_is_recommended_with_its_lines_and_its_memory() -> None:
    _, advice = _swept(lambda choice: 1.4 if choice.flash_attention == "off" else 1.0)

    assert advice.changes == {"flash_attention": "off"}
    lines = advice.lines(Path("/home/u/config.toml"))
    assert lines[0].startswith('recommended: flash_attention = "off"; 1.')
    assert '    flash_attention = "off"' in lines
    assert "for one run: appliance --set flash_attention=off …" in lines
    assert any(line.startswith("memory: ") for line in lines)


def test_two_faster_values_are_recommended_together_when_they_are_faster_together() -> None:
    def speed(choice: LoadChoice) -> float:
        return (1.5 if choice.threads == 1 else 1.0) * (1.3 if choice.ubatch_tokens == 128 else 1.0)

    found, advice = _swept(speed)

    assert advice.changes == {"threads": 1, "ubatch_tokens": 128, "prefill_chunk_tokens": 128}
    assert found.proof is not None
    assert 1.8 < found.proof.speedup < 2.1


def test_two_faster_values_that_undo_each_other_leave_the_better_one() -> None:
    def speed(choice: LoadChoice) -> float:
        one, other = choice.threads == 1, choice.ubatch_tokens == 128
        return 1.0 if one and other else 1.5 if one else 1.3 if other else 1.0

    _, advice = _swept(speed)

    assert advice.changes == {"threads": 1}
    assert "was not shown to be faster still together" in _reason(advice, "ubatch_tokens")


def test_what_changes_answers_is_recommended_only_when_that_is_allowed() -> None:
    def speed(choice: LoadChoice) -> float:
        return 1.5 if choice.kv_type == "q8_0" else 1.0

    _, kept = _swept(speed)
    _, allowed = _swept(speed, lossy=True)

    assert kept.changes == {}
    assert "--lossy allows it" in _reason(kept, "kv_type")
    assert allowed.changes == {"kv_type": "q8_0"}


def test_every_setting_is_listed_with_a_reason_also_where_nothing_was_shown() -> None:
    _, advice = _swept(_alike, _noisy)

    assert [one.name for one in advice.settings] == list(VALUES)
    assert "kept, because no difference was shown (off was" in _reason(advice, "flash_attention")
    assert _reason(advice, "batch_tokens") == (
        "512 not measured: a prompt of 256 tokens is processed in pieces of 256 either way"
    )
    assert _reason(advice, "gpu_layers") == "the engine was compiled for the processor alone"
    assert advice.measured.startswith("measured: the time of 256 prompt and 64 output tokens, up to ")
    assert _reason(advice, "context_window").endswith("4.2 MB more memory")


def test_a_value_that_cannot_be_loaded_is_said_and_stops_nothing() -> None:
    found, advice = _swept(lambda choice: 0.0 if choice.kv_type == "q8_0" else 1.0)

    assert _reason(advice, "kv_type").startswith("q8_0 cannot be measured: it has no such kernels")
    assert min(one.rounds for one in found.entered.values() if not one.failure) >= 8


def _race(contestants: list[Contestant], speeds: Mapping[str, float], noise: float) -> Race:
    """A race on a clock that every measurement moves by its own time."""
    chance = random.Random(1)
    spent_s = [0.0]

    async def measure(one: Contestant | None) -> float | None:
        seconds = chance.lognormvariate(0.0, noise) / (speeds[one.name] if one else 1.0)
        spent_s[0] += seconds
        return seconds

    return Race(
        contestants, measure, left_s=lambda: 1000.0 - spent_s[0], now_s=lambda: spent_s[0], seed="1", most_rounds=200
    )  # fmt: skip


def _rivals() -> list[Contestant]:
    return [Contestant(name=name, group="threads", confidence=0.95) for name in ("a", "b")]


async def test_rivals_rest_once_it_is_clear_which_is_the_faster_one_or_that_it_does_not_matter() -> None:
    apart, near, alike = _rivals(), _rivals(), _rivals()

    await _race(apart, {"a": 2.0, "b": 4.0}, noise=0.1).run()
    await _race(near, {"a": 2.0, "b": 2.0}, noise=0.1).run()
    await _race(alike, {"a": 2.0, "b": 2.0}, noise=0.005).run()

    assert [one.rounds for one in apart] == [6, 6]
    assert [one.rounds for one in near] == [200, 200]
    assert max(one.rounds for one in alike) < 20


def test_what_was_faster_until_it_failed_wins_nothing() -> None:
    died, slow = _rivals()
    died.ratios, died.failure = [2.0] * 20, "the worker died"
    slow.ratios = [1.2] * 20

    race = _race([died, slow], {}, noise=0.0)

    assert race.winners() == {"threads": slow}


def test_a_value_that_fails_while_it_is_proven_is_not_recommended() -> None:
    has_died = False

    def speed(choice: LoadChoice) -> float:
        nonlocal has_died
        is_one, is_off = choice.threads == 1, choice.flash_attention == "off"
        has_died = has_died or (is_one and is_off)
        return 0.0 if is_one and has_died else 1.5 if is_one else 1.3 if is_off else 1.0

    _, advice = _swept(speed)

    assert advice.changes == {"flash_attention": "off"}
    assert re.match(r"1 failed after \d+ rounds: it has no such kernels", _reason(advice, "threads"))


def test_a_sweep_whose_usual_settings_fail_at_once_ends_with_the_cause() -> None:
    machine = SimulatedMachine(
        lambda choice: float(choice != USUAL), _calm, seed=1, budget_s=180.0, request_s=1.0
    )
    sweep = Sweep(_plan(), variations(_plan(), SIZE), machine, seed="1")

    with pytest.raises(ProviderUnavailableError, match="your settings cannot be measured: it has no such"):
        asyncio.run(sweep.run())

    assert machine.now_s() < 20.0


def test_usual_settings_that_fail_later_end_the_sweep_and_stand_in_its_headline() -> None:
    asked = 0

    def speed(choice: LoadChoice) -> float:
        nonlocal asked
        asked += choice == USUAL
        return 0.0 if choice == USUAL and asked > 5 else 1.0

    found, advice = _swept(speed)

    assert advice.headline.startswith(
        "your settings could not be measured any more: it has no such kernels; until then recommended"
    )
    assert max(one.rounds for one in found.entered.values()) == 5
    assert found.elapsed_s < 60.0


def test_where_the_rounds_allowed_end_it_more_of_them_are_the_way_out() -> None:
    _, advice = _swept(_alike, most_rounds=4)

    (hint,) = advice.hints
    assert hint.startswith("not decided in -r 4 rounds: threads 1, ubatch_tokens 128")
    assert "--budget" not in hint


def test_a_budget_too_small_says_so_and_how_much_would_do() -> None:
    _, nothing = _swept(_alike, budget_s=1.0)
    _, little = _swept(_alike, budget_s=30.0)

    assert nothing.headline.startswith("nothing could be compared in this time")
    assert "too few to show a difference" in _reason(little, "flash_attention")
    assert any("--budget" in hint for hint in little.hints)


def test_the_time_is_used_and_what_is_decided_rests_for_the_others() -> None:
    found, _ = _swept(lambda choice: 0.5 if choice.threads == 1 else 1.0, _noisy, budget_s=300.0)

    rounds = {one.name: one.rounds for one in found.entered.values()}
    assert rounds.pop("threads 1") == 9
    assert min(rounds.values()) >= 20


def test_where_time_is_short_the_slowest_to_decide_is_left_out_first() -> None:
    found, _ = _swept(lambda choice: 0.05 if choice.threads == 1 else 1.0, budget_s=180.0)

    rounds = {one.name: one.rounds for one in found.entered.values()}
    assert rounds.pop("threads 1") == 3
    assert min(rounds.values()) >= 9


def test_bounds_hold_the_median_at_all_times_together() -> None:
    missed = 0
    for seed in range(400):
        chance = random.Random(seed)
        values: list[float] = []
        was_outside = False
        for _ in range(80):
            values.append(chance.lognormvariate(0.0, 1.0))
            interval = anytime_interval(values, confidence=0.95)
            was_outside = was_outside or not interval.low <= 1.0 <= interval.high
        missed += was_outside

    assert missed <= 32


def test_the_fewest_values_that_can_tell_grow_with_what_is_asked_of_them() -> None:
    assert [least_values(confidence) for confidence in (0.95, 0.975, 0.9958)] == [6, 7, 10]
    assert least_values(0.95, against=1) > least_values(0.95)
    assert least_values(0.9958, against=4_950) > 10_000
    assert anytime_interval([1.0] * 5, confidence=0.95).low == 0.0


def test_a_sweep_varies_one_setting_at_a_time_and_leaves_the_usual_out() -> None:
    tried = variations(_plan(), SIZE)

    assert [one.name for one in tried if not one.skipped] == [
        "threads 1", "ubatch_tokens 128", "flash_attention off", "kv_type q8_0", "context_window 8192"
    ]  # fmt: skip
    assert [one.name for one in tried if one.skipped] == ["batch_tokens 512", "ubatch_tokens 512"]


def test_a_request_behind_other_tokens_has_room_for_them_and_their_prefill_is_paid() -> None:
    plan = replace(_plan(), size=None, depth_tokens=1024)

    assert plan.largest == RequestSize(prompt_tokens=512, output_tokens=128, depth_tokens=1024)
    assert plan.largest.context_tokens == 1024 + 512 + 2
    assert plan.largest.cost_s(512.0, 64.0) == (512 + 2 * 1024) / 512 + 2


def test_a_context_too_small_for_the_request_is_called_what_is_loaded() -> None:
    plan = replace(_plan(), values={"context_window": (256, 300, 4096)})

    (tried,) = variations(plan, SIZE)

    # 256 prompt tokens and two more do not fit into one step of 256.
    assert (tried.value, tried.choice.context_tokens) == (512, 512)


class RecordedMachine(SimulatedMachine):
    """A simulated machine that has no lanes of its own to record."""

    began_s = 0.0

    def record(self) -> None:
        """Nothing."""


def test_comparisons_are_on_disk_before_memory_is_predicted(tmp_path: Path) -> None:
    plan = _plan()
    machine = RecordedMachine(_alike, _calm, seed=1, budget_s=180.0, request_s=1.0)
    sweep = Sweep(plan, variations(plan, SIZE), machine, seed="1")
    recorder = Recorder("sweep", RecordStore(tmp_path), models={}, seed=1, listen=lambda _event: None)
    asyncio.run(sweep.run())

    with pytest.raises(ModelFileError):  # the model of the plan has no file
        record_sweep(plan, SIZE, sweep, cast("EngineTimer", machine), recorder, is_whole=False)

    assert {one.facts["failure"] for one in recorder.records} == {""}
    assert [one.test for one in recorder.records] == [one.name for one in sweep.found().entered.values()]


def test_a_longer_prompt_makes_larger_pieces_worth_a_try() -> None:
    tried = variations(_plan(), RequestSize(prompt_tokens=512, output_tokens=64))

    assert next(one for one in tried if one.name == "ubatch_tokens 512").skipped == ""


def test_a_smaller_batch_makes_what_lies_in_it_smaller_and_a_larger_piece_its_batch_larger() -> None:
    small = changed(LoadChoice(threads=2), "batch_tokens", 128)
    large = changed(LoadChoice(threads=2), "ubatch_tokens", 4096)

    assert (small.batch_tokens, small.ubatch_tokens, small.prefill_chunk_tokens) == (128, 128, 128)
    assert (large.batch_tokens, large.ubatch_tokens, large.prefill_chunk_tokens) == (4096, 4096, 4096)


@pytest.mark.parametrize(
    ("cores", "usual", "counts"), [(1, 1, (1,)), (2, 2, (1, 2)), (16, 8, (7, 8, 16)), (12, 12, (6, 11, 12))]
)
def test_of_many_cores_only_some_counts_of_threads_are_tried(
    cores: int, usual: int, counts: tuple[int, ...]
) -> None:
    assert thread_counts(cores, usual) == counts
