"""How many bytes of rows are decoded in memory at once, and how many of them are one team's."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ptkstore.errors import TooManyRequests, Unavailable

WAIT_SECONDS = 20.0


class DecodedBytes:
    """What one body holds of the memory.

    It waits for its first bytes. Where it needs more and there are none, it is refused at once: two bodies that wait
    for each other's bytes would wait for ever.
    """

    def __init__(self, shares: DecodedShares, team: str) -> None:
        self._shares, self._team = shares, team
        self.held = 0

    def grow_to(self, n_bytes: int) -> None:
        """Hold so many bytes, a team's share at most, if it holds fewer; refuses as `DecodedShares.of` does."""
        n_bytes = min(n_bytes, self._shares.per_team)
        if n_bytes > self.held:
            self._shares.take(self._team, n_bytes - self.held, wait=not self.held)
            self.held = n_bytes


class DecodedShares:
    """Memory for decoded rows that teams share.

    Parameters
    ----------
    in_all, per_team : int
        Bytes; one body takes at most what a team may have.
    """

    def __init__(self, in_all: int, per_team: int) -> None:
        self._in_all, self.per_team = in_all, per_team
        self._changed = threading.Condition()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def of(self, team: str) -> Iterator[DecodedBytes]:
        """What a body of a team holds, given back at the end.

        Raises
        ------
        TooManyRequests
            The team has its share of bytes already.
        Unavailable
            All bytes are taken.
        """
        held = DecodedBytes(self, team)
        try:
            yield held
        finally:
            with self._changed:
                self._taken[team] -= held.held
                self._taken += Counter()  # forgets teams that hold nothing
                self._changed.notify_all()

    def take(self, team: str, n_bytes: int, *, wait: bool) -> None:
        """Take bytes for a team, after a while if need be; refuses as `of` does."""
        until = time.monotonic() + (WAIT_SECONDS if wait else 0.0)
        with self._changed:
            while not self._fits(team, n_bytes):
                if not self._changed.wait(max(0.0, until - time.monotonic())):
                    raise self._refusal(team, n_bytes)
            self._taken[team] += n_bytes

    def _fits(self, team: str, n_bytes: int) -> bool:
        return self._taken[team] + n_bytes <= self.per_team and self._taken.total() + n_bytes <= self._in_all

    def _refusal(self, team: str, n_bytes: int) -> Exception:
        if self._taken[team] + n_bytes > self.per_team:
            return TooManyRequests(
                f"rows of one team take at most {self.per_team} bytes in memory at once; "
                "send one batch after the other, or smaller ones"
            )
        return Unavailable("many batches are being decoded; send this one again later")
