"""Instances of the allocation: n = c + a/epsilon + b/epsilon^2 with lognormal sizes from seeds, and real profiles."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptkstore.domain.accounting.losses import NANO, Loss
from ptkstore.domain.allocation.model import Choice, Demand, Limits, pruned
from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class RowCurve:
    """Rows to a target as n(epsilon) = base + linear / epsilon + quadratic / epsilon^2, rounded up.

    The form of errors that fall with n and with n epsilon: sampling, Laplace noise on means, and noise whose variance
    is met in a square.
    """

    base: float
    linear: float = 0.0
    quadratic: float = 0.0

    def __post_init__(self) -> None:
        parts = (self.base, self.linear, self.quadratic)
        if not all(math.isfinite(part) and part >= 0 for part in parts):
            raise InvalidRequest("the coefficients of a row curve must be finite and at least 0")

    def __call__(self, epsilon: float) -> int:
        """Return the rows needed at `epsilon`, at least 1."""
        return max(1, math.ceil(self.base + self.linear / epsilon + self.quadratic / epsilon**2))


def geometric_grid(least: Loss, most: Loss, points: int) -> tuple[Loss, ...]:
    """Return `points` epsilons from `least` to `most`, each by one factor above the last; deltas are `most`'s."""
    if points < 1 or not 0 < least.epsilon_nano <= most.epsilon_nano:
        raise InvalidRequest("a grid needs at least one point and 0 < least <= most")
    low, high = least.epsilon_nano, most.epsilon_nano
    steps = [high if points == 1 else round(low * (high / low) ** (j / (points - 1))) for j in range(points)]
    steps[-1] = high
    return tuple(Loss(step, most.delta_atto) for step in sorted(set(steps)))


def menu_of(rows: Callable[[float], int], losses: Iterable[Loss]) -> tuple[Choice, ...]:
    """Return the menu of a PTK that needs `rows(epsilon)` rows, on a grid of losses."""
    return pruned([Choice(loss, rows(loss.epsilon_nano / NANO)) for loss in losses])


CAPACITY = Loss(10**9)
GRID = geometric_grid(Loss(10**7), CAPACITY, 20)
"""20 epsilons from 0.01 to 1, as a profiler would try them."""
NO_LIMIT = 10**9
PROFILES = Path(__file__).parent / "allocator_profiles.json"
"""Menus of 13 PTKs on real trips; benchmarks/allocator_profiles.py makes it."""

Instance = tuple[int, int, int]
"""PTKs, most partitions, seed."""


def demands(n_ptks: int, seed: int) -> list[Demand]:
    """Return PTKs whose row curves spread over some two orders of magnitude."""
    draw = np.random.default_rng([seed, n_ptks])
    base = np.exp(draw.normal(8.0, 1.2, n_ptks))
    linear = np.exp(draw.normal(6.0, 1.2, n_ptks))
    quadratic = np.exp(draw.normal(3.2, 1.5, n_ptks))
    curves = [RowCurve(*map(float, curve)) for curve in zip(base, linear, quadratic, strict=True)]
    return [Demand(f"bench.p{i:03}", menu_of(curve, GRID)) for i, curve in enumerate(curves)]


def profiled_demands(n_ptks: int, seed: int) -> list[Demand]:
    """Return PTKs drawn from the 13 of the taxi team, with targets drawn between tight and loose.

    What formulas gave for both targets is interpolated by ratios of rows; a profile by samples is one of the two.
    """
    known = json.loads(PROFILES.read_text())
    names, draw = sorted(known), np.random.default_rng([seed, n_ptks])
    asked = []
    for i in range(n_ptks):
        menus = known[names[int(draw.integers(len(names)))]]
        loose, tight, part = dict(menus["loose"]), dict(menus["tight"]), float(draw.random())
        if len(loose) < len(GRID) // 2:
            menu = loose if part >= 0.5 else tight
        else:
            menu = {e: round(tight[e] ** (1 - part) * n**part) for e, n in loose.items() if e in tight}
        choices = tuple(Choice(Loss.charge(epsilon), n) for epsilon, n in sorted(menu.items()))
        asked.append(Demand(f"taxi.p{i:03}", choices))
    return asked


def limits(partitions: int, n_max: int = NO_LIMIT) -> Limits:
    """Return a window with epsilon 1 in each partition."""
    return Limits(CAPACITY, n_max, partitions)


def pairs(demand: Demand) -> list[tuple[int, int]]:
    """Return the menu as (cost, rows)."""
    return [(choice.cost, choice.n_rows) for choice in demand.menu]


def name_of(instance: Instance) -> str:
    """Return the name of an instance in tables and in the file of best known values."""
    n_ptks, partitions, seed = instance
    return f"{n_ptks} PTKs, K <= {partitions}, seed {seed}"
