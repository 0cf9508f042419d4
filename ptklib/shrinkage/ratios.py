"""Noisy sums over noisy sizes: the remainder after a guess, and the unions of groups."""

import math
from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Floats


@dataclass(frozen=True, eq=False)
class NoisyRatios:
    """Noisy sums of bounded numbers over the noisy sizes of groups."""

    sums: Floats
    """Shape (n_groups, n_columns)."""
    sizes: Floats
    """Shape (n_groups,)."""
    variance: Floats
    """Of the noise of a sum, its mean over columns. Shape (n_groups,)."""
    size_variance: float
    reach: float
    """Each number added is at most this far from 0."""
    covariance: Floats
    """Of the noise of a sum and of its size. Shape (n_groups, n_columns)."""

    def without(self, guess: Floats) -> "NoisyRatios":
        """Return what a guess of each ratio, of shape (n_groups, n_columns), leaves unexplained."""
        n_columns = guess.shape[1]
        cross = np.einsum("gk,gk->g", guess, self.covariance) / n_columns
        square = np.einsum("gk,gk->g", guess, guess) / n_columns
        return NoisyRatios(
            self.sums - guess * self.sizes[:, None],
            self.sizes,
            self.variance - 2 * cross + square * self.size_variance,
            self.size_variance,
            self.reach,
            self.covariance - guess * self.size_variance,
        )

    def joined(self, shape: tuple[int, ...], kept: tuple[int, ...]) -> "NoisyRatios":
        """Return the unions of groups that agree on the axes `kept` of `shape`."""
        lost = tuple(axis for axis in range(len(shape)) if axis not in kept)
        return NoisyRatios(
            self.sums.reshape(*shape, -1).sum(axis=lost).reshape(-1, self.sums.shape[1]),
            self.sizes.reshape(shape).sum(axis=lost).reshape(-1),
            self.variance.reshape(shape).sum(axis=lost).reshape(-1),
            self.size_variance * math.prod(shape[axis] for axis in lost),
            self.reach,
            self.covariance.reshape(*shape, -1).sum(axis=lost).reshape(-1, self.sums.shape[1]),
        )
