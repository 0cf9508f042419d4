"""Plans for more than two partitions: pairs of partitions are re-split exactly until none improves."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ptklib.arrays import Ints
from ptkstore.domain.allocation.exact import Placement, in_two
from ptkstore.domain.allocation.halves import GLANCE
from ptkstore.domain.allocation.program import Program
from ptkstore.domain.allocation.starts import starts

STARTS = 2
"""Placements that are improved, one where there are many PTKs."""
MANY = 100
SAVINGS = (200, 2_000, 20_000)
"""Shares of all rows that an exchange has to save, one after the other."""


def in_many(program: Program) -> Placement | None:
    """Return a good placement in at most `program.partitions` partitions; None if no start fits.

    A local optimum: no two partitions are seen to exchange PTKs, in any number, so that their caps add up to less, by a
    20,000th of all rows or more.
    """
    descent = Descent(program)
    placements = sorted(starts(program), key=lambda placement: placement.total)
    improved = map(descent.improved, placements[: STARTS if program.size <= MANY else 1])
    return min(improved, key=lambda placement: placement.total, default=None)


class Descent:
    """Improves pairs of partitions; remembers pairs that have nothing left."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._settled: dict[tuple[bytes, bytes], int] = {}

    def improved(self, placement: Placement) -> Placement:
        """Exchange PTKs between pairs of partitions, large savings first."""
        parts, caps = placement.parts.copy(), list(placement.caps)
        for share in SAVINGS:
            saving = max(placement.total // share, 1)
            again = True
            while again:
                again = False
                pairs = combinations(range(len(caps)), 2)
                for pair in sorted(pairs, key=lambda p: -(caps[p[0]] + caps[p[1]])):
                    again |= self._exchange(pair, parts, caps, saving)
        return Placement(parts, tuple(caps))

    def _exchange(self, pair: tuple[int, int], parts: Ints, caps: list[int], saving: int) -> bool:
        """Re-split two partitions in place; whether that saved so many rows."""
        first, second = pair
        one, other = parts == first, parts == second
        members = np.flatnonzero(one | other)
        key = (one.tobytes(), other.tobytes())
        if len(members) < 2 or self._settled.get(key, saving + 1) <= saving:
            return False
        part = self._program.of_pair(members, pair)
        better, _ = in_two(part, caps[first] + caps[second] - saving + 1, GLANCE)
        if better is None:
            self._settled[key] = saving
            return False
        parts[members] = np.where(better.parts == 0, first, second)
        caps[first], caps[second] = better.caps
        return True
