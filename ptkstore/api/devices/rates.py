"""How much the tickets of one gateway, and each of them, are good for at once and in a second."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil

from ptkstore.domain.tickets import Ticket
from ptkstore.errors import TooManyRequests

BURST_SECONDS = 2.0

TRIES_AT_ONCE, TRIES_PER_SECOND = 20.0, 1.0
"""Of one ticket, whatever it is sent for: a device needs three, and a few more where answers are lost."""

BYTES_AT_ONCE = 64 * 2**20
"""Of all reports that are being received, or wait to be examined and put."""

BYTES_OF_A_GATEWAY = BYTES_AT_ONCE // 4
BYTES_BESIDE = 2**16
"""For each of them so many more: small ones of one gateway are no more than 256, a quarter of the connections of a
process, and so many wait to be examined at most."""

BODIES_OF_A_TICKET = 2

_FORGET_AT = 2**14


class _Buckets:
    """A bucket for each key, which fills by the second. Full ones are forgotten when there are many."""

    def __init__(self, per_second: float, most: float, says: str, clock: Callable[[], float]) -> None:
        self._rate, self._most, self._says, self._clock = per_second, most, says, clock
        self._lock = threading.Lock()
        self._left: dict[object, tuple[float, float]] = {}
        self._forget_at = _FORGET_AT

    def take(self, key: object, count: float = 1.0) -> None:
        """Take so much out of a bucket, all of it at most; refused ones take nothing."""
        wanted = min(count, self._most)
        with self._lock:
            now = self._clock()
            left = self._now_in(key, now)
            if left < wanted:
                raise TooManyRequests(self._says, retry_after=ceil((wanted - left) / self._rate))
            self._left[key] = (left - wanted, now)
            if len(self._left) >= self._forget_at:
                self._left = {
                    one: kept for one, kept in self._left.items() if self._now_in(one, now) < self._most
                }
                self._forget_at = max(_FORGET_AT, 2 * len(self._left))

    def give_back(self, key: object) -> None:
        """Undo one `take` of 1."""
        with self._lock:
            now = self._clock()
            self._left[key] = (min(self._most, self._now_in(key, now) + 1), now)

    def _now_in(self, key: object, now: float) -> float:
        left, at = self._left.get(key, (self._most, now))
        return min(self._most, left + (now - at) * self._rate)


class GatewayRates:
    """A bucket for each gateway and kind of request, which fills by the second and holds two seconds' worth.

    They are this process's own. Only a valid ticket counts, and only once. So nobody empties the bucket of others.

    Parameters
    ----------
    per_second : float
        0 counts nothing.
    clock : callable
        Seconds that never go back.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        says = f"for the tickets of one gateway there are {per_second:g} of each kind a second here"
        self._buckets = _Buckets(per_second, max(per_second * BURST_SECONDS, 1.0), says, clock)

    def take(self, gateway: bytes, kind: str, count: int = 1) -> None:
        """Count requests, or refuse them with `TooManyRequests`; refused ones count for nothing."""
        if self._rate:
            self._buckets.take((gateway, kind), count)

    def give_back(self, gateway: bytes, kind: str) -> None:
        """Count a request for nothing that `take` has counted."""
        if self._rate:
            self._buckets.give_back((gateway, kind))


class TicketRates:
    """How often one ticket is looked at: whoever sends it again and again is refused before anything is done.

    Parameters
    ----------
    clock : callable
        Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._buckets = _Buckets(TRIES_PER_SECOND, TRIES_AT_ONCE, "the ticket was sent too often", clock)

    def take(self, ticket: Ticket) -> None:
        """Count a request, or refuse it with `TooManyRequests`."""
        self._buckets.take(ticket.mark)


class BodiesAtOnce:
    """Bytes of bodies that are held, and beside them: of all, of the tickets of one gateway, and of one ticket."""

    def __init__(self) -> None:
        self._held: Counter[bytes] = Counter()

    @contextmanager
    def of(self, ticket: Ticket, n_bytes: int) -> Iterator[None]:
        """Count a body while it is held, or refuse it with `TooManyRequests`."""
        costs = n_bytes + BYTES_BESIDE
        most = {
            b"": BYTES_AT_ONCE,
            ticket.gateway: BYTES_OF_A_GATEWAY,
            ticket.mark: BODIES_OF_A_TICKET * costs,
        }
        if any(self._held[one] + costs > limit for one, limit in most.items()):
            raise TooManyRequests("many reports are being taken; send this one again later")
        for one in most:
            self._held[one] += costs
        try:
            yield
        finally:
            for one in most:
                self._held[one] -= costs
                if not self._held[one]:
                    del self._held[one]
