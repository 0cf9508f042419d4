"""How many requests one token, and one team, may send in a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import ceil

from ptkstore.domain.identity import Principal
from ptkstore.errors import TooManyRequests

BURST_SECONDS = 2.0
TEAM_SHARES = 2.0
_KEPT_MAX = 10_000


class Rates:
    """A bucket per token and one per team, which fill by the second and hold two seconds' worth, and one at least.

    They are this process's own: where several serve, each counts what comes to it. Only a valid token counts, so that
    nobody empties the bucket of another.

    Parameters
    ----------
    per_second : float
        Requests of a token; a team may send twice as many by all of its tokens. 0 counts nothing.
    clock : callable
        Seconds that never go back.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = (per_second, TEAM_SHARES * per_second)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, principal: Principal) -> None:
        """Count a request, or refuse it with `TooManyRequests`; a refused one counts for nothing."""
        if not self._rates[0]:
            return
        now = self._clock()
        with self._lock:
            drained = []
            for name, rate in zip((principal.token_id, f"/{principal.team}"), self._rates, strict=True):
                most = max(rate * BURST_SECONDS, 1.0)
                left, at = self._buckets.get(name, (most, now))
                left = min(most, left + (now - at) * rate)
                if left < 1:
                    raise TooManyRequests(
                        f"a {'team' if name.startswith('/') else 'token'} may send {rate:g} requests a second here",
                        retry_after=ceil((1 - left) / rate),
                    )
                drained.append((name, left - 1))
            for name, left in drained:
                self._buckets[name] = (left, now)
            if len(self._buckets) > _KEPT_MAX:
                self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop the buckets that are full again by now, or all: being too kind is better than growing."""
        kept = {name: one for name, one in self._buckets.items() if now - one[1] < BURST_SECONDS}
        self._buckets = kept if len(kept) <= _KEPT_MAX else {}
