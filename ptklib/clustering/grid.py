"""Noisy adaptive grid: counts on nested grids become weighted points (d <= 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, sqrt
from typing import Any

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.mechanisms.grid import count_by, sum_by
from ptklib.privacy import check_delta
from ptklib.release import Component, ReleasePlan, plan_shares

LEVELS: dict[int, tuple[int, ...]] = {1: (16, 128, 1024), 2: (8, 32, 128), 3: (4, 16, 32)}
"""Cells per axis of each level, by dimension. Levels and equal budgets were chosen on synthetic and taxi data:
between two and eight levels, with other ratios and shares, the loss was equal or up to 8 % larger."""


OFFSETS = "offsets"
"""The name of the sums that say where in their finest cells the rows of a centre are."""

OFFSET = 2**10
"""Units in half the side of a finest cell."""

OFFSET_SHARES = {1: 0.03, 2: 0.03, 3: 0.15}
"""Share of the budget for offsets, by dimension: the finest cells of three columns are wide."""

_DIVIDED = 2.0
"""Standard deviations of a child's noise a cell must exceed to be divided; 0.5 to 4 differ by less than 2 %."""

_POINTS = 2**12
"""Cells are divided once more, evenly, while that leaves at most as many points; the loss falls by 1 %."""

_HIDDEN = 0.05
"""Rows a coarsest cell that looks empty is taken to hide, in standard deviations of its noise.

Squares of distances make a few rows far from all centres as dear as all others together: without them, 1.4 % of fits
of taxi pickups (epsilon 0.01, 32 centres) left out an airport. From 0.02 to 0.1 losses differ by less than 3 %.
"""


@dataclass(frozen=True, eq=False)
class Noisy:
    """Noisy counts, one for each cell, and the variance of their noise."""

    values: Floats
    variance: float

    def __add__(self, other: "Noisy") -> "Noisy":
        return Noisy(self.values + other.values, self.variance + other.variance)


def components(dimension: int) -> list[Component]:
    """Return one count vector per level: a row is in one cell of each."""
    return [Component(f"level_{i}", n**dimension, 1) for i, n in enumerate(LEVELS[dimension])]


def names(dimension: int) -> list[str]:
    """Return the names of the levels, coarse to fine."""
    return [component.name for component in components(dimension)]


def plan_counts(
    dimension: int, k: int, epsilon: object, delta: object, rows_per_unit: int = 1
) -> ReleasePlan:
    """Return the whole release, counts of all levels and offsets of k centres, before any data are read.

    Parameters
    ----------
    dimension, k : int
        Columns and centres.
    rows_per_unit : int
        Rows of one privacy unit, at most.

    Notes
    -----
    :Sensitivity: a row is in one cell of each level, and adds there 1. It adds to one centre a vector of ``dimension``
        integers within ``OFFSET``, of L1 norm ``dimension * OFFSET`` and L2 norm ``sqrt(dimension) * OFFSET`` at most.

    The centre of a row is a function of the released counts: adaptive composition. With ``delta > 0`` the noise is
    Gaussian where that is smaller; otherwise delta is not spent.
    """
    counts, share = components(dimension), OFFSET_SHARES[dimension]
    shares = [(1 - share) / len(counts)] * len(counts) + [share]

    def plan(reach: int, slack: object) -> ReleasePlan:
        parts = [*counts, Component(OFFSETS, k * dimension, reach)]
        return plan_shares(parts, shares, epsilon, slack, rows_per_unit)

    laplace = plan(dimension * OFFSET, 0)
    if check_delta(delta) == 0:
        return laplace
    gaussian = plan(isqrt(dimension * OFFSET**2 - 1) + 1, delta)
    return min(laplace, gaussian, key=lambda candidate: candidate.noise_variance(counts[0].name))


def cells(shares: Floats) -> tuple[Ints, Ints]:
    """Count rows, given as shares of the box, in the cells of the finest level, and add their offsets in them.

    Returns
    -------
    counts : ndarray of shape (n_cells,)
    offsets : ndarray of shape (n_columns * n_cells,)
        Sums of offsets from the middle of the cell, column by column: ``OFFSET`` is half its side.
    """
    scaled = shares.T * LEVELS[shares.shape[1]][-1]
    cells = np.minimum(scaled.astype(np.int64), LEVELS[shares.shape[1]][-1] - 1)
    return totals(cells, np.clip(np.rint((scaled - cells - 0.5) * (2 * OFFSET)), -OFFSET, OFFSET))


def totals(cells: Ints, offsets: Floats | Ints) -> tuple[Ints, Ints]:
    """Count rows in the finest cells and add their offsets, as `cells` does.

    Parameters
    ----------
    cells, offsets : ndarray of shape (n_columns, n_rows)
        The cell of each row along each axis, and the place of the row in it.
    """
    dimension, n = len(cells), LEVELS[len(cells)][-1]
    codes = cells[0]
    for column in cells[1:]:
        codes = codes * n + column
    sums = [sum_by(codes, column, n**dimension) for column in offsets]
    return count_by(codes, n**dimension), np.concatenate(sums)


def offsets_of(owners: Ints, occupied: Ints, offsets: Ints, k: int, dimension: int) -> Ints:
    """Return the summed offsets of the rows of each centre, exactly, one centre after the other.

    Parameters
    ----------
    owners, occupied : ndarray of shape (n_occupied,)
        The centre of each finest cell that has rows, and the cell.
    offsets : ndarray
        As `cells` returns them.
    """
    columns = offsets.reshape(dimension, -1)[:, occupied]
    return np.column_stack([sum_by(owners, column, k) for column in columns]).reshape(-1)


def shifts(moved: Noisy, rows: Floats, count_variance: float, dimension: int) -> Floats:
    """Return how far the rows of each centre are from the middles of their cells, as shares of the box.

    Parameters
    ----------
    moved : Noisy
        Sums of offsets, of shape (k * n_columns,).
    rows : ndarray of shape (k,)
        Noisy numbers of the rows that were added.
    count_variance : float
        Of the noise of a finest count.

    Notes
    -----
    Posterior means. The prior variance of an offset is estimated over all centres from the release itself. If
    noise may explain all of it, nothing moves.
    """
    sums = (moved.values / OFFSET).reshape(-1, dimension)
    noise, most = moved.variance / OFFSET**2, 1 / 3  # an even spread over the cell has this variance
    signal = float((sums**2).sum()) - largest_energy(sums.size, noise)
    scale = float((rows**2).sum()) * dimension
    if signal <= 0 or scale <= 0:
        return np.zeros_like(sums)
    prior = min(signal / scale, most)
    means = sums * (rows / (rows**2 + count_variance + noise / prior))[:, None]
    return np.asarray(np.clip(means, -1.0, 1.0) / (2 * LEVELS[dimension][-1]))


def as_table(finest: Any, dimension: int) -> Any:
    """Return counts of the finest cells with an axis for each column."""
    return finest.reshape((LEVELS[dimension][-1],) * dimension)


def nested(finest: Any, dimension: int) -> dict[str, Any]:
    """Return the counts of every level, as sums of the finest."""
    table, n = as_table(finest, dimension), LEVELS[dimension][-1]
    return {
        name: _coarsen(table, n // m).reshape(-1)
        for name, m in zip(names(dimension), LEVELS[dimension], strict=True)
    }


def summed(finest: Noisy, dimension: int) -> dict[str, Noisy]:
    """Return noisy counts of every level, as sums of the finest."""
    n, sums = len(finest.values), nested(finest.values, dimension)
    return {name: Noisy(values, finest.variance * (n // len(values))) for name, values in sums.items()}


def centres_of(dimension: int, level: int) -> Floats:
    """Return the middle of each cell of a level, as shares of the box."""
    n = LEVELS[dimension][level]
    return np.asarray((np.indices((n,) * dimension).reshape(dimension, -1).T + 0.5) / n)


def weighted_points(
    counts: Sequence[Floats], variances: Sequence[float], dimension: int
) -> tuple[Floats, Floats, Floats]:
    """Return points, as shares of the box, with positive weights that describe where rows are.

    Parameters
    ----------
    counts, variances
        Noisy counts per level, coarse to fine, and the variance of their noise.

    Returns
    -------
    points, weights, sizes : ndarray
        The middle, the mass and the side of every cell that was not divided further.

    Notes
    -----
    Post-processing. Each count is first averaged with the sum of the finer counts inside it, weighted by
    precision [1]_. From the top down, the count of a cell is then divided over its children. Their noisy
    counts are projected on the simplex of non-negative numbers with that sum, which makes empty cells exactly
    zero. A cell whose count does not exceed twice the noise of one child is not divided. On the coarsest
    level deviations from equal counts are shrunk by the share of noise in them (James-Stein). So noise alone
    gives a flat box, and a cell that looks empty keeps a part of what its noise may hide.

    References
    ----------
    .. [1] Hay, Rastogi, Miklau, Suciu, "Boosting the Accuracy of Differentially Private Histograms Through
       Consistency", VLDB 2010.
    """
    levels = LEVELS[dimension]
    best, spread = consistent(counts, variances, dimension)
    mass = np.maximum(_top(best[0].reshape(-1), spread[0]), _HIDDEN * sqrt(spread[0]))
    open_cells = np.arange(len(mass))
    points, weights = [], []
    for i, n in enumerate(levels):
        divided = np.zeros(len(mass), dtype=np.bool_)
        if i + 1 < len(levels):
            divided = mass > _DIVIDED * sqrt(spread[i + 1])
        kept = ~divided & (mass > 0)
        points.append(middles(open_cells[kept], n, dimension))
        weights.append(mass[kept])
        if i + 1 == len(levels):
            break
        open_cells = children(open_cells[divided], n, levels[i + 1] // n, dimension)
        inside = best[i + 1].reshape(-1)[open_cells]
        mass = _simplex(inside, mass[divided]).reshape(-1)
        open_cells = open_cells.reshape(-1)
    sizes = np.repeat([1 / n for n in levels], [len(p) for p in points])
    return np.concatenate(points), np.concatenate(weights), sizes


def divided(points: Floats, weights: Floats, sizes: Floats, least: int) -> tuple[Floats, Floats]:
    """Divide every point evenly over its cell: once when that leaves few points, and until there are `least`."""
    dimension = points.shape[1]
    corners = np.indices((2,) * dimension).reshape(dimension, -1).T - 0.5
    again = len(points) * len(corners) <= _POINTS
    while again or len(points) < least:
        points = (points[:, None, :] + corners[None] * (sizes / 2)[:, None, None]).reshape(-1, dimension)
        weights = np.repeat(weights / len(corners), len(corners))
        sizes = np.repeat(sizes / 2, len(corners))
        again = False
    return points, weights


def consistent(
    counts: Sequence[Floats], variances: Sequence[float], dimension: int
) -> tuple[list[Any], list[float]]:
    """Return each count averaged with the sum of the finer counts inside it, and the variances of their noise."""
    levels = LEVELS[dimension]
    best = [
        np.asarray(c, dtype=np.float64).reshape((n,) * dimension) for c, n in zip(counts, levels, strict=True)
    ]
    spread = list(variances)
    for i in range(len(levels) - 2, -1, -1):
        ratio = levels[i + 1] // levels[i]
        finer = ratio**dimension * spread[i + 1]
        own = finer / (finer + spread[i])
        best[i] = own * best[i] + (1 - own) * _coarsen(best[i + 1], ratio)
        spread[i] = own * spread[i]
    return best, spread


def _coarsen(table: Any, ratio: int) -> Any:
    shape = [part for n in table.shape for part in (n // ratio, ratio)]
    return table.reshape(shape).sum(axis=tuple(range(1, 2 * table.ndim, 2)))


def _top(counts: Floats, variance: float) -> Floats:
    """Return the masses of the coarsest cells: non-negative, with a positive sum.

    Notes
    -----
    Only what exceeds the largest energy of noise is signal: noise alone makes the box flat in 99 of 100 releases.
    """
    m = len(counts)
    total = max(float(counts.sum()), 2 * sqrt(m * variance))
    deviations = counts - counts.mean()
    length = energy(counts)
    signal = max(0.0, 1 - largest_energy(m, variance) / length) if length > 0 else 0.0
    masses: Floats = _simplex((total / m + signal * deviations)[None, :], np.asarray([total]))[0]
    return masses


def energy(counts: Floats) -> float:
    """Return the sum of squared deviations from equal counts."""
    return float(((counts - counts.mean()) ** 2).sum())


def largest_energy(m: int, variance: float) -> float:
    """Return the energy of m Laplace values that is three of its standard deviations above its mean.

    Its mean is ``m * variance``, its standard deviation ``variance * sqrt(5 m)``.
    """
    return (m + 3 * sqrt(5 * m)) * variance


def _simplex(values: Floats, totals: Floats) -> Floats:
    """Project each row of `values` on the non-negative numbers with the sum in `totals`."""
    ordered = -np.sort(-values, axis=1)
    excess = ordered.cumsum(axis=1) - totals[:, None]
    rank = np.arange(1, values.shape[1] + 1)
    last = np.maximum((ordered * rank > excess).sum(axis=1), 1)
    shift = excess[np.arange(len(values)), last - 1] / last
    return np.asarray(np.maximum(values - shift[:, None], 0.0))


def middles(codes: Ints, n: int, dimension: int) -> Floats:
    """Return the middle of some cells of a level with n cells per axis, as shares of the box."""
    axes = np.unravel_index(codes, (n,) * dimension)
    return np.asarray((np.column_stack(axes) + 0.5) / n)


def children(codes: Ints, n: int, ratio: int, dimension: int) -> Ints:
    """Return the codes, on the next level, of the cells inside some cells; one row each."""
    corner = np.column_stack(np.unravel_index(codes, (n,) * dimension)).reshape(-1, dimension) * ratio
    steps = np.indices((ratio,) * dimension).reshape(dimension, -1).T
    axes = np.moveaxis(corner[:, None, :] + steps[None, :, :], -1, 0)
    return np.asarray(np.ravel_multi_index(tuple(axes), (n * ratio,) * dimension), dtype=np.int64)
