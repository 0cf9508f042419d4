"""How many draws and puts the tickets of one gateway are good for in a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import ceil

from ptkstore.errors import TooManyRequests

BURST_SECONDS = 2.0


class GatewayRates:
    """A bucket for each gateway and kind of request, which fills by the second and holds two seconds' worth.

    They are this process's own. Only a ticket that holds is counted, so that nobody empties the bucket of another.

    Parameters
    ----------
    per_second : float
        0 counts nothing.
    clock : callable
        Seconds that never go back.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most = per_second, max(per_second * BURST_SECONDS, 1.0)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[tuple[bytes, str], tuple[float, float]] = {}

    def take(self, gateway: bytes, kind: str, count: int = 1) -> None:
        """Count requests, or refuse them with `TooManyRequests`; refused ones count for nothing."""
        if not self._rate:
            return
        wanted = min(count, self._most)
        with self._lock:
            now = self._clock()
            left, at = self._buckets.get((gateway, kind), (self._most, now))
            left = min(self._most, left + (now - at) * self._rate)
            if left < wanted:
                raise TooManyRequests(
                    f"for the tickets of one gateway there are {self._rate:g} of each kind a second here",
                    retry_after=ceil((wanted - left) / self._rate),
                )
            self._buckets[gateway, kind] = (left - wanted, now)
