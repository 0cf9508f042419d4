"""Plans for more than two partitions: pairs of partitions are re-split exactly until none improves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from ptklib.arrays import Ints
from ptkstore.domain.allocation.exact import Placement, in_two
from ptkstore.domain.allocation.halves import GLANCE
from ptkstore.domain.allocation.program import Program
from ptkstore.domain.allocation.starts import placement_of, starts

STARTS = 2
"""Placements that are improved, one where there are many PTKs."""
MANY = 100
SAVINGS = (200, 2_000, 20_000)
"""Shares of all rows that an exchange has to save, one after the other."""
Stop = Callable[[], bool]
"""Tells whether time is up; the domain has no clock."""


def never() -> bool:
    """No limit but the number of rounds."""
    return False


def unwatched(_: Placement) -> None:
    """Nobody looks on."""


def in_many(
    program: Program,
    rounds: int,
    stop: Stop = never,
    *,
    seed: int = 0,
    watch: Callable[[Placement], None] = unwatched,
) -> Placement | None:
    """A good placement in at most `program.partitions` partitions; None if no start fits.

    A local optimum: no two partitions are seen to exchange PTKs, in any number, so that their caps add up to less, by a
    20,000th of all rows or more. `rounds` times some PTKs are moved elsewhere, the partitions are improved again, and
    the better placement is kept. The result depends on the program, `rounds` and `seed` alone unless `stop` ends the
    search. `watch` is shown every local optimum, for a solver that recombines them.
    """
    numbers = _numbers(seed)
    placements = sorted(starts(program), key=lambda placement: placement.total)
    if not placements:
        return None
    descent = _Descent(program, stop)
    improved = [descent.improved(start) for start in placements[: STARTS if program.size <= MANY else 1]]
    for placement in improved:
        watch(placement)
    current = best = min(improved, key=lambda placement: placement.total)
    for _ in range(rounds):
        if stop():
            break
        kicked = _kicked(program, current, numbers)
        if kicked is None:
            continue
        tried = descent.improved(kicked)
        watch(tried)
        if tried.total <= current.total:
            current = tried
        if current.total < best.total:
            best = current
    return best


class _Descent:
    """Improves pairs of partitions; remembers pairs that have nothing left."""

    def __init__(self, program: Program, stop: Stop) -> None:
        self.program, self.stop = program, stop
        self.settled: dict[tuple[bytes, bytes], int] = {}

    def improved(self, placement: Placement) -> Placement:
        """The placement after exchanges between pairs, large savings first."""
        parts, caps = placement.parts.copy(), list(placement.caps)
        for share in SAVINGS:
            saving = max(placement.total // share, 1)
            again = True
            while again and not self.stop():
                again = False
                pairs = combinations(range(len(caps)), 2)
                for pair in sorted(pairs, key=lambda p: -(caps[p[0]] + caps[p[1]])):
                    if self.stop():
                        break
                    again |= self.exchange(pair, parts, caps, saving)
        return Placement(parts, tuple(caps))

    def exchange(self, pair: tuple[int, int], parts: Ints, caps: list[int], saving: int) -> bool:
        """Re-split two partitions in place; whether that saved so many rows."""
        first, second = pair
        one, other = parts == first, parts == second
        members = np.flatnonzero(one | other)
        key = (one.tobytes(), other.tobytes())
        if len(members) < 2 or self.settled.get(key, saving + 1) <= saving:
            return False
        sub = self.program.of(members, partitions=2)
        pins = np.select([sub.pins == first, sub.pins == second], [0, 1], -1)
        better, _ = in_two(replace(sub, pins=pins), caps[first] + caps[second] - saving + 1, GLANCE)
        if better is None:
            self.settled[key] = saving
            return False
        parts[members] = np.where(better.parts == 0, first, second)
        caps[first], caps[second] = better.caps
        return True


def _kicked(program: Program, placement: Placement, numbers: Iterator[int]) -> Placement | None:
    """Some PTKs moved to other partitions."""
    free = np.flatnonzero(program.pins < 0)
    if not len(free) or program.partitions < 3:
        return None
    parts = placement.parts.copy()
    for _ in range(2 + next(numbers) % 3):
        parts[free[next(numbers) % len(free)]] = next(numbers) % program.partitions
    return placement_of(program, parts)


def _numbers(seed: int) -> Iterator[int]:
    """Pseudo-random whole numbers (SplitMix64): which partitions are tried first protects nobody."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
        yield mixed ^ (mixed >> 31)
