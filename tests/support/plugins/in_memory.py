"""A pytest plugin that keeps the files of tests in memory, where there is room: a disk takes 60 times as long.

A durable write waits for the disk, and a test makes hundreds of them. No test loses power, so none can tell the
difference; a process that is killed leaves the same files in memory as on a disk. Caller's `TMPDIR` goes first.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""More than whole runs use at a time. A container has 64 MiB by default, and then its disk is taken."""


def has_room(place: Path) -> bool:
    """Whether it is there, takes programs as well as data, and has room for a whole run."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    here = os.access(place, os.W_OK) and not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return here and found.f_bavail * found.f_frsize >= ROOM_BYTES


def open_to_all() -> Path:
    """Where a server that runs as another user finds its files, by a path that is short enough for a socket."""
    return MEMORY if has_room(MEMORY) else Path("/tmp")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Say so to this process and all that it starts, before the first temporary folder is made."""
    if "TMPDIR" not in os.environ and has_room(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
