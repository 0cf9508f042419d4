"""Work of which only a few are done at once, so that it leaves threads for all other pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from ptkstore.application.operations.team_shares import TeamShares
from ptkstore.domain.identity import Principal

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Few:
    """Places for calls; one that finds none free is refused at once, and waits in no thread.

    Parameters
    ----------
    most, of_a_team : int
        How many calls run at once, and how many of them for one team: it leaves places for others.
    """

    def __init__(self, most: int, of_a_team: int) -> None:
        self._shares = TeamShares(
            most,
            of_a_team,
            team_full=f"{of_a_team} of these are being made for this team, and no more at once",
            all_taken="as many of these as may be are being made",
        )

    @contextmanager
    def place(self, team: str) -> Iterator[None]:
        """Take a place for a team, for a while; raise `Unavailable` or `TooManyRequests` if there is none."""
        self._shares.take(team)
        try:
            yield
        finally:
            self._shares.give_back(team)

    def guarding(self, call: Callable[_P, _T]) -> Callable[_P, _T]:
        """Return the call, which raises `Unavailable` while all places are taken, or all of the caller's team.

        The caller is the argument that is a `Principal`.
        """

        def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            with self.place(next(one.team for one in args if isinstance(one, Principal))):
                return call(*args, **kwargs)

        return guarded
