"""The parser process: confines itself, then forks one short-lived worker for each file it is handed.

The process that waits never looks at a file, so nothing a file does can reach the next one; a fork of the
warm interpreter costs milliseconds. It gets a file as an open descriptor and may open nothing else.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
from contextlib import suppress

from appliance.documents import sandbox
from appliance.documents.job import Job
from appliance.documents.wire import pack, write_frame
from appliance.documents.worker import run_job, warm_up

_MESSAGE_BYTES = 1 << 16


def main() -> None:
    """Serve jobs from the control socket on descriptor 0 until it closes."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm_up()
    mapped_bytes = sandbox.mapped_bytes()
    isolation = _confine()
    gc.freeze()
    control.sendall(pack("hello", json.dumps(isolation).encode()))
    while _serve_one(control, mapped_bytes):
        pass


def _confine() -> dict[str, bool]:
    sandbox.give_up_privileges()
    has_namespace = sandbox.enter_network_namespace()
    has_landlock = sandbox.allow_only(())
    return {"namespace": has_namespace, "landlock": has_landlock, "seccomp": _can_refuse_programs()}


def _can_refuse_programs() -> bool:
    """Try the filter in a throw-away fork, because it cannot be taken off again."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if sandbox.refuse_programs() else 1)
    return os.waitpid(pid, 0)[1] == 0


def _serve_one(control: socket.socket, mapped_bytes: int) -> bool:
    message, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 2)
    if not message:
        return False
    job = Job.from_json(message)
    alive_reader, alive_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        control.close()
        os.close(alive_reader)
        document, channel = descriptors
        _work(job, document, channel, mapped_bytes)
    os.close(alive_writer)
    for descriptor in descriptors:
        os.close(descriptor)
    is_parent_alive = _wait(control, alive_reader, pid)
    os.close(alive_reader)
    _, status, usage = os.wait4(pid, 0)
    if not is_parent_alive:
        return False
    report = {"code": os.waitstatus_to_exitcode(status), "max_rss": usage.ru_maxrss, "cpu_s": _cpu_s(usage)}
    control.sendall(pack("exited", json.dumps(report).encode()))
    return True


def _work(job: Job, document: int, channel: int, mapped_bytes: int) -> None:
    code = 1
    with suppress(BaseException):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        kind, payload = run_job(job, document, channel, mapped_bytes)
        write_frame(channel, kind, payload)
        code = 0
    os._exit(code)


def _wait(control: socket.socket, alive_reader: int, pid: int) -> bool:
    """Wait until the worker is gone; kill it when nobody waits for it any more."""
    watched: list[socket.socket | int] = [control, alive_reader]
    is_parent_alive = True
    while True:
        readable, _, _ = select.select(watched, [], [])
        if control in readable:
            is_parent_alive = False
            watched.remove(control)
            os.kill(pid, signal.SIGKILL)
        if alive_reader in readable:
            return is_parent_alive


def _cpu_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
