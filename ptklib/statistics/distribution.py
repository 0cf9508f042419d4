"""Shares and quantiles from noisy bins (post-processing only)."""

import math
from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Floats
from ptklib.shrinkage import NoisyRatios, shrunken_ratios
from ptklib.statistics.binning import Binning


@dataclass(frozen=True, eq=False)
class NoisyBins:
    """Noisy bins of each group, made consistent with its noisy count."""

    bins: Binning
    counts: Floats
    """Sums of a row are `totals`. Shape (n_groups, n_bins)."""
    totals: Floats
    """Shape (n_groups,)."""
    node_variance: float
    """Of each released node of the bins."""
    total_variance: float

    @classmethod
    def of(
        cls, bins: Binning, counts: Floats, node_variance: float, count: Floats, count_variance: float
    ) -> "NoisyBins":
        """Join bins and counts by the inverse variances of the two totals they give.

        Parameters
        ----------
        counts : ndarray of shape (n_groups, n_nodes)
        node_variance : float
            Of the noise in one of them.
        count, count_variance : ndarray of shape (n_groups,), float
            Noisy totals of the groups.

        Notes
        -----
        With equally noisy bins the least squares estimate moves each bin by the same part of the difference.
        """
        own, own_variance = counts.sum(axis=1), bins.total_variance(node_variance)
        weight = own_variance / (own_variance + count_variance)
        totals = own + weight * (count - own)
        even = counts + ((totals - own) / bins.n_bins)[:, None]
        return cls(bins, even, totals, node_variance, weight * count_variance)

    def shares(self, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return the share of each bin, of shape (n_groups, n_bins), and of groups without rows.

        Notes
        -----
        Columns are deviations from equal shares, so that their noise does not depend on that of the totals.
        """
        n_bins = self.bins.n_bins
        noise = float(self.bins.bin_variance(self.node_variance).mean())
        sums = self.counts - (self.totals / n_bins)[:, None]
        ratios, overall = self._shrunken(sums, noise, shape)
        return _simplex(ratios + 1 / n_bins), _simplex(overall + 1 / n_bins)

    def quantiles(self, orders: tuple[float, ...], shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return the quantiles of each group, of shape (n_groups, n_orders), and of groups without rows."""
        n_bins = self.bins.n_bins
        even = np.arange(1, n_bins) / n_bins
        sums = np.cumsum(self.counts, axis=1)[:, :-1] - even * self.totals[:, None]
        noise = self.bins.prefix_variance * self.node_variance
        ratios, overall = self._shrunken(sums, noise, shape)
        below = _rising(np.vstack([ratios, overall]) + even)
        shares = np.diff(below, axis=1, prepend=0.0, append=1.0)
        values = inverted(shares, self.bins.edges, orders)
        return values[:-1], values[-1]

    def _shrunken(self, sums: Floats, noise: float, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        variance, covariance = np.full(math.prod(shape), noise), np.zeros_like(sums)
        ratios = NoisyRatios(sums, self.totals, variance, self.total_variance, 1.0, covariance)
        return shrunken_ratios(ratios, shape)


def inverted(shares: Floats, edges: Floats, orders: tuple[float, ...]) -> Floats:
    """Return where the cumulated shares of each row reach the orders, rows being uniform within a bin."""
    below = np.zeros((len(shares), len(edges)))
    np.cumsum(shares, axis=1, out=below[:, 1:])
    below[:, -1] = 1.0
    rows, quantiles = np.arange(len(below)), np.empty((len(below), len(orders)))
    for place, order in enumerate(orders):
        upper = np.maximum(np.argmax(below >= order, axis=1), 1)
        low, high = below[rows, upper - 1], below[rows, upper]
        part = np.divide(order - low, high - low, out=np.zeros_like(low), where=high > low)
        left, right = edges[upper - 1], edges[upper]
        quantiles[:, place] = np.clip(left + part * (right - left), left, right)
    return quantiles


def _rising(below: Floats) -> Floats:
    """Return rows between 0 and 1 that do not fall, half way between the highest so far and the lowest to come."""
    inner = np.clip(below, 0.0, 1.0)
    highest = np.maximum.accumulate(inner, axis=1)
    lowest = np.minimum.accumulate(inner[:, ::-1], axis=1)[:, ::-1]
    return np.asarray((highest + lowest) / 2)


def _simplex(shares: Floats) -> Floats:
    """Return the nearest shares that are at least 0 and add up to 1, along the last axis.

    Notes
    -----
    The projection subtracts one number from all shares and cuts at 0. So bins with noise only are emptied,
    while cutting and rescaling would leave the upper half of their noise.
    """
    falling = -np.sort(-shares, axis=-1)
    excess = (np.cumsum(falling, axis=-1) - 1) / np.arange(1, shares.shape[-1] + 1)
    last = np.sum(falling > excess, axis=-1, keepdims=True) - 1
    positive = np.maximum(shares - np.take_along_axis(excess, last, axis=-1), 0.0)
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))
