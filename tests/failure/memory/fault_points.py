"""Runs the crash workload with one fault at the n-th call of a system call, and checks what it promised."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import StorageError
from appliance.memory.conversations import Conversations
from appliance.memory.journal import stop_unfinished_answers
from appliance.memory.schema import CONVERSATIONS
from appliance.storage.database import STORE_FILE, Database

_PR_SET_PTRACER = 0x59616D61
WRITING_CALLS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "openat", "mkdir", "fallocate")
FAULTS = {"KILL": "signal=KILL", "ENOSPC": "error=ENOSPC", "EIO": "error=EIO"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the workload promised before it ended, and how it ended."""

    promises: list[dict[str, str]]
    returncode: int


def count_calls(folder: Path, work: Callable[[Path], None]) -> Counter[str]:
    """Count the writing calls on the store of a run without a fault."""
    log = folder / "calls"
    store = folder / "count" / STORE_FILE
    _, returncode = _run(work, store, ["-o", str(log), "-e", f"trace={','.join(WRITING_CALLS)}"])
    assert returncode == 0
    calls = (
        line.split(maxsplit=1)[1].partition("(")[0] for line in log.read_text().splitlines() if "(" in line
    )
    return Counter(call for call in calls if call in WRITING_CALLS)


def run_with_fault(
    folder: Path, work: Callable[[Path], None], call: str, position: int, fault: str
) -> tuple[Path, Outcome]:
    """Run the workload with a fault at one call; return the store and what had been promised."""
    store = folder / f"{call}-{position}-{fault}" / STORE_FILE
    printed, returncode = _run(
        work, store, ["-o", "/dev/null", "-e", f"inject={call}:{FAULTS[fault]}:when={position}"]
    )
    promises = [json.loads(line) for line in printed.splitlines()]
    return store, Outcome(promises=promises, returncode=returncode)


def find_losses(store: Path, promises: list[dict[str, str]]) -> list[str]:
    """Open the store as the next start of the program does, and name each broken promise."""
    database = Database(store, [CONVERSATIONS])
    try:
        conversations = Conversations(database)
        losses = [f"integrity: {finding}" for finding in database.check_integrity()]
        before_repair = _broken(conversations, promises)
        stop_unfinished_answers(database)
        return (
            losses + before_repair + _broken(conversations, promises) + _broken_chats(conversations, promises)
        )
    finally:
        database.close()


def _broken(conversations: Conversations, promises: list[dict[str, str]]) -> list[str]:
    shown = {
        promise["turn"]: promise for promise in promises if promise["kind"] in ("asked", "shown", "ended")
    }
    losses: list[str] = []
    turns = {turn.id: turn for chat in conversations.chats.list_chats("all") + conversations.chats.list_chats("trash")
             for turn in conversations.turns.all_turns(chat.id)}  # fmt: skip
    for turn_id, promise in shown.items():
        turn = turns.get(turn_id)
        if turn is None or not turn.text.startswith(promise["text"]):
            losses.append(f"lost {promise['kind']} {promise['text'][-30:]!r}")
        elif promise["kind"] == "ended" and (turn.state, turn.text) != ("done", promise["text"]):
            losses.append(f"ended answer is {turn.state}")
        elif promise["kind"] == "shown" and turn.state not in ("stopped", "done", "failed"):
            losses.append(f"answer of a dead process is {turn.state}")
    return losses


def _broken_chats(conversations: Conversations, promises: list[dict[str, str]]) -> list[str]:
    losses: list[str] = []
    for promise in promises:
        if promise["kind"] == "renamed" and conversations.chats.get(promise["chat"]).title != "renamed chat":
            losses.append("lost a title")
        if promise["kind"] == "restored" and conversations.chats.get(promise["chat"]).is_deleted:
            losses.append("a restored chat is deleted")
        if promise["kind"] == "ended" and conversations.chats.last_deleted() is None:
            found = conversations.search("word39")
            if promise["turn"] not in {hit.turn_id for hit in found}:
                losses.append("search does not find an ended answer")
    return losses


def _run(work: Callable[[Path], None], store: Path, options: list[str]) -> tuple[str, int]:
    """Fork, so that each of thousands of runs need not import the program again; trace the child's store."""
    store.parent.mkdir(parents=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        _work_when_traced(work, store)
    os.close(writing)
    paths = [str(store.parent), *(str(store) + suffix for suffix in ("", "-wal", "-shm", "-journal"))]
    watched = [option for path in paths for option in ("-P", path)]
    tracer = subprocess.Popen(["strace", "-f", "-qq", *watched, *options, "-p", str(child)])
    with os.fdopen(reading, encoding="utf-8") as pipe:
        printed = pipe.read()
    _, status = os.waitpid(child, 0)
    tracer.wait(timeout=60)
    return printed, os.waitstatus_to_exitcode(status)


def _work_when_traced(work: Callable[[Path], None], store: Path) -> None:
    code = 70
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
        give_up_at_s = time.monotonic() + 30
        while "TracerPid:\t0\n" in Path("/proc/self/status").read_text() and time.monotonic() < give_up_at_s:
            os.sched_yield()
        work(store)
        code = 0
    except StorageError as exc:
        os.write(1, (json.dumps({"kind": "error", "text": exc.message}) + "\n").encode())
        code = 3
    except Exception:  # noqa: BLE001 - the child's boundary
        traceback.print_exc()
    finally:
        os._exit(code)
