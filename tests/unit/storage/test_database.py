from __future__ import annotations

import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from appliance.core.errors import InternalError, StorageError
from appliance.storage.backups import KEPT_BACKUPS, list_backups
from appliance.storage.database import STORE_FILE, Database
from appliance.storage.schema import Schema, split_statements

NOTES = Schema(
    feature="notes",
    steps=("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT",),
)
NOTES_2 = Schema(feature="notes", steps=(*NOTES.steps, "ALTER TABLE notes ADD COLUMN colour TEXT"))


def upper_case(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE notes SET text = upper(text)")


NOTES_3 = Schema(feature="notes", steps=(*NOTES_2.steps, upper_case))


def texts(database: Database) -> list[str]:
    with database.read() as connection:
        return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id")]


def write(database: Database, text: str) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / STORE_FILE


def test_a_transaction_that_raises_leaves_nothing(path: Path) -> None:
    database = Database(path, [NOTES])

    def fail() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('half')")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()

    assert texts(database) == []
    write(database, "whole")
    assert texts(database) == ["whole"]


@pytest.mark.parametrize("first", [NOTES, NOTES_2])
def test_every_earlier_version_is_migrated_with_a_backup_of_what_it_held(first: Schema, path: Path) -> None:
    old = Database(path, [first])
    write(old, "kept")
    old.close()

    new = Database(path, [NOTES_3])

    assert texts(new) == ["KEPT"]
    with new.read() as connection:
        assert connection.execute("SELECT colour FROM notes").fetchall() == [(None,)]
    (backup,) = list_backups(path)
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("SELECT text FROM notes").fetchall() == [("kept",)]
    Database(path, [NOTES_3]).close()
    assert list_backups(path) == [backup]


def test_a_migration_that_fails_leaves_the_old_version_whole(path: Path) -> None:
    old = Database(path, [NOTES])
    write(old, "kept")
    old.close()
    broken = Schema(feature="notes", steps=(*NOTES_2.steps, "CREATE TABLE half (id); SELECT nonsense"))

    with pytest.raises(InternalError, match="nonsense"):
        Database(path, [broken])

    again = Database(path, [NOTES_2])
    assert texts(again) == ["kept"]
    with again.read() as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []


def test_new_tables_of_a_feature_need_no_backup(path: Path) -> None:
    Database(path, [NOTES]).close()

    Database(path, [NOTES, Schema(feature="other", steps=("CREATE TABLE other (id)",))]).close()

    assert list_backups(path) == []


def test_a_store_of_a_newer_program_is_refused_and_untouched(path: Path) -> None:
    Database(path, [NOTES_3]).close()
    before = path.read_bytes()

    with pytest.raises(StorageError, match="version 3; this program knows up to 1"):
        Database(path, [NOTES])

    assert path.read_bytes() == before


def test_only_the_newest_backups_are_kept(path: Path) -> None:
    database = Database(path, [NOTES])

    made = [database.back_up("copy") for _ in range(KEPT_BACKUPS + 2)]

    assert list_backups(path) == made[-KEPT_BACKUPS:]


def test_the_second_writer_learns_who_holds_the_store_and_what_to_do(path: Path) -> None:
    database = Database(path, [NOTES])
    with database.lock_writer("chat"):
        with pytest.raises(StorageError, match=rf"`appliance chat`, process {os.getpid()}") as caught:
            Database(path, [NOTES]).lock_writer("serve")
        write(Database(path, [NOTES]), "short writes go through")
        reader = Database(path, [NOTES], mode="read")
        assert texts(reader) == ["short writes go through"]

    assert "read-only" in caught.value.hint
    assert caught.value.details["pid"] == os.getpid()
    database.lock_writer("serve").release()


def test_a_writer_that_waits_too_long_is_told_so(path: Path) -> None:
    one, other = Database(path, [NOTES]), Database(path, [NOTES], busy_timeout_s=0.05)

    with one.transaction() as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('first')")
        with pytest.raises(StorageError, match="another process is writing"):
            write(other, "second")

    write(other, "third")
    assert texts(one) == ["first", "third"]


def test_threads_take_turns_and_none_is_lost(path: Path) -> None:
    database = Database(path, [NOTES])
    threads = [threading.Thread(target=write, args=(database, f"{number}")) for number in range(20)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(texts(database), key=int) == [f"{number}" for number in range(20)]


def test_a_reader_sees_one_snapshot_while_others_write(path: Path) -> None:
    database = Database(path, [NOTES])
    write(database, "old")

    with database.read() as connection:
        before = connection.execute("SELECT count(*) FROM notes").fetchone()
        write(database, "new")
        during = connection.execute("SELECT count(*) FROM notes").fetchone()

    assert (before, during, texts(database)) == ((1,), (1,), ["old", "new"])


def test_a_read_connection_cannot_write(path: Path) -> None:
    database = Database(path, [NOTES])

    def sneak() -> None:
        with database.read() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('sneaked')")

    with pytest.raises(StorageError):
        sneak()
    with pytest.raises(StorageError, match="reading only"):
        write(Database(path, [NOTES], mode="read"), "no")


def test_a_transaction_inside_a_transaction_is_a_bug_not_a_deadlock(path: Path) -> None:
    database = Database(path, [NOTES])

    def nest() -> None:
        with database.transaction():
            write(database, "inner")

    with pytest.raises(InternalError, match="inside a transaction"):
        nest()


def test_unsynced_and_synced_transactions_see_each_other(path: Path) -> None:
    database = Database(path, [NOTES])
    with database.transaction(is_synced=False) as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('quick')")
    write(database, "safe")

    assert texts(Database(path, [NOTES], mode="read")) == ["quick", "safe"]


def test_every_connection_has_the_settings_that_durability_needs(path: Path) -> None:
    database = Database(path, [NOTES])

    with database.transaction() as connection:
        full = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in
                ("journal_mode", "synchronous", "foreign_keys", "secure_delete")]  # fmt: skip
    with database.transaction(is_synced=False) as connection:
        quick = connection.execute("PRAGMA synchronous").fetchone()[0]

    assert full == ["wal", 2, 1, 1]
    assert quick == 1


def test_the_file_is_for_its_user_alone_and_no_log_is_left_behind(path: Path) -> None:
    database = Database(path, [NOTES])
    write(database, "x")
    texts(database)
    database.close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == [STORE_FILE]


def test_a_file_that_is_no_database_is_refused_with_a_way_out(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database at all" * 100)

    with pytest.raises(StorageError, match="damaged or not a database") as caught:
        Database(path, [NOTES])

    assert "backups" in caught.value.hint


def test_a_damaged_page_is_found_by_the_integrity_check(path: Path) -> None:
    database = Database(path, [NOTES])
    for number in range(500):
        write(database, f"text {number} " * 20)
    database.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * 4096)

    damaged = Database(path, [NOTES], mode="read")

    assert damaged.check_integrity() != ()


def test_reading_a_store_that_does_not_exist_creates_nothing(path: Path) -> None:
    with pytest.raises(StorageError, match="no store"):
        Database(path, [NOTES], mode="read")

    assert not path.parent.exists()


def test_a_folder_that_may_not_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StorageError):
        Database(tmp_path / "file" / STORE_FILE, [NOTES])


def test_scrub_leaves_no_deleted_byte(path: Path) -> None:
    database = Database(path, [NOTES])
    write(database, "unmistakable secret")
    with database.transaction() as connection:
        connection.execute("DELETE FROM notes")

    database.scrub()

    assert all(b"unmistakable" not in each.read_bytes() for each in path.parent.iterdir())


def test_a_closed_store_says_so(path: Path) -> None:
    database = Database(path, [NOTES])
    database.close()

    with pytest.raises(InternalError, match="closed"):
        texts(database)


@pytest.mark.parametrize(
    ("script", "count"),
    [
        ("", 0),
        ("SELECT 1", 1),
        ("SELECT 1; SELECT ';'; ", 2),
        ("CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; SELECT 2; END; SELECT 3;", 2),
    ],
)
def test_scripts_are_split_at_the_ends_of_statements(script: str, count: int) -> None:
    assert len(split_statements(script)) == count
