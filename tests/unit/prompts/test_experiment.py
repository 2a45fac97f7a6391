"""A user stays in one arm, arms get their share, and outcomes are counted once."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.core.errors import InvalidRequestError, StorageError
from appliance.prompts.experiment import Arm, Experiment
from appliance.prompts.outcomes import Outcomes

A = Arm(name="a", prompt_id="greet", version="1", weight=1.0)
B = Arm(name="b", prompt_id="greet", version="2", weight=3.0)
GREETING = Experiment(id="greeting", arms=(A, B))


@pytest.fixture
def outcomes(tmp_path: Path) -> Outcomes:
    return Outcomes(tmp_path / "experiments.db")


def test_a_user_is_always_in_the_same_arm_on_every_machine() -> None:
    assert [GREETING.arm_of(f"user-{number}").name for number in range(12)] == list("bbbbabbbbbbb")


def test_arms_get_their_share_of_users() -> None:
    shares = Counter(GREETING.arm_of(f"user-{number}").name for number in range(10_000))

    assert abs(shares["a"] - 2500) < 150


def test_two_experiments_do_not_put_the_same_users_together() -> None:
    even = [
        Experiment(id=name, arms=(A, Arm(name="b", prompt_id="x", version="1"))) for name in ("one", "two")
    ]

    together = sum(
        even[0].arm_of(f"u{number}").name == even[1].arm_of(f"u{number}").name for number in range(4000)
    )

    assert abs(together - 2000) < 200


@pytest.mark.parametrize("arms", [(), (A, A), (Arm(name="a", prompt_id="x", version="1", weight=0.0),)])
def test_an_experiment_that_cannot_be_run_is_refused(arms: tuple[Arm, ...]) -> None:
    with pytest.raises(InvalidRequestError):
        Experiment(id="x", arms=arms)


def test_outcomes_of_each_arm_are_counted_once_a_request(outcomes: Outcomes) -> None:
    for request, user, score in (
        ("r1", "ada", 1.0),
        ("r2", "ada", 0.0),
        ("r2", "ada", 1.0),
        ("r3", "bob", 0.0),
    ):
        outcomes.record(GREETING, B, user, request, score)

    a, b = outcomes.summaries(GREETING)

    assert (a.outcomes, a.low, a.high) == (0, 0.0, 1.0)
    assert (b.outcomes, b.users) == (3, 2)
    assert abs(b.mean - 2 / 3) < 1e-9
    assert abs(b.low - 0.2077) < 1e-3
    assert abs(b.high - 0.9385) < 1e-3


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_outside_its_range_is_refused(outcomes: Outcomes, score: float) -> None:
    with pytest.raises(InvalidRequestError):
        outcomes.record(GREETING, A, "ada", "r", score)


def test_an_arm_of_another_experiment_is_refused(outcomes: Outcomes) -> None:
    with pytest.raises(InvalidRequestError):
        outcomes.record(GREETING, Arm(name="c", prompt_id="x", version="1"), "ada", "r", 1.0)


def test_users_stand_in_the_file_by_no_name_and_can_be_forgotten(outcomes: Outcomes, tmp_path: Path) -> None:
    outcomes.record(GREETING, A, "ada.lovelace", "r1", 1.0)
    outcomes.record(replace(GREETING, id="another"), A, "ada.lovelace", "r1", 1.0)
    outcomes.record(GREETING, A, "bob", "r2", 1.0)

    assert not any(b"lovelace" in path.read_bytes() for path in tmp_path.iterdir())
    assert outcomes.forget_user("ada.lovelace") == 2
    assert outcomes.forget_user("ada.lovelace") == 0
    assert outcomes.summaries(GREETING)[0].outcomes == 1


def test_outcomes_are_there_after_a_restart(outcomes: Outcomes, tmp_path: Path) -> None:
    outcomes.record(GREETING, A, "ada", "r1", 1.0)
    outcomes.close()

    assert Outcomes(tmp_path / "experiments.db").summaries(GREETING)[0].outcomes == 1


def test_a_file_that_is_none_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "experiments.db").write_bytes(b"no database" * 500)

    with pytest.raises(StorageError):
        Outcomes(tmp_path / "experiments.db")
