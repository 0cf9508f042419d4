"""Places that teams share: so many in all, and so many of one team."""

from __future__ import annotations

import threading
from collections import Counter

from ptkstore.errors import TooManyRequests, Unavailable

_RETRY_AFTER_SECONDS = 5


class LookupShares:
    """How many host names are looked up at once.

    A lookup cannot be cancelled. It keeps its place until it ends, also when nobody waits for its answer any more. So
    slow names of one team never take the places of all.

    Parameters
    ----------
    at_once, per_team : int
        Places in all, and of one team.
    """

    def __init__(self, at_once: int, per_team: int) -> None:
        self._at_once, self._per_team = at_once, per_team
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, team: str) -> None:
        """Take a place for a team.

        Raises
        ------
        TooManyRequests
            The team has all the places that one team may have.
        Unavailable
            All places are taken.
        """
        with self._lock:
            if self._taken[team] >= self._per_team:
                raise TooManyRequests(
                    f"{self._per_team} host names of this team are being looked up, and no more at once; "
                    "wait for their answers, or use host names that are answered quickly",
                    retry_after=_RETRY_AFTER_SECONDS,
                )
            if self._taken.total() >= self._at_once:
                raise Unavailable("many host names are being looked up; send this request again later")
            self._taken[team] += 1

    def give_back(self, team: str) -> None:
        """Free a place of a team."""
        with self._lock:
            self._taken[team] -= 1
            self._taken += Counter()  # forgets teams without a place
