"""The parent's handle of a worker: start, watch, restart. A dead worker is a typed error, not a dead program."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import TypeVar

import psutil

from appliance.core.errors import (
    ApplianceError,
    EngineCrashedError,
    InvalidRequestError,
    ModelFileError,
    ProviderUnavailableError,
    error_of,
)
from appliance.core.events import Completed, Failed, StreamEvent
from appliance.core.requests import GenerateRequest, TextFormat
from appliance.engine import protocol
from appliance.engine.child_environment import child_environment
from appliance.engine.mailbox import Mailbox
from appliance.engine.params import EngineInfo, EngineParams, EngineStats
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
from appliance.engine.tool_calls import check_call_arguments
from appliance.structured.admission import Admitted
from appliance.structured.requested import admit_request

_BACKOFF_FIRST_S = 0.1
_BACKOFF_LAST_S = 10.0
_CALM_AFTER_S = 60.0
_CLOSE_WAIT_S = 10.0
_LOG_TAIL_BYTES = 2000
HUNG_AFTER_S = 120.0
# A worker in a long pass says nothing either, but it computes.
_LEAST_BUSY_SHARE = 0.05

T = TypeVar("T")
Reply = TokensReply | StatsReply | Done
OnLoadProgress = Callable[[float], None]


class Engine:
    """One model in one worker process. Belongs to the event loop it is first used in.

    The worker is started by the first call that needs it, and again after it died; after repeated deaths the next
    start waits longer each time. Every request in flight when it dies ends with an `engine_crashed` failure.

    When a request is left before its end, as at a deadline, the worker must give a sign of life: one that neither
    says anything nor computes for `hung_after_s` is killed.
    """

    def __init__(
        self,
        params: EngineParams,
        *,
        on_load_progress: OnLoadProgress | None = None,
        hung_after_s: float = HUNG_AFTER_S,
    ) -> None:
        self._params = params
        self._hung_after_s = hung_after_s
        self._reports = 0
        self._is_hung = False
        self._on_load_progress = on_load_progress or (lambda _fraction: None)
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reader_task: asyncio.Task[None] | None = None
        self._info: EngineInfo | None = None
        self._ready: asyncio.Future[EngineInfo] | None = None
        self._start_lock = asyncio.Lock()
        self._mailboxes: dict[int, Mailbox] = {}
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._last_id = 0
        self._deaths: deque[float] = deque(maxlen=8)
        self._is_closed = False
        self.delivery_lags_s: deque[float] = deque(maxlen=4096)

    @property
    def params(self) -> EngineParams:
        """What the worker is started with."""
        return self._params

    @property
    def pid(self) -> int | None:
        """Process id of the running worker."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> EngineInfo:
        """Load the model unless it is loaded already.

        Raises:
            ApplianceError: the model cannot be loaded, or the worker died while loading.
        """
        async with self._start_lock:
            if self._is_closed:
                raise ProviderUnavailableError("the engine is closed")
            if self._info is not None and self.pid is not None:
                return self._info
            await self._wait_out_deaths()
            return await self._launch()

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        """Answer a request; ends with one `Completed` or `Failed`. Closing the iterator cancels the request."""
        job_id = self._next_id()
        try:
            admitted = await _admit(request)
            await self.start()
            mailbox = self._mailboxes[job_id] = Mailbox()
            self._send(Submit(id=job_id, sent_s=monotonic(), request=request, admitted=admitted))
        except ApplianceError as error:
            self._mailboxes.pop(job_id, None)
            yield Failed(failure=error.to_failure())
            return
        is_ended = False
        try:
            while not is_ended:
                event = await mailbox.take()
                is_ended = isinstance(event, Completed | Failed)
                yield self._identify(event)
        finally:
            self._mailboxes.pop(job_id, None)
            if not is_ended:
                self._try_send(Cancel(id=job_id))
                self._watch()

    async def prompt_tokens(self, request: GenerateRequest) -> list[int]:
        """Tokens of a request's prompt exactly as it would be prefilled."""
        await _admit(request)
        return await self._ask_tokens(Count(id=self._next_id(), request=request))

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Number of tokens of a request's prompt exactly as it would be prefilled."""
        return len(await self.prompt_tokens(request))

    async def tokenize(self, text: str) -> list[int]:
        """Tokens of plain text; the text of control tokens stays text."""
        return await self._ask_tokens(Tokenize(id=self._next_id(), text=text))

    async def stats(self) -> EngineStats:
        """What the worker holds and has done."""
        reply = await self._ask(AskStats(id=self._next_id()))
        assert isinstance(reply, StatsReply)
        return reply.stats

    async def save_prefixes(self) -> None:
        """Write kept prefixes to disk now; otherwise that happens in idle moments and on close."""
        await self._ask(SavePrefixes(id=self._next_id()))

    async def forget_owner(self, owner: str) -> None:
        """Drop every prefix of an owner, in memory and on disk."""
        await self._ask(ForgetOwner(id=self._next_id(), owner=owner))

    async def close(self) -> None:
        """Let the worker save its prefixes and exit; kill it when it does not within ten seconds."""
        self._is_closed = True
        process = self._process
        if process is None:
            return
        if self._info is None:
            _kill(process)  # it is still loading and has nothing to save
        self._try_send(Close())
        try:
            await asyncio.wait_for(process.wait(), _CLOSE_WAIT_S)
        except TimeoutError:
            _kill(process)
            await process.wait()
        if self._reader_task is not None:
            await asyncio.wait([self._reader_task])
        self._remove_runtime_file(process.pid)

    async def _launch(self) -> EngineInfo:
        try:
            parent_end, worker_end = socket.socketpair()
            try:
                process = self._process = await self._spawn(worker_end)
            finally:
                worker_end.close()
        except OSError as exc:
            raise ProviderUnavailableError(f"the model's process cannot be started: {exc}") from exc
        try:
            reader, self._writer = await asyncio.open_connection(sock=parent_end)
            self._ready = asyncio.get_running_loop().create_future()
            self._reader_task = asyncio.create_task(self._read_reports(reader, process))
            self._send(Load(params=self._params))
            self._info = await self._ready
        except BaseException:
            _kill(process)  # nobody would find it again, and it holds the weights
            if self._ready is not None:
                self._ready.cancel()
            raise
        self._write_runtime_file(self._info)
        return self._info

    async def _spawn(self, worker_end: socket.socket) -> asyncio.subprocess.Process:
        descriptor = worker_end.fileno()
        log = self._open_log()
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "appliance.engine.worker",
                str(descriptor),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(descriptor,),
                env=child_environment(),
                start_new_session=True,  # Ctrl+C in the terminal is for the parent, which then cancels
            )
        finally:
            os.close(log)

    async def _read_reports(self, reader: asyncio.StreamReader, process: asyncio.subprocess.Process) -> None:
        try:
            while True:
                (length,) = protocol.HEADER.unpack(await reader.readexactly(protocol.HEADER.size))
                self._dispatch(protocol.decode_report(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, OSError):
            pass
        except ValueError:
            _kill(process)  # after a report that cannot be read, no other can be trusted
        await process.wait()
        self._bury(process)

    def _dispatch(self, report: Report) -> None:
        self._reports += 1
        match report:
            case Emitted():
                self.delivery_lags_s.append(monotonic() - report.at_s)
                if mailbox := self._mailboxes.get(report.id):
                    mailbox.put(report.event)
            case Loading():
                self._on_load_progress(report.fraction)
            case Ready():
                self._settle_ready(report.info)
            case LoadFailed():
                self._settle_ready(_load_error(report))
            case CommandFailed():
                if waiter := self._replies.pop(report.id, None):
                    _settle(waiter, error_of(report.failure))
            case TokensReply() | StatsReply() | Done():
                if waiter := self._replies.pop(report.id, None):
                    _settle(waiter, report)

    def _settle_ready(self, outcome: EngineInfo | ApplianceError) -> None:
        if self._ready is not None:
            _settle(self._ready, outcome)

    def _bury(self, process: asyncio.subprocess.Process) -> None:
        """The worker is gone: tell everyone who waits for it."""
        if process is not self._process:
            return
        self._info = None
        if self._writer is not None:
            self._writer.close()
        self._remove_runtime_file(process.pid)
        if not self._is_closed:
            self._deaths.append(monotonic())
        error = self._error_of_death(process.returncode)
        self._settle_ready(error)
        for mailbox in self._mailboxes.values():
            mailbox.put(Failed(failure=error.to_failure()))
        for waiter in self._replies.values():
            _settle(waiter, error)
        self._replies.clear()

    def _error_of_death(self, returncode: int | None) -> EngineCrashedError:
        if self._is_closed:
            return EngineCrashedError("the engine was closed")
        if self._is_hung:
            self._is_hung = False
            return EngineCrashedError(
                f"the model's process hung: no sign of life in {self._hung_after_s:g} s, so it was ended",
                hint="send the request again: the next one starts a new process" + self._log_hint(),
            )
        return EngineCrashedError(
            f"the model's process {_how_it_ended(returncode)}",
            hint="send the request again: the next one starts a new process" + self._log_hint(),
        )

    def _watch(self) -> None:
        """Ask for a sign of life, and look for it later; a timer leaves nothing behind when the loop ends."""
        process = self._process
        if process is None or process.returncode is not None or self._info is None:
            return
        self._try_send(AskStats(id=self._next_id()))
        look = partial(self._kill_if_hung, process, self._reports, _processor_s(process.pid))
        asyncio.get_running_loop().call_later(self._hung_after_s, look)

    def _kill_if_hung(
        self, process: asyncio.subprocess.Process, reports: int, processor_s: float | None
    ) -> None:
        if process is not self._process or process.returncode is not None or self._reports != reports:
            return
        now_s = _processor_s(process.pid)
        if now_s is None or processor_s is None:
            return
        if now_s - processor_s >= _LEAST_BUSY_SHARE * self._hung_after_s:
            self._watch()
            return
        self._is_hung = True
        _kill(process)

    async def _wait_out_deaths(self) -> None:
        recent = [death for death in self._deaths if monotonic() - death < _CALM_AFTER_S]
        if len(recent) < 2:
            return
        backoff_s = min(_BACKOFF_FIRST_S * 2 ** (len(recent) - 2), _BACKOFF_LAST_S)
        await asyncio.sleep(max(0.0, recent[-1] + backoff_s - monotonic()))

    async def _ask_tokens(self, command: Count | Tokenize) -> list[int]:
        reply = await self._ask(command)
        assert isinstance(reply, TokensReply)
        return reply.tokens

    async def _ask(self, command: Count | Tokenize | AskStats | SavePrefixes | ForgetOwner) -> Reply:
        await self.start()
        waiter: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[command.id] = waiter
        try:
            self._send(command)
            return await waiter
        finally:
            self._replies.pop(command.id, None)

    def _send(self, command: Command) -> None:
        if self._writer is None or self._writer.is_closing():
            raise EngineCrashedError("the model's process is gone")
        try:
            frame = protocol.encode_command(command)
        except ValueError as exc:
            raise InvalidRequestError(f"the request holds a value that cannot be sent: {exc}") from exc
        if len(frame) > protocol.FRAME_LIMIT_BYTES:
            raise InvalidRequestError(f"the request has {len(frame)} bytes; that is too much")
        self._writer.write(frame)

    def _try_send(self, command: Command) -> None:
        with suppress(ApplianceError, OSError):
            self._send(command)

    def _identify(self, event: StreamEvent) -> StreamEvent:
        if not isinstance(event, Completed):
            return event
        return replace(event, model=replace(event.model, digest=self._params.model_digest))

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _open_log(self) -> int:
        if self._params.log_dir is None:
            return os.open(os.devnull, os.O_WRONLY)
        with suppress(OSError):
            self._params.log_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(self._log_path(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        return os.open(os.devnull, os.O_WRONLY)

    def _log_path(self) -> Path:
        assert self._params.log_dir is not None
        return (
            self._params.log_dir / f"worker-{self._params.model_name.replace('/', '_').replace(':', '_')}.log"
        )

    def _log_hint(self) -> str:
        return f"; its log is {self._log_path()}" if self._params.log_dir else ""

    def _write_runtime_file(self, info: EngineInfo) -> None:
        if self._params.runtime_dir is None:
            return
        facts = {
            "pid": info.pid,
            "parent_pid": os.getpid(),
            "model": info.model_name,
            "digest": info.model_digest,
            "context_window": info.context_window,
            "parallel": info.parallel,
            "kv_cells": info.kv_cells,
            "threads": info.threads,
            "started_at": time(),
        }
        with suppress(OSError):
            folder = self._params.runtime_dir / "workers"
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / f"{info.pid}.json").write_text(json.dumps(facts), encoding="utf-8")

    def _remove_runtime_file(self, pid: int) -> None:
        if self._params.runtime_dir is not None:
            with suppress(OSError):
                (self._params.runtime_dir / "workers" / f"{pid}.json").unlink(missing_ok=True)


async def _admit(request: GenerateRequest) -> Admitted | None:
    """Admit here, in a thread: the worker's only thread must not stop for a large schema."""
    check_call_arguments(request.conversation.messages)
    if isinstance(request.output, TextFormat) and not request.tools:
        return None
    return await asyncio.to_thread(admit_request, request)


def _load_error(report: LoadFailed) -> ApplianceError:
    if report.is_bad_file:
        return ModelFileError(report.failure.message, hint=report.failure.hint, **report.failure.details)
    return error_of(report.failure)


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


def _processor_s(pid: int) -> float | None:
    """Seconds that a process has computed; None where that cannot be told."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def _settle(waiter: asyncio.Future[T], outcome: T | ApplianceError) -> None:
    if waiter.done():
        return
    if isinstance(outcome, ApplianceError):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)


def _how_it_ended(returncode: int | None) -> str:
    if returncode is None:
        return "closed its connection"
    if returncode >= 0:
        return f"ended with exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
