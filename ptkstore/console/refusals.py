"""Refused sign-ins, told of once a minute: who guesses tokens must not fill the trail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

EVERY_SECONDS = 60.0


class Refusals:
    """Says which refused sign-in is told of: the first, and then one a minute while there are any."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._quiet_until = -float("inf")

    def is_told(self) -> bool:
        """Whether this one is."""
        with self._lock:
            now = self._clock()
            if now < self._quiet_until:
                return False
            self._quiet_until = now + EVERY_SECONDS
            return True

    def not_told(self) -> None:
        """It could not be told: the next one is."""
        with self._lock:
            self._quiet_until = -float("inf")
