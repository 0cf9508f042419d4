"""Requests of a child process to the kernel before it learns a secret."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_NO_NEW_PRIVS = 38


def die_with_parent() -> None:
    """Be killed when the parent dies; see `parent_is` for a parent that was faster."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def keep_secrets() -> None:
    """Allow no core dump, no debugger of the same user, no rights gained by running other programs."""
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def name_process(name: str) -> None:
    """Show at most 15 characters in lists of processes."""
    _prctl(_PR_SET_NAME, ctypes.create_string_buffer(name.encode()))


def parent_is(pid: int) -> bool:
    """Return whether the process that started us still lives; once true, `die_with_parent` sees to the rest."""
    return os.getppid() == pid


def run_to_its_end(program: Callable[[], None]) -> NoReturn:
    """Run it and be gone, with status 1 if it raised.

    The interpreter's shutdown is skipped. Threads of native libraries that are still at work may abort a process that
    unloads them. Its answer, written by then, would count as that of one that was killed.
    """
    status = 1
    try:
        program()
        status = 0
    finally:
        os._exit(status)


def _prctl(option: int, value: int | ctypes.Array[ctypes.c_char]) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        sys.exit("prctl was refused")
