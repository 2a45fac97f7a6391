"""Takes away system calls that no parser needs, by a Linux seccomp filter; best effort, says if it worked."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from dataclasses import dataclass
from functools import cache

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST_ARGUMENT = 0, 4, 16
_CLONE_THREAD = 0x10000
_X32_BIT = 0x40000000

# New on every architecture: pidfd_open, pidfd_send_signal, pidfd_getfd, io_uring_setup.
_EVERYWHERE = (434, 424, 438, 425)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    architecture: int
    clone: int
    signal_thread: int
    refused: tuple[int, ...]


# socket, connect, bind, listen, accept, accept4, socketpair; fork, vfork, execve, execveat; ptrace,
# process_vm_readv and writev; kill, tkill, queued signals; mount, umount, unshare, setns; bpf,
# perf_event_open, keys, userfaultfd.
_X86_64 = _Calls(
    architecture=0xC000003E,
    clone=56,
    signal_thread=234,
    refused=(
        *(41, 42, 49, 50, 43, 288, 53, 57, 58, 59, 322, 101, 310, 311, 62, 200, 129, 297),
        *(165, 166, 272, 308, 321, 298, 248, 249, 250, 323),
    ),
)
_AARCH64 = _Calls(
    architecture=0xC00000B7,
    clone=220,
    signal_thread=131,
    refused=(
        *(198, 203, 200, 201, 202, 242, 199, 221, 281, 117, 270, 271, 129, 130, 138, 240),
        *(40, 39, 97, 268, 280, 241, 217, 218, 219, 282),
    ),
)
_BY_MACHINE = {"x86_64": _X86_64, "aarch64": _AARCH64}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


@dataclass(frozen=True, slots=True)
class _Filter:
    """A filter before it knows which process it is for, and the call that puts it up."""

    head: bytes
    tail: bytes
    libc: ctypes.CDLL


def refuse_calls() -> bool:
    """Refuse sockets, new processes, other programs and reaching into processes, for good."""
    prepared = prepare()
    if prepared is None:
        return False
    code = prepared.head + _instruction(_JUMP_EQUAL, os.getpid(), if_true=1) + prepared.tail
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    is_active: bool = (
        prepared.libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0
    )
    return is_active


@cache
def prepare() -> _Filter | None:
    """Make what every later filter shares; a process that forks does this once. `None`: there is no filter here."""
    calls = _BY_MACHINE.get(platform.machine())
    if calls is None or platform.system() != "Linux":
        return None
    tail = _instruction(_RETURN, _REFUSE | _EPERM) + _instruction(_RETURN, _ALLOW)
    return _Filter(b"".join(_instructions(calls)), tail, ctypes.CDLL(None, use_errno=True))


def _instructions(calls: _Calls) -> list[bytes]:
    """All but the last three: the process may signal threads of its own only."""
    refuse = _instruction(_RETURN, _REFUSE | _EPERM)
    code = [
        _instruction(_LOAD, _AT_ARCHITECTURE),
        _instruction(_JUMP_EQUAL, calls.architecture, if_true=1),
        refuse,
        _instruction(_LOAD, _AT_NUMBER),
        _instruction(_JUMP_AT_LEAST, _X32_BIT, if_false=1),
        refuse,
        # The C library falls back to clone, whose flags can be seen, when clone3 does not exist.
        _instruction(_JUMP_EQUAL, 435, if_false=1),
        _instruction(_RETURN, _REFUSE | _ENOSYS),
    ]
    for number in (*calls.refused, *_EVERYWHERE):
        code += [_instruction(_JUMP_EQUAL, number, if_false=1), refuse]
    code += [
        _instruction(_JUMP_EQUAL, calls.clone, if_false=3),
        _instruction(_LOAD, _AT_FIRST_ARGUMENT),
        _instruction(_JUMP_ANY_BIT, _CLONE_THREAD, if_true=1),
        refuse,
        _instruction(_LOAD, _AT_NUMBER),
        _instruction(_JUMP_EQUAL, calls.signal_thread, if_false=3),
        _instruction(_LOAD, _AT_FIRST_ARGUMENT),
    ]
    return code


def _instruction(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
