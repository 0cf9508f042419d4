"""Removes what noisy grid counts far away add to the position of a centre (post-processing)."""

from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np

from ptklib.arrays import Floats
from ptklib.clustering.centres import nearest
from ptklib.clustering.grid import LEVELS, consistent, middles

_CORE = 5.0
"""Standard deviations of noise above which a cell belongs to the core of its centre."""

_CORE_SHARE = 0.5
"""A centre with a smaller share of its rows in its core stays as it is."""


def denoised(
    centres: Floats,
    cells: tuple[Floats, Floats, Floats],
    counts: Sequence[Floats],
    variances: Sequence[float],
    dimension: int,
    place: Callable[[Floats], Floats],
) -> Floats:
    """Return centres without the part of their position that noise may explain.

    Parameters
    ----------
    cells : points, weights, sizes
        As `ptklib.clustering.grid.weighted_points` returns them.
    counts, variances
        Those it was given.
    place : callable
        Returns the coordinates of points that are given as shares of the box.

    Notes
    -----
    Noise leaves small weights in empty cells. They are far from a narrow cluster, and move its mean by more
    than the cluster is wide. The mean of the cells that are surely not empty, the core, has no such part. The
    difference of the two means is shrunk by the share of noise in it (James-Stein). Its noise is that of all
    cells next to the centre, by the square of their distance. So rows that are really far from the core keep
    their weight.
    """
    k, levels = len(centres), LEVELS[dimension]
    spread = np.asarray(consistent(counts, variances, dimension)[1])
    points, weights, sizes = cells
    there = place(points)
    owners = nearest(there, centres)[0]
    level = np.abs(1 / sizes[:, None] - np.asarray(levels)).argmin(axis=1)
    core = np.where(weights > _CORE * np.sqrt(spread[level]), weights, 0.0)

    def means(masses: Floats) -> tuple[Floats, Floats]:
        total = np.asarray(np.bincount(owners, weights=masses, minlength=k), dtype=np.float64)
        sums = [np.bincount(owners, weights=masses * column, minlength=k) for column in there.T]
        return total, np.column_stack(sums) / np.maximum(total, 1e-9)[:, None]

    (rows, whole), (sure, inner) = means(weights), means(core)
    around = place(middles(np.arange(levels[1] ** dimension), levels[1], dimension))
    near = nearest(around, centres)[0]
    gaps = ((around - inner[near]) ** 2).sum(axis=1)
    noise = np.bincount(near, weights=gaps, minlength=k) * spread[1] / np.maximum(rows, sqrt(spread[1])) ** 2
    pull = whole - inner
    length = (pull**2).sum(axis=1)
    explained = noise / np.maximum(np.maximum(length, noise), np.finfo(np.float64).tiny)
    explained[sure <= _CORE_SHARE * rows] = 0.0
    return np.asarray(centres - explained[:, None] * pull)
