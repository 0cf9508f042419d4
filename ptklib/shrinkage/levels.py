"""Hierarchical shrinkage: from the parents of a group, level by level, to the group itself."""

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from ptklib.arrays import Floats
from ptklib.shrinkage.ratios import NoisyRatios
from ptklib.shrinkage.strata import Strata

_KEYS_CROSSED = 3
"""Up to so many keys every subset of them makes parents; beyond, each key alone."""


def shrunken_ratios(given: NoisyRatios, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Estimate the ratio of each group, drawing sparse groups to their parents.

    Parameters
    ----------
    shape : tuple of int
        Sizes of the domains whose product the groups are; the last key runs fastest.

    Returns
    -------
    ratios : ndarray of shape (n_groups, n_columns)
        Within `reach` of 0.
    overall : ndarray of shape (n_columns,)
        The value of a group without rows and without parents that have some.

    Notes
    -----
    Parents are the unions of groups that share some of their keys. From the largest unions to the group
    itself, each level adds a shift common to the level and a deviation ``n D / (n**2 + s)``. Here n is a
    noisy size and D the noisy sum of what the levels before leave unexplained.
    """
    guess, overall = np.zeros_like(given.sums), np.zeros(given.sums.shape[1])
    for kept in _levels(len(shape)):
        whole = len(kept) == len(shape)
        left = given.without(guess) if guess.any() else given
        level = left if whole else left.joined(shape, kept)
        shift, strength = fitted_level(level)
        deviation = _deviations(level, shift, strength) + shift
        if not whole:
            sizes = [shape[axis] if axis in kept else 1 for axis in range(len(shape))]
            spread = np.broadcast_to(deviation.reshape(*sizes, -1), (*shape, deviation.shape[1]))
            deviation = spread.reshape(guess.shape)
        guess = np.clip(guess + deviation, -given.reach, given.reach)
        overall = np.clip(overall + shift, -given.reach, given.reach)
    return guess, overall


def fitted_level(level: NoisyRatios) -> tuple[Floats, float]:
    """Return the shift of one level, and the strength with which its groups are drawn to it.

    Notes
    -----
    The strength s has the least estimated risk
    ``sum_i n_i (estimate_i - truth_i)**2``. With ``a = n**2 / (n**2 + s)`` and noise of variance v, Stein's
    unbiased estimate [1]_ is the sum over groups of ``((1 - a)**2 D**2 + (2 a - 1) v) / n``. The choices
    start at the least that bounds alone justify, which leaves groups beyond some standard deviations of the
    noise nearly as they are. So shrinking loses to the plain ratio by no more than the error of that
    estimate. If the estimate is not clear, s is the noise over the variance of the means of large groups.

    The common mean of all groups is a good shift only while sparse groups are like large ones, which places and
    people are not. The shift moves towards the one that fits the groups which are shrunk, weights
    ``(1 - a)**2 / n``, by the positive-part James-Stein factor of their difference.

    References
    ----------
    .. [1] Xie, Kou and Brown, SURE estimates for a heteroscedastic hierarchical model, JASA 2012.
    """
    strata = Strata.of(level)
    common, prior = strata.common_mean()
    shift, strength = common, strata.best_strength(common, prior)
    for _ in range(2):
        matched, uncertainty = strata.matched_shift(shift, strength)
        distance = matched - common
        square = float(distance @ distance) / len(distance)
        if square <= uncertainty:
            return common, strata.best_strength(common, prior)
        shift = common + (1 - uncertainty / square) * distance
        strength = strata.best_strength(shift, prior)
    return shift, strength


def _levels(n_keys: int) -> Iterator[tuple[int, ...]]:
    """Return which keys the groups of each level share: the fewest first, all keys last."""
    largest = n_keys if n_keys <= _KEYS_CROSSED else 2
    for length in range(1, largest):
        yield from combinations(range(n_keys), length)
    yield tuple(range(n_keys))


def _deviations(level: NoisyRatios, shift: Floats, strength: float) -> Floats:
    n = np.maximum(level.sizes, 0.0)
    if math.isinf(strength):
        return np.zeros_like(level.sums)
    factor = n / (n * n + strength)
    return np.asarray(factor[:, None] * (level.sums - shift * level.sizes[:, None]))
