"""Write down what was paid for, however often the catalog does not answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from ptkstore.application.paid_runs.release_ticks import ReleaseTicks
from ptkstore.errors import OutcomeUnknown, PtkStoreError, Unavailable

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CommitRetry:
    """How long a run whose loss is spent waits for the catalog: `at_most` so long, or until its process is to stop.

    It may be longer than the lease. While the catalog is away nobody can take the job, and once it is back the fence
    tells whether somebody did.
    """

    ticks: ReleaseTicks
    at_most: timedelta
    must_stop: Callable[[], bool]

    def settle(self, act: Callable[[], _T]) -> _T:
        """Return what `act` returns; where nobody answered its commit, take it again until the catalog tells.

        `act` must find out by itself whether it was done before, as in `outlast`.

        Raises
        ------
        Unavailable
            At once, where nothing was written.
        OutcomeUnknown
            After all that patience; so is `Unavailable` of a later try.
        """
        try:
            return act()
        except OutcomeUnknown:
            return self.outlast(lambda _: act(), self.ticks.clock.now())

    def outlast(
        self,
        act: Callable[[datetime], _T],
        at: datetime,
        errors: tuple[type[PtkStoreError], ...] = (Unavailable, OutcomeUnknown),
    ) -> _T:
        """Return what `act` returns at this tick, or at the first one after it at which it raises none of `errors`.

        `act` must find out by itself whether it was done before: a commit that nobody answered may have been.

        Raises
        ------
        Unavailable, OutcomeUnknown
            Of the last try, after all that patience.
        """
        until = at + self.at_most
        while True:
            try:
                return act(at)
            except errors:
                if at >= until or self.must_stop():
                    raise
            at = self.ticks.wait(after=at)
