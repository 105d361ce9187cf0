"""Confine this process by Landlock: Linux lets a process give up rights that neither it nor its children get back.

What is given up: to write anywhere but beneath some folders, to make devices, TCP (version 4 of the interface on, Linux
6.7), and signals and abstract sockets to processes outside (version 6, Linux 6.12). Not covered: UDP, sockets that are
files, the mode and owner of files; and a folder within a writable one cannot be excepted. It needs no privileges and no
other program. The C library has no functions for it; numbers and structures are those of `linux/landlock.h`:

    struct landlock_ruleset_attr { __u64 handled_access_fs, handled_access_net, scoped; };
    struct landlock_path_beneath_attr { __u64 allowed_access; __s32 parent_fd; } __attribute__((packed));
"""

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["landlock_version", "restrict_this_process"]

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_KEPT_CAPABILITIES = (0, 1, 3)
"""Of root's: to own and to write files of others. With CAP_PERFMON, for one, it reads every environment in /proc."""
_N_CAPABILITIES = 64

_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_CHANGE_FOLDER = sum(1 << bit for bit in range(4, 13))
"""To remove and to make entries of every kind."""
_MAKE_DEVICE = 1 << 6 | 1 << 11
"""Given up everywhere: root could make the disk itself a file of the workspace."""
_REFER = 1 << 13
"""To move and to link between folders; where the kernel does not know it (version 1), nobody may."""
_TCP = 1 << 0 | 1 << 1
"""To bind and to connect."""
_SCOPES = 1 << 0 | 1 << 1
"""Abstract sockets, and signals."""


def landlock_version() -> int:
    """Return the version of the interface; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    try:
        return _call(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def restrict_this_process(writable: Sequence[str], *, has_network: bool) -> None:
    """Give up writing anywhere but to the files `writable` and beneath its folders, and TCP without `has_network`.

    Raises:
        OSError: The kernel refuses; nothing or a part is given up.
    """
    version = landlock_version()
    rights = _WRITE_FILE | _CHANGE_FOLDER | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    attributes = struct.pack("=QQQ", rights, 0 if has_network else _TCP, _SCOPES)
    attributes = attributes[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    for place in filter(os.path.exists, writable):
        _allow(ruleset, place, rights)
    system = ctypes.CDLL(None, use_errno=True)
    for number in set(range(_N_CAPABILITIES)).difference(_KEPT_CAPABILITIES):
        system.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails where there is none to drop; takes effect at exec
    _checked(system.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, place: str, rights: int) -> None:
    is_folder = stat.S_ISDIR(Path(place).stat().st_mode)
    opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", rights & (~_MAKE_DEVICE if is_folder else _WRITE_FILE | _TRUNCATE), opened)
    _call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
    os.close(opened)


def _call(number: int, *arguments: int | bytes | None) -> int:
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return _checked(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *words))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
