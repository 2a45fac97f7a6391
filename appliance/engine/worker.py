"""The worker process: owns one model, reads commands from a private socket, runs the scheduler, writes reports.

Two threads: the main one owns the native context and everything of the model; the other reads the socket, so that
a cancel is seen during a forward pass. When the parent is gone the socket closes and the process ends at once, also
while it still loads.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, perf_counter

import psutil

from appliance.core.errors import (
    ApplianceError,
    EngineCrashedError,
    InternalError,
    ModelFileError,
    StorageError,
)
from appliance.core.events import (
    Failed,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    UsageReported,
)
from appliance.engine import native, protocol
from appliance.engine.loader import LoadedModel, load
from appliance.engine.params import EngineParams, EngineStats
from appliance.engine.protocol import (
    AskStats,
    Cancel,
    Close,
    Command,
    CommandFailed,
    Count,
    Done,
    Emitted,
    ForgetOwner,
    Load,
    LoadFailed,
    Loading,
    Ready,
    Report,
    SavePrefixes,
    StatsReply,
    Submit,
    Tokenize,
    TokensReply,
)
from appliance.engine.scheduler import Scheduler
from appliance.engine.threads import ThreadGovernor

_IDLE_BEFORE_SAVE_S = 2.0
_SAVE_RETRY_S = 60.0
# Shorter than a screen's refresh interval at 30 frames a second.
_DELTA_WAIT_S = 0.025
_DELTAS = (TextDelta, ReasoningDelta, UsageReported)
_COMMAND_LIMIT = 65536


class Connection:
    """The worker's end of the socket. Reports are collected and written together.

    Later deltas of an answer may wait a moment for the next ones: each write wakes the parent on a core that the
    threads of the model need, which costs a small model more than the write itself.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = sock.makefile("rb")
        self._outgoing = bytearray()
        self._waits_since_s: float | None = None

    def read(self) -> Command | None:
        """Wait for the next command; None when the parent is gone."""
        header = self._reader.read(protocol.HEADER.size)
        if len(header) < protocol.HEADER.size:
            return None
        (length,) = protocol.HEADER.unpack(header)
        payload = self._reader.read(length)
        return protocol.decode_command(payload) if len(payload) == length else None

    def collect(self, report: Report, *, may_wait: bool = False) -> None:
        """Add a report to what is written next; one that may not wait takes all before it along."""
        if not may_wait:
            self._waits_since_s = 0.0
        elif self._waits_since_s is None:
            self._waits_since_s = monotonic()
        self._outgoing += protocol.encode_report(report)

    def flush_due(self) -> None:
        """Write what was collected unless all of it may wait a little longer."""
        if self._waits_since_s is not None and monotonic() - self._waits_since_s >= _DELTA_WAIT_S:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        self._waits_since_s = None
        if self._outgoing:
            self._socket.sendall(self._outgoing)
            self._outgoing.clear()

    def send(self, report: Report) -> None:
        """Write a report now."""
        self.collect(report)
        self.flush()


class Inbox:
    """Commands of the parent, read in a thread of their own. Cancels do not wait in the queue."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.commands: queue.Queue[Command] = queue.Queue(maxsize=_COMMAND_LIMIT)
        self.cancelled: set[int] = set()
        self.on_cancel: Callable[[int], None] = lambda _job_id: None

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def forget_cancels(self, up_to: int) -> None:
        """Forget the cancels of jobs that are over: those with ids up to this one."""
        self.cancelled.difference_update([job_id for job_id in list(self.cancelled) if job_id <= up_to])

    def _read(self) -> None:
        try:
            while (command := self._connection.read()) is not None:
                if isinstance(command, Cancel):
                    self.cancelled.add(command.id)
                    self.on_cancel(command.id)
                else:
                    self.commands.put(command)
        except OSError:
            pass
        except Exception:  # noqa: BLE001 without this thread no command would ever be seen again
            traceback.print_exc()
            os._exit(1)
        os._exit(0)  # the parent is gone; nothing may outlive it


class Worker:
    """Runs commands on one loaded model."""

    def __init__(self, connection: Connection, inbox: Inbox, loaded: LoadedModel) -> None:
        self._connection = connection
        self._inbox = inbox
        self._loaded = loaded
        self._last_submitted_id = 0
        self._is_closing = False
        self._save_after_s = monotonic() + _IDLE_BEFORE_SAVE_S
        self._scheduler = Scheduler(
            loaded.context,
            loaded.model.vocabulary,
            loaded.cache,
            loaded.params,
            can_rewind=loaded.model.can_rewind,
            governor=None if native.can_use_gpu() else ThreadGovernor(loaded.info.threads),
            is_cancelled=inbox.cancelled.__contains__,
        )
        inbox.on_cancel = self._abort_prefill

    def run(self) -> None:
        """Serve until told to close or the parent is gone."""
        while not self._is_closing:
            self._take_commands()
            if not self._scheduler.is_idle:
                self._scheduler.step()
            self._connection.flush_due()
        self._scheduler.fail_all(EngineCrashedError("the engine was closed"))
        self._connection.flush()
        with suppress(OSError):
            while self._loaded.cache.save_one():
                pass

    def _abort_prefill(self, job_id: int) -> None:
        if job_id == self._scheduler.prefilling_id:
            self._loaded.context.abort()

    def _take_commands(self) -> None:
        """Carry out what is queued; when idle, wait for more and use the pause to save prefixes."""
        if self._scheduler.is_idle:
            self._inbox.forget_cancels(self._last_submitted_id)
            with suppress(queue.Empty):
                self._carry_out(self._inbox.commands.get(timeout=self._idle_wait_s()))
        while not self._is_closing:
            try:
                self._carry_out(self._inbox.commands.get_nowait())
            except queue.Empty:
                return

    def _idle_wait_s(self) -> float | None:
        if self._save_after_s == 0.0:
            return None
        remaining_s = self._save_after_s - monotonic()
        if remaining_s > 0:
            return remaining_s
        self._scheduler.prepare_formats()
        try:
            has_more = self._loaded.cache.save_one()
            self._save_after_s = monotonic() if has_more else 0.0
        except OSError as exc:
            print(f"a KV prefix could not be saved: {exc}", file=sys.stderr, flush=True)
            self._save_after_s = monotonic() + _SAVE_RETRY_S
        return 0.0 if self._save_after_s else None

    def _carry_out(self, command: Command) -> None:
        match command:
            case Submit():
                self._submit(command)
            case Close():
                self._is_closing = True
            case Count() | Tokenize() | AskStats() | SavePrefixes() | ForgetOwner():
                self._answer(command)
            case Load() | Cancel():
                pass

    def _submit(self, command: Submit) -> None:
        job_id = self._last_submitted_id = command.id
        arrived_s = perf_counter() - max(0.0, monotonic() - command.sent_s)
        has_text = False

        def emit(event: StreamEvent) -> None:
            report = Emitted(id=job_id, at_s=monotonic(), event=event)
            nonlocal has_text
            self._connection.collect(report, may_wait=has_text and isinstance(event, _DELTAS))
            is_first_text = isinstance(event, TextDelta) and not has_text
            has_text = has_text or is_first_text
            if is_first_text or isinstance(event, PrefillProgress):
                self._connection.flush()  # a long pass may follow, and the caller wants to see that it runs

        self._save_after_s = monotonic() + _IDLE_BEFORE_SAVE_S
        try:
            self._scheduler.submit(self._loaded.prepare(command, emit, arrived_s))
        except ApplianceError as error:
            emit(Failed(failure=error.to_failure()))
        except Exception as exc:  # noqa: BLE001 one request's fault must not end the others
            emit(Failed(failure=InternalError(f"the engine failed on this request: {exc!r}").to_failure()))

    def _answer(self, command: Count | Tokenize | AskStats | SavePrefixes | ForgetOwner) -> None:
        try:
            self._connection.collect(self._reply(command))
        except ApplianceError as error:
            self._connection.collect(CommandFailed(id=command.id, failure=error.to_failure()))
        except Exception as exc:  # noqa: BLE001 one command's fault must not end the requests beside it
            failure = InternalError(f"the engine failed on a command: {exc!r}").to_failure()
            self._connection.collect(CommandFailed(id=command.id, failure=failure))

    def _reply(self, command: Count | Tokenize | AskStats | SavePrefixes | ForgetOwner) -> Report:
        match command:
            case Count():
                tokens, _ = self._loaded.prompt_tokens(command.request)
                return TokensReply(id=command.id, tokens=tokens)
            case Tokenize():
                return TokensReply(id=command.id, tokens=self._loaded.model.vocabulary.tokenize(command.text))
            case AskStats():
                return StatsReply(id=command.id, stats=self._stats())
            case SavePrefixes():
                self._save_all()
                return Done(id=command.id)
            case ForgetOwner():
                self._loaded.cache.forget(command.owner)
                return Done(id=command.id)

    def _save_all(self) -> None:
        try:
            while self._loaded.cache.save_one():
                pass
        except OSError as exc:
            raise StorageError(f"KV prefixes cannot be saved: {exc}") from exc

    def _stats(self) -> EngineStats:
        loaded = self._loaded
        return EngineStats(
            running=self._scheduler.running,
            waiting=self._scheduler.waiting,
            kept_sequences=loaded.cache.kept_count,
            kept_tokens=loaded.cache.kept_tokens,
            parked_bytes=loaded.cache.parked_bytes,
            saved_prefixes=loaded.store.count if loaded.store else 0,
            saved_bytes=loaded.store.size_bytes if loaded.store else 0,
            steps=self._scheduler.counters.steps,
            prefilled_tokens=self._scheduler.counters.prefilled_tokens,
            decoded_tokens=self._scheduler.counters.decoded_tokens,
            resident_bytes=psutil.Process().memory_info().rss,
            peak_resident_bytes=_peak_resident_bytes(),
        )


def _peak_resident_bytes() -> int:
    """The most memory this process ever held. Linux counts what the parent held before `exec` into getrusage."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _prefer_as_victim() -> None:
    """Ask Linux to end this process rather than the parent when memory runs out."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def _load(connection: Connection, params: EngineParams) -> LoadedModel | None:
    def report(fraction: float) -> None:
        connection.send(Loading(fraction=fraction))

    try:
        return load(params, report)
    except ApplianceError as error:
        is_bad_file = isinstance(error, ModelFileError)
        connection.send(LoadFailed(failure=error.to_failure(), is_bad_file=is_bad_file))
        return None


def main() -> None:
    """Serve the socket whose descriptor is the first argument."""
    _prefer_as_victim()
    connection = Connection(socket.socket(fileno=int(sys.argv[1])))
    first = connection.read()
    if not isinstance(first, Load):
        return
    inbox = Inbox(connection)
    inbox.start()
    loaded = _load(connection, first.params)
    if loaded is None:
        os._exit(0)
    connection.send(Ready(info=loaded.info))
    Worker(connection, inbox, loaded).run()
    os._exit(0)  # skip native destructors: everything that must last is on disk


if __name__ == "__main__":
    main()
