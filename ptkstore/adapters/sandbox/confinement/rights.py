"""The first deed in the sandbox: limit what bubblewrap cannot, and give up the right to do so.

It is run by its path, before anything is imported that could start a thread: rights are those of a thread.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_VERSION_3 = 0x20080522
_MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 2, 4, 32
_SETGID, _SETUID = 1 << 6, 1 << 7
_SETS = 6  # effective, permitted and inheritable, of the lower 32 rights and then of the higher


def limit_files(place: str, most: int) -> None:
    """Let a temporary file system have so many files and folders; keep no right but root's, to become another user.

    The process exits where that is not possible.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _MS_REMOUNT | _MS_NOSUID | _MS_NODEV
    if libc.mount(b"tmpfs", place.encode(), b"tmpfs", flags, f"nr_inodes={most}".encode()) != 0:
        sys.exit("the number of files cannot be limited")
    if libc.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0) != 0:
        sys.exit("prctl was refused")
    kept = _SETGID | _SETUID if os.getuid() == 0 else 0
    if libc.capset(_header(), (ctypes.c_uint32 * _SETS)(kept, kept)) != 0:
        sys.exit("it would have rights")


def capabilities() -> tuple[int, ...]:
    """Return the rights of this thread, as sets of bits."""
    sets = (ctypes.c_uint32 * _SETS)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capget(_header(), sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    return tuple(sets)


def _header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(_VERSION_3, 0)
