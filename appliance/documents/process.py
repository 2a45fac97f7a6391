"""The appliance's end of a parser process: start it, hand it files, watch the clock, kill it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from appliance.documents import launch
from appliance.documents.job import Job
from appliance.documents.limits import Limits
from appliance.documents.reasons import RefusalError, as_reason
from appliance.documents.sandbox import Isolation, Network
from appliance.documents.tesseract import recognise
from appliance.documents.wire import BrokenFrameError, Frame, FrameAssembler, pack, read_frame

_START_TIMEOUT_S = 60.0
_EXIT_TIMEOUT_S = 5.0
_POLL_S = 0.1
_BLOCK_BYTES = 1 << 18
_RESULT_OVERHEAD_BYTES = 512 << 20
_PICTURE_BYTES = 64 << 20


class StoppedError(Exception):
    """The caller asked to stop."""


class _GoneError(Exception):
    """The process that forks the workers is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What the caller wants to know and say while a file is read."""

    on_progress: Callable[[int, int], None]
    is_cancelled: Callable[[], bool]
    tesseract: str | None


class ParserProcess:
    """One confined process that reads files one after the other; started on first use."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self.isolation: Isolation | None = None

    def start(self) -> Isolation:
        """Start the process, unless it runs, and say which walls stand around it.

        Raises:
            RefusalError: it does not come up.
        """
        if self._process is not None and self._process.poll() is None and self.isolation is not None:
            return self.isolation
        self.close()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                launch.command("child_main"),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=launch.environment(),
                start_new_session=True,
            )
        self._control = ours
        ours.settimeout(_START_TIMEOUT_S)
        try:
            hello = read_frame(ours.recv)
        except (OSError, BrokenFrameError) as exc:
            self.close()
            raise RefusalError("parser_crashed", f"the parser process does not start: {exc}") from exc
        if hello is None:
            self.close()
            raise RefusalError("parser_crashed", "the parser process does not start")
        self.isolation = _isolation(json.loads(hello.payload))
        return self.isolation

    def run(self, job: Job, document: int, watch: Watch) -> bytes:
        """Have one file read and return the result's JSON.

        Raises:
            RefusalError: the file cannot be read; the process is alive or will be started anew.
            StoppedError: the caller asked to stop.
        """
        try:
            return self._run_once(job, document, watch)
        except _GoneError:
            # Killed from outside while it waited or worked: the file has a second chance, in a new process.
            self.close()
        try:
            return self._run_once(job, document, watch)
        except _GoneError as exc:
            raise RefusalError("parser_crashed", "the parser process died on it, twice") from exc

    def _run_once(self, job: Job, document: int, watch: Watch) -> bytes:
        self.start()
        assert self._control is not None
        channel, theirs = socket.socketpair()
        with channel:
            with theirs:
                try:
                    socket.send_fds(self._control, [job.to_json()], [document, theirs.fileno()])
                except OSError as exc:
                    raise _GoneError from exc
            try:
                outcome = _Conversation(channel, job.limits, watch).outcome()
            except BaseException:
                self.close()
                raise
        return self._conclude(outcome, job)

    def close(self) -> None:
        """End the process and everything it started."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _conclude(self, outcome: Frame | None, job: Job) -> bytes:
        report = self._exit_report()
        if outcome is None:
            raise _death(report, job.limits) if report else _GoneError
        if outcome.kind == "result":
            return outcome.payload
        refusal = json.loads(outcome.payload)
        raise RefusalError(as_reason(str(refusal["reason"])), str(refusal["message"]))

    def _exit_report(self) -> dict[str, float]:
        assert self._control is not None
        self._control.settimeout(_EXIT_TIMEOUT_S)
        try:
            frame = read_frame(self._control.recv)
        except (OSError, BrokenFrameError):
            frame = None
        if frame is None or frame.kind != "exited":
            self.close()
            return {}
        return {str(name): float(value) for name, value in json.loads(frame.payload).items()}


class _Conversation:
    """Everything one worker says about one file, until it hangs up."""

    def __init__(self, channel: socket.socket, limits: Limits, watch: Watch) -> None:
        self._channel = channel
        self._limits = limits
        self._watch = watch
        self._deadline = monotonic() + limits.deadline_s
        self._pages_recognised = 0
        most = limits.text_chars * 6 + _RESULT_OVERHEAD_BYTES + limits.ocr_pages * _PICTURE_BYTES
        self._assembler = FrameAssembler(max_bytes=most)

    def outcome(self) -> Frame | None:
        """The result or refusal; `None` when the worker died without either."""
        found: Frame | None = None
        while True:
            self._check_clock()
            if not select.select([self._channel], [], [], _POLL_S)[0]:
                continue
            block = self._receive()
            if not block:
                return found
            for frame in self._frames(block):
                if frame.kind in ("result", "refusal"):
                    found = frame
                else:
                    self._answer(frame)

    def _check_clock(self) -> None:
        if self._watch.is_cancelled():
            raise StoppedError
        if monotonic() > self._deadline:
            raise RefusalError("deadline", f"reading it took more than {self._limits.deadline_s:g} s")

    def _receive(self) -> bytes:
        try:
            return self._channel.recv(_BLOCK_BYTES)
        except ConnectionResetError:
            return b""

    def _frames(self, block: bytes) -> list[Frame]:
        try:
            return self._assembler.feed(block)
        except BrokenFrameError as exc:
            raise RefusalError("parser_crashed", f"the parser sent nonsense: {exc}") from exc

    def _answer(self, frame: Frame) -> None:
        if frame.kind == "progress":
            done, total = json.loads(frame.payload)
            self._watch.on_progress(int(done), int(total))
        elif frame.kind == "picture" and self._watch.tesseract is not None:
            self._pages_recognised += 1
            if self._pages_recognised > self._limits.ocr_pages:
                raise RefusalError("too_large", f"more than {self._limits.ocr_pages} pages need recognition")
            started = monotonic()
            try:
                text = recognise(frame.payload, self._watch.tesseract, self._limits)
            except RefusalError:
                # One page that cannot be recognised is a page without text, not the end of the document.
                text = ""
            self._deadline += monotonic() - started
            with suppress(BrokenPipeError, ConnectionResetError):
                self._channel.sendall(pack("recognised", text.encode()))


def _death(report: dict[str, float], limits: Limits) -> RefusalError:
    """Why a worker that said nothing died."""
    code = int(report.get("code", 0))
    max_rss_bytes = report.get("max_rss", 0.0) * 1024
    if code == -signal.SIGXCPU:
        return RefusalError("deadline", "it used up its processor time")
    if code == -signal.SIGKILL or max_rss_bytes > 0.6 * limits.memory_bytes:
        return RefusalError("memory", "the parser was stopped for the memory it took")
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return RefusalError("parser_crashed", f"the parser died on it ({name})")


def _isolation(walls: dict[str, bool]) -> Isolation:
    has_namespace, has_seccomp = walls["namespace"], walls["seccomp"]
    network: Network = "namespace" if has_namespace else "seccomp" if has_seccomp else "none"
    return Isolation(
        network="namespace and seccomp" if has_namespace and has_seccomp else network,
        files="landlock" if walls["landlock"] else "none",
        programs="seccomp" if has_seccomp else "none",
    )
