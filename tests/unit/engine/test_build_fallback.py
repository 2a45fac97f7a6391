"""A build that fails is followed by the next safer one, and that is said."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appliance.core.errors import EngineBuildError
from appliance.engine.build_fallback import install_first_working
from appliance.engine.build_profiles import BuildProfile
from appliance.engine.build_record import CachedVerdict
from appliance.engine.build_wheel import CompileFailedError
from appliance.engine.selftest import SelfTestReport

FAST = BuildProfile(name="fast", description="every feature", cmake_arguments=())
SAFE = BuildProfile(name="safe", description="fewer features", cmake_arguments=())
SLOW = BuildProfile(name="slow", description="hardly any feature", cmake_arguments=())

PASSED = SelfTestReport(verdict="passed", reason="evaluated 94 tokens", elapsed_s=1.0)
CRASHED = SelfTestReport(verdict="build_fault", reason="crashed on its first prompt (SIGSEGV)", elapsed_s=1.0)
KILLED = SelfTestReport(verdict="inconclusive", reason="crashed on its first prompt (SIGKILL)", elapsed_s=1.0)


@dataclass
class ScriptedSteps:
    """Steps whose self-tests are given by profile name."""

    reports: dict[str, SelfTestReport]
    faults: dict[str, str] = field(default_factory=dict)
    does_not_compile: frozenset[str] = frozenset()
    installed: list[str] = field(default_factory=list)
    remembered: dict[str, bool] = field(default_factory=dict)

    def known_fault(self, profile: BuildProfile) -> str:
        return self.faults.get(profile.name, "")

    def provide_wheel(self, profile: BuildProfile) -> Path:
        if profile.name in self.does_not_compile:
            raise CompileFailedError("did not compile: error: bad flag", hint="the log is here")
        return Path(profile.name)

    def install(self, wheel: Path) -> None:
        self.installed.append(str(wheel))

    def self_test(self) -> SelfTestReport:
        return self.reports[self.installed[-1]]

    def remember(self, profile: BuildProfile, verdict: CachedVerdict) -> None:
        self.remembered[profile.name] = verdict.is_fault


def test_the_first_profile_that_passes_is_kept_and_no_other_is_tried() -> None:
    steps = ScriptedSteps({"fast": PASSED})

    outcome = install_first_working([FAST, SAFE], steps, lambda _line: None)

    assert outcome.profile is FAST
    assert steps.installed == ["fast"]
    assert steps.remembered == {"fast": False}


def test_a_crash_on_the_first_prompt_is_followed_by_the_next_profile_and_said() -> None:
    steps = ScriptedSteps({"fast": CRASHED, "safe": PASSED})
    said: list[str] = []

    outcome = install_first_working([FAST, SAFE, SLOW], steps, said.append)

    assert outcome.profile is SAFE
    assert said == [
        "the build 'fast' crashed on its first prompt (SIGSEGV); rebuilding with 'safe': fewer features"
    ]
    assert steps.remembered == {"fast": True, "safe": False}


def test_a_profile_the_compiler_refuses_is_followed_by_the_next() -> None:
    steps = ScriptedSteps({"safe": PASSED}, does_not_compile=frozenset({"fast"}))

    outcome = install_first_working([FAST, SAFE], steps, lambda _line: None)

    assert outcome.profile is SAFE
    assert outcome.refused == ("fast did not compile: error: bad flag (the log is here)",)


def test_a_build_that_crashed_in_an_earlier_installation_is_not_installed_again() -> None:
    steps = ScriptedSteps({"safe": PASSED}, faults={"fast": "crashed on its first prompt (SIGILL)"})

    install_first_working([FAST, SAFE], steps, lambda _line: None)

    assert steps.installed == ["safe"]


def test_no_working_profile_is_an_error_that_names_each_and_its_end() -> None:
    steps = ScriptedSteps({"fast": CRASHED, "safe": CRASHED})

    with pytest.raises(EngineBuildError, match=r"fast crashed .*SIGSEGV.*; safe crashed .*SIGSEGV"):
        install_first_working([FAST, SAFE], steps, lambda _line: None)


def test_a_self_test_killed_from_outside_stops_the_installation_and_condemns_no_build() -> None:
    steps = ScriptedSteps({"fast": KILLED, "safe": PASSED})

    with pytest.raises(EngineBuildError, match="SIGKILL"):
        install_first_working([FAST, SAFE], steps, lambda _line: None)

    assert steps.installed == ["fast"]
    assert steps.remembered == {}
