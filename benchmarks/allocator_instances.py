"""Instances of the allocation: n = c + a/epsilon + b/epsilon^2 with lognormal sizes from seeds, and real profiles."""

import json
from pathlib import Path

import numpy as np

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.allocation import Choice, Demand, Limits
from ptkstore.domain.allocation.menus import RowCurve, geometric_grid, menu_of

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
