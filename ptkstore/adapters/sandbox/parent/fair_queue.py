"""A fair queue at the sandbox: code of some teams is examined at once, one per team, the others in order of arrival."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ptkstore.errors import TooManyRequests, Unavailable

_BUSY = "code of other teams is being examined; come again later"
_RETRY_AFTER_SECONDS = 5  # most examinations end within it


class FairQueue:
    """The turn of examinations.

    A team has one place, so that its code, even code that hangs, keeps nobody else from the others. `at_once` have
    their turn at the same time, and so many are `waiting` for it at most: each takes a thread of the server.
    """

    def __init__(self, at_once: int, waiting: int) -> None:
        self._at_once, self._places = at_once, at_once + waiting
        self._changed = threading.Condition()
        self._teams: list[str] = []  # by arrival; the first `at_once` have their turn

    @property
    def taken(self) -> int:
        """How many places are taken."""
        with self._changed:
            return len(self._teams)

    @contextmanager
    def of(self, team: str, timeout_seconds: float) -> Iterator[None]:
        """Wait for a team's turn, and hold it.

        Raises
        ------
        TooManyRequests
            The team has a place already.
        Unavailable
            All places are taken, or the turn did not come in time.
        """
        with self._changed:
            if team in self._teams:
                raise TooManyRequests(
                    f"code of team {team!r} is being examined already; one at a time for each team",
                    retry_after=_RETRY_AFTER_SECONDS,
                )
            if len(self._teams) >= self._places:
                raise Unavailable(_BUSY)
            self._teams.append(team)
            try:
                if not self._changed.wait_for(lambda: self._has_turn(team), timeout_seconds):
                    raise Unavailable(_BUSY)
            except BaseException:
                self._leave(team)
                raise
        try:
            yield
        finally:
            with self._changed:
                self._leave(team)

    def _has_turn(self, team: str) -> bool:
        return team in self._teams[: self._at_once]

    def _leave(self, team: str) -> None:
        self._teams.remove(team)
        self._changed.notify_all()
