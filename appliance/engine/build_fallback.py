"""Goes through build profiles, fastest first, until one compiles and passes its self-test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from appliance.core.errors import EngineBuildError
from appliance.engine.build_profiles import BuildProfile
from appliance.engine.build_record import CachedVerdict
from appliance.engine.build_wheel import CompileFailedError
from appliance.engine.selftest import SelfTestReport

Say = Callable[[str], None]


class BuildSteps(Protocol):
    """What installing one profile takes."""

    def known_fault(self, profile: BuildProfile) -> str:
        """Say why an earlier self-test refused this very build, or nothing."""
        ...

    def provide_wheel(self, profile: BuildProfile) -> Path:
        """Take the wheel from the cache, or compile it.

        Raises:
            CompileFailedError: it does not compile with these flags.
        """
        ...

    def install(self, wheel: Path) -> None:
        """Install a wheel into this environment."""
        ...

    def self_test(self) -> SelfTestReport:
        """Evaluate a prompt with what is installed."""
        ...

    def remember(self, profile: BuildProfile, verdict: CachedVerdict) -> None:
        """Keep the verdict for the next installation."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOutcome:
    """The profile that passed, its self-test, and what was refused before it and why."""

    profile: BuildProfile
    report: SelfTestReport
    refused: tuple[str, ...]


def install_first_working(profiles: Sequence[BuildProfile], steps: BuildSteps, say: Say) -> BuildOutcome:
    """Install the first profile that compiles and passes its self-test.

    Raises:
        EngineBuildError: none does, or a self-test could not be judged.
    """
    refused: list[str] = []
    for position, profile in enumerate(profiles):
        report, fault = _try_profile(profile, steps)
        if report is not None and report.has_passed:
            steps.remember(profile, CachedVerdict(is_fault=False, reason=report.reason))
            return BuildOutcome(profile=profile, report=report, refused=tuple(refused))
        refused.append(f"{profile.name} {fault}")
        say(f"the build {profile.name!r} {fault}{_announce_next(profiles[position + 1 :])}")
    raise EngineBuildError(
        "no build of the engine works on this machine: " + "; ".join(refused),
        hint="a newer compiler may help; name it with CC and CXX, then run the same command again",
    )


def _try_profile(profile: BuildProfile, steps: BuildSteps) -> tuple[SelfTestReport | None, str]:
    """Return the report of a self-test that was run, and why the profile is refused."""
    if fault := steps.known_fault(profile):
        return None, f"{fault} (found by an earlier installation)"
    try:
        wheel = steps.provide_wheel(profile)
    except CompileFailedError as exc:
        return None, f"{exc.message} ({exc.hint})"
    steps.install(wheel)
    report = steps.self_test()
    if report.verdict == "inconclusive":
        raise EngineBuildError(
            f"the self-test of the build {profile.name!r} {report.reason}",
            hint="this does not look like a fault of the build; free memory, or wait until the machine is "
            "idle, then run the same command again",
        )
    if not report.has_passed:
        steps.remember(profile, CachedVerdict(is_fault=True, reason=report.reason))
    return report, report.reason


def _announce_next(profiles: Sequence[BuildProfile]) -> str:
    return f"; rebuilding with {profiles[0].name!r}: {profiles[0].description}" if profiles else ""
