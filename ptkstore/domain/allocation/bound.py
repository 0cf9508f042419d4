"""A number of rows that no plan can go below: column generation's bound, from prices instead of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Floats
from ptkstore.domain.allocation.exact import Placement
from ptkstore.domain.allocation.program import Program

COARSE, FINE = 128, 2048
"""Groups of caps while prices climb, and at the end."""
MOMENTUM = 0.6
_SAFE = 1e-9
"""Share by which the bound is lowered, far above the rounding of a float sum."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """Intervals of caps: at least `rows` are opened in one, and PTKs cost at least `weights` in it."""

    rows: Floats
    weights: Floats
    capacity: float


def lower_bound(program: Program, incumbent: Placement, rounds: int) -> int:
    """Return rows that every placement opens at least; at most `incumbent.total`.

    Each PTK gets a price. A partition with cap c and the set S is worth the prices in S and costs c rows. The best one
    is a knapsack, relaxed here to its upper bound by Martello and Toth. All placements have K partitions, so the sum
    of prices less K times the best net worth is a bound for any prices. It is the Lagrangian of the program over (cap,
    set) patterns, the bound that column generation converges to. It is taken for each interval of the largest cap
    apart, with the other caps below it, and the least of these is the bound. Caps are grouped: a group costs its least
    cap and packs as generously as its largest. Prices climb by subgradient steps.
    """
    prices = _first_prices(program, incumbent)
    for groups, steps in ((COARSE, rounds), (FINE, max(rounds // 4, 1))):
        grid = _grid(program, incumbent.total, groups)
        if not len(grid.rows):
            return incumbent.total
        climb = _Climb(program, grid, incumbent, prices)
        for _ in range(steps):
            if climb.step():
                break
        prices = climb.best_prices
    return climb.value()


def _grid(program: Program, roof: int, groups: int) -> _Grid:
    """Caps below `roof`, in groups of nearly equal ratio; every threshold is in one group."""
    caps = program.thresholds(roof - 1)[1:]
    if not len(caps):
        return _Grid(np.zeros(0), np.zeros((0, program.size)), float(program.capacity))
    wanted = np.geomspace(caps[0], caps[-1], groups)
    tops = np.unique(np.append(np.searchsorted(caps, wanted, side="right") - 1, len(caps) - 1))
    bottoms = np.concatenate([[0], tops[:-1] + 1])
    weights = program.table(caps[tops]).astype(np.float64)
    return _Grid(caps[bottoms].astype(np.float64), weights, float(program.capacity))


class _Climb:
    """Prices, and for each interval of the largest cap the best bound they gave so far."""

    def __init__(self, program: Program, grid: _Grid, incumbent: Placement, prices: Floats) -> None:
        self.grid, self.incumbent = grid, incumbent
        self.others = program.partitions - 1
        self.prices = self.best_prices = prices
        self.slope = np.zeros(program.size)
        tops = np.append(grid.rows[1:] - 1, incumbent.total - 1)
        self.bounds = np.where(tops >= program.floor, grid.rows, np.inf)
        self.reach, self.stale = 0.5, 0
        self.most = -np.inf

    def value(self) -> int:
        """The bound, rounded up to whole rows with a margin for floats."""
        least = float(self.bounds.min())
        if least >= self.incumbent.total:
            return self.incumbent.total
        return max(0, int(np.ceil(least - _SAFE * self.incumbent.total)))

    def step(self) -> bool:
        """Move the prices once; whether there is nothing left to show."""
        net, chosen = _best_sets(self.grid, self.prices)  # rows less worth, per interval
        below = np.minimum(np.minimum.accumulate(net), 0.0)
        bounds = self.prices.sum() + net + self.others * below
        before = float(self.bounds.min())
        self.bounds = np.maximum(self.bounds, bounds)
        weakest = int(self.bounds.argmin())
        if float(bounds.min()) > self.most:
            self.most, self.best_prices = float(bounds.min()), self.prices
        if self.bounds[weakest] >= self.incumbent.total - 0.5:
            return True
        gap = self.incumbent.total - float(bounds[weakest])
        cover = chosen[weakest].copy()
        if below[weakest] < 0:
            cover += self.others * chosen[int(net[: weakest + 1].argmin())]
        self.slope = 1.0 - cover + MOMENTUM * self.slope
        self.stale = 0 if float(self.bounds.min()) > before else self.stale + 1
        if self.stale >= 8:
            self.reach, self.stale = self.reach * 0.7, 0
        size = float((self.slope**2).sum())
        if size == 0.0:
            return True
        self.prices = np.maximum(self.prices + self.slope * (self.reach * max(gap, 1.0) / size), 0.0)
        return False


def _first_prices(program: Program, incumbent: Placement) -> Floats:
    """The cost in rows of each PTK's share of its partition's capacity, in the known placement."""
    prices = np.zeros(program.size)
    for part, cap in enumerate(incumbent.caps):
        members = np.flatnonzero(incumbent.parts == part)
        if len(members):
            weights = program.weights(cap)[members].astype(np.float64)
            prices[members] = cap * weights / max(weights.sum(), 1.0)
    return prices


def _best_sets(grid: _Grid, prices: Floats) -> tuple[Floats, Floats]:
    """Per interval its rows less an upper bound on the worth of a set that fits, and the relaxed set."""
    count, size = grid.weights.shape
    weights = grid.weights
    ratio = np.where(weights > grid.capacity, 0.0, prices / np.maximum(weights, 1e-9))
    order = np.argsort(-ratio, axis=1)
    sorted_weights = np.take_along_axis(weights, order, axis=1)
    sorted_ratio = np.take_along_axis(ratio, order, axis=1)
    sorted_worth = np.where(sorted_ratio > 0, prices[order], 0.0)
    used = np.cumsum(sorted_weights, axis=1)
    worth = np.cumsum(sorted_worth, axis=1)
    taken = (used <= grid.capacity).sum(axis=1)  # the break
    every = np.arange(count)
    before = np.maximum(taken - 1, 0)
    base = np.where(taken > 0, worth[every, before], 0.0)
    room = grid.capacity - np.where(taken > 0, used[every, before], 0.0)
    at = np.minimum(taken, size - 1)
    whole = taken >= size
    after = np.minimum(at + 1, size - 1)
    next_ratio = np.where(at + 1 < size, sorted_ratio[every, after], 0.0)
    without = base + room * next_ratio
    previous = np.where(taken > 0, sorted_ratio[every, before], np.inf)
    lacking = np.maximum(sorted_weights[every, at] - room, 0.0)
    with np.errstate(invalid="ignore"):
        including = base + sorted_worth[every, at] - lacking * previous
    including = np.where(np.isfinite(including), including, -np.inf)
    relaxed = np.where(whole, base, np.maximum(without, np.maximum(including, base)))
    chosen = np.zeros((count, size))
    fill = (np.arange(size)[None, :] < taken[:, None]).astype(np.float64)
    part = np.where(whole, 0.0, np.clip(room / np.maximum(sorted_weights[every, at], 1e-9), 0.0, 1.0))
    fill[every, at] = np.where(whole, fill[every, at], np.where(sorted_worth[every, at] > 0, part, 0.0))
    np.put_along_axis(chosen, order, fill * (sorted_ratio > 0), axis=1)
    return grid.rows - relaxed, chosen
