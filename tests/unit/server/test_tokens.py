"""Tokens stand for users, are kept as hashes, and end."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.errors import AuthenticationError, InvalidRequestError
from appliance.core.requests import LOCAL_OWNER
from appliance.server.teams.audit import AuditLog
from appliance.server.teams.tables import TEAMS
from appliance.server.teams.tokens import TOKEN_FILE, Tokens
from appliance.server.teams.users import Users
from appliance.storage.database import Database


class Clock:
    """Wall-clock time that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A store with the tables of teams."""
    opened = Database(tmp_path / "data" / "appliance.db", [TEAMS])
    yield opened
    opened.close()


def test_a_token_stands_for_its_user_and_is_nowhere_in_the_store(database: Database) -> None:
    user = Users(database).add("ada", actor="test")
    made = Tokens(database).create(user, actor="test", label="laptop")

    caller = Tokens(database).check(made.text)

    assert (caller.owner, caller.scopes) == (user.id, frozenset(("chat", "documents")))
    secret = made.text.split("_", 2)[2].encode()
    assert all(secret not in path.read_bytes() for path in database.path.parent.iterdir())


@pytest.mark.parametrize("change", ["", "x", "apl_", "apl__", "apl_unknown_secret", "\ud800", "a" * 10_000])
def test_other_texts_stand_for_nobody(database: Database, change: str) -> None:
    user = Users(database).add("ada", actor="test")
    good = Tokens(database).create(user, actor="test").text

    for text in (change, good + change if change else good[:-1], good.replace("apl", "apx")):
        with pytest.raises(AuthenticationError):
            Tokens(database).check(text)


def test_an_expired_token_is_good_until_then(database: Database) -> None:
    clock = Clock()
    tokens = Tokens(database, now_s=clock)
    text = tokens.create(Users(database).add("ada", actor="test"), actor="test", lifetime_s=60.0).text

    clock.now_s += 59.9
    tokens.check(text)
    clock.now_s += 0.1
    with pytest.raises(AuthenticationError, match="expired"):
        tokens.check(text)


def test_a_member_cannot_have_the_scopes_of_an_administrator(database: Database) -> None:
    user = Users(database).add("ada", actor="test")

    with pytest.raises(InvalidRequestError, match="'admin'"):
        Tokens(database).create(user, actor="test", scopes=("chat", "admin"))


def test_a_new_user_of_an_old_name_is_somebody_else(database: Database) -> None:
    users, tokens = Users(database), Tokens(database)
    first = users.add("ada", actor="test")
    old = tokens.create(first, actor="test").text
    users.remove("ada", actor="test")
    second = users.add("ada", actor="test")

    assert second.id != first.id
    with pytest.raises(AuthenticationError):
        tokens.check(old)


@pytest.mark.parametrize("name", ["", "Ada", "a b", "-a", "a/b", "a" * 65, "ä", "a\n", "../a"])
def test_names_that_cannot_be_typed_or_told_apart_are_refused(database: Database, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        Users(database).add(name, actor="test")


def test_the_machine_has_one_token_in_a_private_file(database: Database, tmp_path: Path) -> None:
    tokens, folder = Tokens(database), tmp_path / "state"
    first, second = tokens.machine_token(folder), tokens.machine_token(folder)

    caller = tokens.check(first)
    assert first == second
    assert (caller.owner, caller.user.role) == (LOCAL_OWNER, "admin")
    assert stat.S_IMODE((folder / TOKEN_FILE).stat().st_mode) == 0o600
    tokens.revoke(caller.token_id, actor="test")
    assert tokens.machine_token(folder) != first


def test_the_user_of_this_machine_stays(database: Database) -> None:
    Users(database).ensure_local()
    with pytest.raises(InvalidRequestError):
        Users(database).remove(LOCAL_OWNER, actor="test")


def test_every_change_is_in_the_audit_log(database: Database) -> None:
    users, tokens = Users(database), Tokens(database)
    user = users.add("ada", actor="root")
    made = tokens.create(user, actor="root")
    tokens.revoke(made.record.id, actor="root")
    users.remove("ada", actor="root")

    entries = list(AuditLog(database).entries())
    assert [entry.action for entry in entries] == [
        "user.added",
        "token.created",
        "token.revoked",
        "user.removed",
    ]
    assert {entry.actor for entry in entries} == {"root"}
