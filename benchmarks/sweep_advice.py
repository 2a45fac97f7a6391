"""What a sweep recommends: every setting with its reason, what to write where, and the memory it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.catalog.memory_plan import MemoryPlan
from appliance.catalog.store import human_bytes
from benchmarks.anytime import least_values
from benchmarks.race import ALIKE, Contestant
from benchmarks.records import Scalar
from benchmarks.speed_tests import LoadChoice
from benchmarks.sweep_plan import Factor, RequestSize, SweepPlan, Variation, settings_of
from benchmarks.tables import aligned

Predict = Callable[[LoadChoice], MemoryPlan]

_LOSSY: Factor = "kv_type"
_LIMITING: Factor = "context_window"
_SHOWN_MEMORY_BYTES = 1 << 20
# Why a setting has no other value to try unless one is named.
_ALONE: dict[Factor, str] = {
    "context_window": "the model has no larger one; -c tries others",
    "gpu_layers": "the engine was compiled for the processor alone",
}
_CERTAINTY = (
    "Intervals are of medians. All of a sweep together, and what follows from them, are wrong in at most 5 of 100 "
    "sweeps, however noisy the machine."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the races have shown. `needed_s` is how long those that are not decided would take at least.

    `usual_failure` says why the usual choice could not be measured any more, if it could not.
    """

    tried: Sequence[Variation]
    entered: Mapping[Variation, Contestant]
    best: LoadChoice
    together: LoadChoice | None
    proof: Contestant | None
    needed_s: float
    rounds: int
    elapsed_s: float
    usual_failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingAdvice:
    """One setting: what it is to be, whether that is a change, and why."""

    name: str
    value: Scalar
    is_changed: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The recommendation. `changes` are the settings to write, where there are any."""

    headline: str
    measured: str
    settings: tuple[SettingAdvice, ...]
    changes: Mapping[str, Scalar]
    memory: str
    hints: tuple[str, ...]

    def lines(self, config_file: Path) -> list[str]:
        """Say it."""
        rows = [("SETTING", "VALUE", "", "WHY")]
        rows += [
            (one.name, str(one.value), "change" if one.is_changed else "keep", one.reason)
            for one in self.settings
        ]
        return [
            self.headline,
            self.measured,
            *aligned(rows),
            *self._how_to_set(config_file),
            self.memory,
            *self.hints,
            _CERTAINTY,
        ]

    def _how_to_set(self, config_file: Path) -> list[str]:
        if not self.changes:
            return []
        flags = " ".join(f"--set {name}={value}" for name, value in self.changes.items())
        return [
            f"for one run: appliance {flags} …",
            f"for good, in {config_file}, above its first [table]:",
            *(f"    {name} = {_toml(value)}" for name, value in self.changes.items()),
        ]


def may_recommend(factor: Factor, *, may_change_answers: bool) -> bool:
    """A smaller context refuses what fitted before, another KV type changes answers."""
    return factor != _LIMITING and (factor != _LOSSY or may_change_answers)


def advise(plan: SweepPlan, size: RequestSize, found: Found, predict: Predict) -> Advice:
    """Turn what was found into a recommendation."""
    usual, best = settings_of(plan.usual), settings_of(found.best)
    changes = {name: value for name, value in best.items() if usual.get(name) != value}
    return Advice(
        headline=_headline(found, changes),
        measured=_measured(plan, size, found),
        settings=tuple(_setting(plan, found, factor, predict) for factor in plan.values),
        changes=changes,
        memory=_memory(plan, found, predict),
        hints=tuple(_hints(plan, found)),
    )


def _headline(found: Found, changes: Mapping[str, Scalar]) -> str:
    shown = _recommended(found, changes)
    if not found.usual_failure:
        return shown
    return f"your settings could not be measured any more: {found.usual_failure}; until then {shown}"


def _recommended(found: Found, changes: Mapping[str, Scalar]) -> str:
    if changes:
        evidence = _evidence_for(found)
        stated = ", ".join(f"{name} = {_toml(value)}" for name, value in changes.items())
        return f"recommended: {stated}; {evidence}"
    compared = [one for one in found.entered.values() if one.ratios]
    if not compared:
        return "nothing could be compared in this time, so nothing is recommended: your settings stay"
    if any(one.standing == "faster" and not one.failure for one in compared):
        return "recommended: your settings as they are; what is faster has a price that you did not allow"
    if all(one.standing in ("slower", "alike") for one in compared):
        return "recommended: your settings as they are; every other value is slower or the same"
    return "recommended: your settings as they are; no other value was shown to be faster"


def _measured(plan: SweepPlan, size: RequestSize, found: Found) -> str:
    depth = f" behind {size.depth_tokens}" if size.depth_tokens else ""
    return (
        f"measured: the time of {size.prompt_tokens} prompt and {size.output_tokens} output tokens{depth}, up to "
        f"{found.rounds} rounds in random order, {_clock(found.elapsed_s)} of {_clock(plan.budget_s)}"
    )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _evidence_for(found: Found) -> str:
    """What shows that the recommended choice is faster."""
    if found.proof is not None and found.best == found.together:
        return f"together {_times(found.proof)} your settings {_bounds(found.proof)}"
    chosen = next(contestant for one, contestant in found.entered.items() if one.choice == found.best)
    return f"{_times(chosen)} your settings {_bounds(chosen)}"


def _setting(plan: SweepPlan, found: Found, factor: Factor, predict: Predict) -> SettingAdvice:
    name, usual = str(factor), settings_of(plan.usual)
    value, before = settings_of(found.best)[name], usual[name]
    mine = [one for one in found.tried if one.factor == factor]
    reasons = [_reason(plan, found, one, value) + _more_memory(plan, one, predict) for one in mine]
    if not mine:
        reasons = [_ALONE.get(factor, "") if not plan.values[factor] else "the only value that was tried"]
    return SettingAdvice(name=name, value=value, is_changed=value != before, reason="; ".join(reasons))


def _reason(plan: SweepPlan, found: Found, one: Variation, chosen: Scalar) -> str:
    """What was found of one other value, and what follows."""
    value = _shown(plan, one)
    if one.skipped:
        return f"{value} not measured: {one.skipped}"
    contestant = found.entered[one]
    if contestant.failure and contestant.ratios:
        return f"{value} failed after {contestant.rounds} rounds: {contestant.failure}"
    if contestant.failure:
        return f"{value} cannot be measured: {contestant.failure}"
    if not contestant.ratios:
        return f"{value} was not reached in this time"
    match contestant.standing:
        case "faster":
            return _faster(plan, one, contestant, chosen)
        case "slower":
            return f"{_times(contestant, inverted=True)} {value} {_bounds(contestant, inverted=True)}"
        case "alike":
            return f"{value} is the same within {ALIKE - 1:.0%} {_bounds(contestant)}"
        case "undecided":
            return _undecided(one, contestant)


def _shown(plan: SweepPlan, one: Variation) -> str:
    """The other value; with the length of a prompt's pieces where that alone is what differs."""
    if one.value != settings_of(plan.usual)[one.factor]:
        return str(one.value)
    return f"{one.value} with prefill_chunk_tokens {one.choice.prefill_chunk_tokens}"


def _faster(plan: SweepPlan, one: Variation, contestant: Contestant, chosen: Scalar) -> str:
    shown = f"{one.value} is {_times(contestant)} {settings_of(plan.usual)[one.factor]} {_bounds(contestant)}"
    if one.value == chosen:
        return shown
    if one.factor == _LIMITING:
        return f"{shown}, but changes what fits into a conversation"
    if not may_recommend(one.factor, may_change_answers=plan.may_change_answers):
        return f"{shown}, but changes answers; --lossy allows it"
    return f"{shown}, but was not shown to be faster still together with the rest"


def _undecided(one: Variation, contestant: Contestant) -> str:
    least = least_values(contestant.confidence)
    rounds = contestant.rounds
    looked = f"{one.value} was {_times(contestant)} it"
    if rounds < least:
        return f"kept, because {rounds} rounds are too few to show a difference ({looked}; {least} are the fewest)"
    return f"kept, because no difference was shown ({looked}, {_bounds(contestant)[1:]}"


def _times(contestant: Contestant, *, inverted: bool = False) -> str:
    speedup = 1 / contestant.speedup if inverted else contestant.speedup
    return f"{speedup:.2f} times as fast as"


def _bounds(contestant: Contestant, *, inverted: bool = False) -> str:
    interval = contestant.interval
    low, high = (1 / interval.high, 1 / interval.low) if inverted else (interval.low, interval.high)
    return f"({low:.2f} – {high:.2f}, {contestant.rounds} rounds)"


def _more_memory(plan: SweepPlan, one: Variation, predict: Predict) -> str:
    more = predict(one.choice).total_bytes - predict(plan.usual).total_bytes
    if abs(more) < _SHOWN_MEMORY_BYTES:
        return ""
    return f", {human_bytes(abs(more))} {'more' if more > 0 else 'less'} memory"


def _memory(plan: SweepPlan, found: Found, predict: Predict) -> str:
    best = predict(found.best)
    text = (
        f"memory: {human_bytes(best.total_bytes)} predicted for {plan.parallel} × {found.best.context_tokens} tokens "
        f"of context (KV cache {human_bytes(best.kv_cache_bytes)}), {human_bytes(best.free_bytes)} are free; "
        f"contexts of up to {best.largest_context_tokens} tokens would fit"
    )
    before = predict(plan.usual).total_bytes
    if abs(before - best.total_bytes) < _SHOWN_MEMORY_BYTES:
        return text
    return f"{text}; your settings take {human_bytes(before)}"


def _hints(plan: SweepPlan, found: Found) -> list[str]:
    """Name what is not decided, and what stopped it: the rounds that were allowed, or the time."""
    undecided = [one for one in found.entered.values() if not one.failure and one.standing == "undecided"]
    stopped = [one.name for one in undecided if one.rounds >= plan.most_rounds]
    names = [one.name for one in undecided if one.rounds < plan.most_rounds]
    minutes = round((plan.budget_s + found.needed_s) / 60 + 0.5)
    chance = "or a quieter machine may show a difference, if there is one"
    hints = []
    if stopped:
        hints.append(
            f"not decided in -r {plan.most_rounds} rounds: {', '.join(stopped)}; more of them {chance}"
        )
    if names:
        hints.append(f"not decided: {', '.join(names)}; --budget {minutes}m {chance}")
    return hints


def _toml(value: Scalar) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
