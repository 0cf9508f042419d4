"""Waiting for what has to come, however slow the machine is."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import psutil

PATIENCE_SECONDS = 240.0


def until(
    condition: Callable[[], object],
    what: str = "what had to come",
    *,
    seconds: float = PATIENCE_SECONDS,
    pause: float = 0.05,
) -> None:
    """Come back when the condition holds; a test that waits in vain fails here."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(pause)


def lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
