"""Threads without which a process does no work."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

FAILED_STATUS = 70  # EX_SOFTWARE; any status but 0 makes a supervisor start the process again


def end_process() -> None:
    """End this process at once. The catalog has all its work, so the next process continues."""
    os._exit(FAILED_STATUS)


class EssentialThread(threading.Thread):
    """A thread that runs as long as its process: if it raises, the process ends and its supervisor starts it again.

    A process that lost such a thread looks alive and does nothing. The thread returns only once it was told to stop.
    """

    def __init__(
        self, act: Callable[[], object], name: str, *, failed: Callable[[], None] = end_process
    ) -> None:
        """`failed` is called in this thread, after the log was told."""
        super().__init__(name=name, daemon=True)
        self._act, self._failed = act, failed

    def run(self) -> None:
        """Act, and tell of what was raised."""
        try:
            self._act()
        except BaseException:  # noqa: BLE001 - whatever it is, the process does no work any more
            try:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self)))
            finally:
                self._failed()
