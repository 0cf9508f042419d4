"""Shares of teams within a process: a total, and a limit for one team."""

from __future__ import annotations

import threading
import time
from collections import Counter

from ptkstore.errors import TooManyRequests, Unavailable


class TeamShares:
    """Places, bytes or whatever is counted, that one team never takes from all others.

    Parameters
    ----------
    in_all, per_team : int
        How much there is, and how much of it one team may have.
    team_full, all_taken : str
        The message if the team's share, or the total, is taken.
    retry_after : int
        Seconds after which a team may ask again.
    """

    def __init__(
        self, in_all: int, per_team: int, *, team_full: str, all_taken: str, retry_after: int = 1
    ) -> None:
        self.per_team = per_team
        self._in_all, self._retry_after = in_all, retry_after
        self._team_full, self._all_taken = team_full, all_taken
        self._changed = threading.Condition()
        self._taken: Counter[str] = Counter()

    def take(self, team: str, amount: int = 1, *, within_seconds: float = 0.0) -> None:
        """Take some for a team, once it is there; whoever took it gives it back.

        Raises
        ------
        TooManyRequests
            The team's share is taken.
        Unavailable
            All there is is taken.
        """
        until = time.monotonic() + within_seconds
        with self._changed:
            while not self._fits(team, amount):
                if not self._changed.wait(max(0.0, until - time.monotonic())):
                    raise self._refusal(team, amount)
            self._taken[team] += amount

    def give_back(self, team: str, amount: int = 1) -> None:
        """Leave to others what was taken for a team."""
        with self._changed:
            self._taken[team] -= amount
            self._taken += Counter()  # forgets teams that hold nothing
            self._changed.notify_all()

    def _fits(self, team: str, amount: int) -> bool:
        return self._taken[team] + amount <= self.per_team and self._taken.total() + amount <= self._in_all

    def _refusal(self, team: str, amount: int) -> Unavailable:
        if self._taken[team] + amount > self.per_team:
            return TooManyRequests(self._team_full, retry_after=self._retry_after)
        return Unavailable(self._all_taken)
