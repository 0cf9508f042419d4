"""The best plan for one or two partitions, with a proof by construction."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Ints
from ptkstore.domain.allocation.halves import PROVE, Effort, Pair, Verdict, split
from ptkstore.domain.allocation.program import Program


@dataclass(frozen=True, slots=True)
class Placement:
    """A partition for each PTK, and the caps of the partitions."""

    parts: Ints
    caps: tuple[int, ...]

    @property
    def total(self) -> int:
        """Rows that all partitions together open."""
        return sum(self.caps)


def in_one(program: Program) -> Placement | None:
    """Everything in one partition."""
    cap = program.cap_of(np.arange(program.size))
    if cap is None or (program.pins > 0).any():
        return None
    return Placement(np.zeros(program.size, dtype=np.int64), (cap,))


@dataclass
class _Search:
    """Least N_1 + N_2 over the pairs of caps that fit, best bounds first."""

    program: Program
    below: int
    effort: Effort
    proven: bool = True
    best: Placement | None = None

    def __post_init__(self) -> None:
        self.caps = self.program.thresholds(self.below - 1)
        self.costs_of_cap: dict[int, Ints] = {}
        self.apart = bool((self.program.pins >= 0).any())
        self.deltas = self.program.deltas if self.program.delta_binds else None

    def costs(self, cap: int, barred: int) -> Ints:
        """The loss of each PTK under the cap with this place; those pinned to the other partition more than fits."""
        if cap not in self.costs_of_cap:
            self.costs_of_cap[cap] = self.program.weights(int(self.caps[cap]))
        if not self.apart:
            return self.costs_of_cap[cap]
        return np.where(self.program.pins == barred, self.program.capacity + 1, self.costs_of_cap[cap])

    def fits(self, first: int, second: int) -> Ints | None:
        """The partition of each PTK for caps with these places, if there is one."""
        pair = Pair(
            self.costs(first, 1),
            self.costs(second, 0),
            self.program.capacity,
            self.deltas,
            self.program.delta_capacity,
        )
        answer = split(pair, self.effort)
        if isinstance(answer, Verdict):
            self.proven &= answer is Verdict.NONE
            return None
        return answer.astype(np.int64)

    def last_below(self, rows: int) -> int:
        """The place of the largest cap under a number of rows, or -1."""
        return int(np.searchsorted(self.caps, rows)) - 1

    def least_first(self, low: int, second: int, high: int) -> None:
        """The least first cap beside a second one, from `low` up, knowing that `high` fits; remembers the plan."""
        while low < high:
            middle = (low + high) // 2
            if self.fits(middle, second) is not None:
                high = middle
            else:
                low = middle + 1
        parts = self.fits(high, second)
        if parts is not None:
            self.remember(parts)

    def remember(self, parts: Ints) -> None:
        """Keep a placement if it is the best so far; its own caps may be lower than those that were asked about."""
        caps = [self.program.cap_of(np.flatnonzero(parts == part)) for part in (0, 1)]
        if caps[0] is None or caps[1] is None or caps[0] + caps[1] >= self.below:
            return
        self.best, self.below = Placement(parts, (caps[0], caps[1])), caps[0] + caps[1]

    def run(self) -> None:
        """Halve intervals of second caps; one fits at most its lowest cap plus the least first cap at its highest."""
        last = len(self.caps) - 1
        todo = [(0, 0, last)] if last >= 0 else []
        while todo:
            _, low, high = heapq.heappop(todo)
            if not self.apart:  # without pins the second is the smaller one
                high = min(high, self.last_below(self.below // 2 + 1))
            if low > high:
                continue
            roof = self.last_below(self.below - int(self.caps[low]))
            lowest = 0 if self.apart else max(low, int(np.searchsorted(self.caps, self.program.floor)))
            if roof < lowest or self.fits(roof, high) is None:
                continue
            middle = (low + high) // 2
            roof = self.last_below(self.below - int(self.caps[middle]))
            if roof >= lowest and self.fits(roof, middle) is not None:
                self.least_first(lowest, middle, roof)
            for start, stop in ((low, middle - 1), (middle + 1, high)):
                if start <= stop:
                    heapq.heappush(todo, (int(self.caps[start]), start, stop))


def in_two(program: Program, below: int, effort: Effort = PROVE) -> tuple[Placement | None, bool]:
    """Find the best placement in at most two partitions with fewer than `below` rows, and tell whether it is proven.

    Whether caps (N_1, N_2) fit is monotone in both. So an interval of N_2 whose upper end does not fit beside the
    largest N_1 that would still improve contains nothing better and is dropped. Other intervals are halved. Every cap
    is one of the menus' own row counts.
    """
    search = _Search(program, below, effort)
    search.run()
    return search.best, search.proven
