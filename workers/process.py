"""The resources of each process of workers: its service, made after the fork, and word of its end."""

from __future__ import annotations

import mmap
import os
import signal
import threading

from ptkstore import application
from ptkstore.adapters.runtime import LoggedSteps
from ptkstore.settings import load_settings
from ptkstore.wiring import Service

application.load()  # once, before processes are forked off

_made: tuple[int, Service] | None = None
# Shared with every process that is forked off; it needs no lock, so a signal may write to it.
_told = mmap.mmap(-1, 1)


def service() -> Service:
    """Return the service of this very process; connections are never shared across a fork."""
    global _made
    if _made is None or _made[0] != os.getpid():
        _made = (os.getpid(), make_service())
    return _made[1]


def close() -> None:
    """Give back what this very process has, if it has anything."""
    if _made is not None and _made[0] == os.getpid():
        _made[1].close()


def make_service() -> Service:
    """Make a service from the environment's settings."""
    return Service(load_settings(), steps=LoggedSteps(), must_stop=must_stop)


def leave_off() -> None:
    """Tell this process, and those forked off it, to wait for nothing any more."""
    _told[0] = 1


def must_stop() -> bool:
    """Tell whether this process, or the one that forked it off, was told to stop."""
    return _told[0] == 1


def stop_event() -> threading.Event:
    """Make an event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
