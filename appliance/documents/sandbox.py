"""Confines a process that opens untrusted files: no network, no writing, no other programs, bounded cost."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.documents.landlock import restrict_files
from appliance.documents.limits import Limits
from appliance.documents.seccomp import refuse_calls

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 38, 4
_OPEN_FILES = 64
_SYSTEM_FOLDERS = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share", "/etc/ld.so.cache")
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/zero")


Network = Literal["namespace and seccomp", "namespace", "seccomp", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """Which walls stand around a parser. `none` means the system offers no such wall."""

    network: Network
    files: Literal["landlock", "none"]
    programs: Literal["seccomp", "none"]


def enter_network_namespace() -> bool:
    """Move this process into a network of its own, which has no way out."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) == 0:
        return True
    is_inside: bool = libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0
    return is_inside


def give_up_privileges() -> None:
    """Make sure that no program started from here can gain rights, and that no core is dumped."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def allow_only(readable: Iterable[str], writable: Iterable[str] = ()) -> bool:
    """Leave reading of the interpreter's folders and these, and writing to `writable`."""
    if sys.platform != "linux":
        return False
    return restrict_files([*_interpreter_folders(), *_SYSTEM_FOLDERS, *readable], [*_DEVICES, *writable])


def bound_cost(limits: Limits, base_bytes: int) -> None:
    """Cap memory beyond `base_bytes`, processor time, written bytes and open files."""
    seconds = int(limits.deadline_s) + 2
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if sys.platform == "linux":
        _lower(resource.RLIMIT_AS, base_bytes + limits.memory_bytes)


def refuse_programs() -> bool:
    """Refuse sockets and new processes from here on."""
    return refuse_calls()


def _interpreter_folders() -> list[str]:
    package_root = Path(__file__).resolve().parent.parent
    purelib, platlib = sysconfig.get_path("purelib"), sysconfig.get_path("platlib")
    found = {sys.prefix, sys.base_prefix, sys.exec_prefix, purelib, platlib, str(package_root)}
    return [path for path in found if path not in ("/", "")]


def mapped_bytes() -> int:
    """Bytes this process has mapped; to be asked before its right to read `/proc` is gone."""
    if sys.platform != "linux":
        return 0
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(which, (bound, bound))
