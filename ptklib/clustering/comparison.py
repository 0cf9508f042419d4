"""Comparison of two sets of centres by noisy grid counts alone (post-processing)."""

from collections.abc import Callable, Sequence
from math import exp, sqrt

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.clustering.grid import LEVELS, children, consistent, energy, largest_energy, middles

_SURE = 4.0
"""Standard deviations of noise by which centres must bring rows nearer than centres without data do."""

_CLEAR = 2.0
"""How many times the largest energy of noise the coarsest counts must have before all of them are used."""

_FALSE_ALARM = 1e-6
"""Probability that noise alone makes any count of a level stand out."""

_FALSE_SHARE = 0.1
"""Largest expected share of noise among the counts that stand out."""


def nearer(
    counts: Sequence[Floats],
    variances: Sequence[float],
    dimension: int,
    gain: Callable[[Floats], Floats],
) -> bool:
    """Return whether rows are nearer to some centres than to others, by more than noise may explain.

    Parameters
    ----------
    counts, variances
        As in `ptklib.clustering.grid.weighted_points`.
    gain : callable
        By how much the squared distance of each of some points, given as shares of the box, is smaller.

    Notes
    -----
    Post-processing: an estimate of the summed gain of all rows, in standard deviations of its own noise. The
    estimate starts from rows spread evenly over the box. On each level, a count that exceeds the noise moves
    rows into its cell, from the other cells of the same parent. So clusters narrower than the coarsest cells
    are judged where they are.

    The centres come from the same counts. If these are mostly noise, the centres are where the noise is, and
    the estimate would say that they fit. So only counts that noise is unlikely to produce take part. The
    coarsest level takes part as a whole when its energy is clear. Its deviation then includes every cell,
    also those that look empty: centres that leave much of the box far away must gain much elsewhere.
    """
    best, spread = consistent(counts, variances, dimension)
    tables = [table.reshape(-1) for table in best]
    levels = LEVELS[dimension]
    gains = gain(middles(np.arange(levels[1] ** dimension), levels[1], dimension))
    inner = children(np.arange(levels[0] ** dimension), levels[0], levels[1] // levels[0], dimension)
    coarse = gains[inner].mean(axis=1)[None, :]
    clear = standing_out(tables[0][None, :], spread[0])
    if energy(tables[0]) > _CLEAR * largest_energy(len(tables[0]), spread[0]):
        clear[:] = True
    usual = float(coarse.mean())
    moved, variance = _moved(tables[0][None, :], coarse, clear, spread[0])
    total = max(float(tables[0].sum()), 0.0) * usual + moved
    variance += len(tables[0]) * spread[0] * usual**2
    any_clear = bool(clear.any())
    for i in range(1, len(levels)):
        ratio = levels[i] // levels[i - 1]
        family = children(np.arange(levels[i - 1] ** dimension), levels[i - 1], ratio, dimension)
        clear = standing_out(tables[i][family], spread[i])
        parents = np.flatnonzero(clear.any(axis=1))
        if not len(parents):
            continue
        any_clear, family = True, family[parents]
        if i == 1:
            there = gains[family]
        else:
            there = gain(middles(family.reshape(-1), levels[i], dimension)).reshape(family.shape)
        moved, noise = _moved(tables[i][family], there, clear[parents], spread[i])
        total, variance = total + moved, variance + noise
    return any_clear and total > _SURE * sqrt(variance)


def standing_out(families: Floats, variance: float) -> Bools:
    """Return which of some noisy counts exceed their siblings by more than noise may explain.

    Parameters
    ----------
    families : ndarray of shape (n_parents, n_children)
        Noisy counts; the cells of one row have one parent.
    variance : float
        Of their noise.

    Notes
    -----
    Let m be the number of counts that noise alone is expected to bring as high as the j-th largest excess. Noise
    alone brings j counts there with probability at most ``(exp(1) * m / j) ** j`` (Poisson tail). The rule takes the
    largest j for which this is below the false alarm and m is a small share of j. The tail of the noise is taken as
    Laplace; Gaussian noise and averages have a lighter one.
    """
    excess = (families - families.mean(axis=1, keepdims=True)).reshape(-1)
    order = np.argsort(-excess, kind="stable")
    order = order[excess[order] > 0]
    ranks = np.arange(1, len(order) + 1)
    expected = len(excess) / 2 * np.exp(-excess[order] * sqrt(2 / variance))
    allowed = np.minimum(_FALSE_SHARE * ranks, ranks / exp(1) * _FALSE_ALARM ** (1 / ranks))
    passed = np.flatnonzero(expected <= allowed)
    clear = np.zeros(len(excess), dtype=np.bool_)
    if len(passed):
        clear[order[: passed[-1] + 1]] = True
    return clear.reshape(families.shape)


def _moved(counts: Floats, gains: Floats, used: Bools, variance: float) -> tuple[float, float]:
    """Return what the gain changes by when counts replace an even spread over their parents, and its variance.

    Parameters
    ----------
    counts, gains, used : ndarray of shape (n_parents, n_children)
        Noisy counts, mean gains of the cells, and which counts are used.
    """
    differences = np.where(used, gains - gains.mean(axis=1, keepdims=True), 0.0)
    sums, others = differences.sum(axis=1), (~used).sum(axis=1)
    rest = np.where(used, 0.0, counts).sum(axis=1) / np.maximum(others, 1)
    moved = float((differences * (counts - rest[:, None])).sum())
    return moved, variance * float((differences**2).sum() + (sums**2 / np.maximum(others, 1)).sum())
