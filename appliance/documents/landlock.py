"""Takes away the right to touch files, by Linux Landlock; best effort, says whether it worked."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_VERSION_FLAG = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
# Rights known at ABI 1, and one more each for renaming across folders, truncating and device ioctls.
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_BIND_AND_CONNECT_TCP = 0b11


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def restrict_files(readable: Iterable[str], writable: Iterable[str] = ()) -> bool:
    """Leave this process and its children the right to read and write these folders only, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if abi < 1:
        return False
    rights = (1 << _RIGHTS_BY_ABI.get(abi, 16)) - 1
    attributes = _RulesetAttributes(rights, _BIND_AND_CONNECT_TCP if abi >= 4 else 0)
    size = ctypes.sizeof(attributes) if abi >= 4 else 8
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    for path in readable:
        _allow(libc, ruleset, path, _READ)
    for path in writable:
        _allow(libc, ruleset, path, rights)
    is_restricted: bool = libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return is_restricted


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not os.path.isdir(path):  # noqa: PTH112
                rights &= _EXECUTE | _WRITE_FILE | _READ_FILE
            rule = _PathBeneath(rights, descriptor)
            libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(descriptor)
