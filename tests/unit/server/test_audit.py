"""The audit log shows every change of what was written: edits, swaps, cuts, and chains written anew."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.core.errors import ApplianceError, InvalidRequestError
from appliance.server.teams.audit import AuditLog, Checkpoint, checkpoint_of
from appliance.server.teams.tables import TEAMS
from appliance.storage.database import Database

ENTRIES = 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with a log of some entries."""
    file = tmp_path / "appliance.db"
    with_log(file, lambda log: [log.append("ada", f"deed.{n}", f"thing {n}", n=n) for n in range(ENTRIES)])
    return file


def with_log(path: Path, work: Callable[[AuditLog], object]) -> object:
    database = Database(path, [TEAMS])
    try:
        return work(AuditLog(database, now_s=lambda: 1_700_000_000.5))
    finally:
        database.close()


def tamper(path: Path, *statements: str) -> None:
    """Do what somebody with the file does: drop the triggers and change rows."""
    connection = sqlite3.connect(path)
    for name in ("audit_no_update", "audit_no_delete"):
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def problems(path: Path, kept: Checkpoint | None = None) -> tuple[str, ...]:
    found: list[tuple[str, ...]] = []
    with_log(path, lambda log: found.append(log.verify(kept).problems))
    return found[0]


def checkpoint(path: Path) -> Checkpoint:
    found: list[Checkpoint] = []
    with_log(path, lambda log: found.append(log.checkpoint()))
    return found[0]


def test_an_untouched_log_is_intact_and_holds_its_checkpoint(path: Path) -> None:
    kept = checkpoint(path)
    with_log(path, lambda log: log.append("ada", "more"))

    assert problems(path) == ()
    assert problems(path, kept) == ()


def test_an_empty_log_is_intact(tmp_path: Path) -> None:
    assert problems(tmp_path / "new.db") == ()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET actor = 'eve' WHERE sequence = 7",
        "UPDATE audit SET at_s = at_s + 1 WHERE sequence = 1",
        "UPDATE audit SET details_json = '{}' WHERE sequence = 20",
        "UPDATE audit SET subject = 'thing 99' WHERE sequence = 3",
        "UPDATE audit SET digest = previous WHERE sequence = 5",
        "DELETE FROM audit WHERE sequence = 9",
        "DELETE FROM audit WHERE sequence = 1",
        "DELETE FROM audit WHERE sequence > 15",
        "DELETE FROM audit",
        "INSERT INTO audit SELECT 21, 1.0, actor, action, '', '{}', previous, digest FROM audit WHERE sequence = 2",
    ],
)
def test_a_change_by_hand_is_found(path: Path, statement: str) -> None:
    tamper(path, statement)

    assert problems(path) != ()


def test_random_changes_are_all_found(path: Path) -> None:
    chance = random.Random(1)
    columns = ("at_s", "actor", "action", "subject", "details_json", "previous", "digest")
    content = path.read_bytes()
    log_files = [path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")]
    missed = 0
    for _ in range(40):
        path.write_bytes(content)
        for log_file in log_files:
            log_file.unlink(missing_ok=True)
        column, row = chance.choice(columns), chance.randint(1, ENTRIES)
        value = chance.random() if column == "at_s" else f"'{chance.getrandbits(64):x}'"
        tamper(path, f"UPDATE audit SET {column} = {value} WHERE sequence = {row}")  # noqa: S608
        missed += problems(path) == ()

    assert missed == 0


def test_a_cut_that_hides_itself_and_a_chain_written_anew_are_found_by_a_kept_checkpoint(path: Path) -> None:
    kept = checkpoint(path)
    tamper(path, "DELETE FROM audit", "DELETE FROM sqlite_sequence WHERE name = 'audit'")
    with_log(path, lambda log: [log.append("eve", f"deed.{n}") for n in range(ENTRIES)])

    assert problems(path) == ()
    assert problems(path, kept) != ()


def test_no_program_of_ours_can_change_an_entry(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db", [TEAMS])
    AuditLog(database).append("ada", "deed")
    for statement in ("UPDATE audit SET actor = 'eve'", "DELETE FROM audit"):
        with pytest.raises((ApplianceError, sqlite3.Error)), database.transaction() as connection:
            connection.execute(statement)
    database.close()


def test_a_checkpoint_is_read_from_an_export(path: Path) -> None:
    kept = checkpoint(path)
    line = f'{{"checkpoint": {{"sequence": {kept.sequence}, "digest": "{kept.digest}"}}}}'

    assert checkpoint_of(f'{{"sequence": 1}}\n{line}\n') == kept
    for bad in ("", "{}", "nonsense", '{"checkpoint": 5}'):
        with pytest.raises(InvalidRequestError):
            checkpoint_of(bad)
