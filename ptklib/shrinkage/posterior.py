"""Posterior means of deviations from a mean that is known, and shares that are made of them."""

import numpy as np

from ptklib.arrays import Floats


def prior_variance(
    deviations: Floats, sizes: Floats, noise: Floats | float, size_noise: float, most: float
) -> float:
    """Estimate how much group means differ, from sums of deviations from the common mean.

    Parameters
    ----------
    deviations, sizes : ndarray of shape (n_groups,)
        Noisy.
    noise, size_noise : float
        Variances of the noise in both; that of deviations may be one for each group.

    Notes
    -----
    A sum of deviations has expected square ``n**2 * tau**2 + noise`` and a noisy size ``n**2 + size_noise``;
    the ratio of both, summed over groups and freed of noise, estimates tau**2. It is kept within
    ``[most / 10**4, most]``, where `most` is the variance of a mean that is uniform over its bounds.
    """
    signal = float(np.sum(deviations**2 - noise))
    scale = float(np.sum(sizes**2 - size_noise))
    floor = most * 1e-4
    if signal <= 0 or scale <= 0:
        return floor
    return float(np.clip(signal / scale, floor, most))


def shrunken_deviation(deviations: Floats, sizes: Floats, noise: Floats | float, prior: float) -> Floats:
    """Return the posterior mean of each group's deviation: ``S / n`` for large groups, near 0 for small."""
    n = np.maximum(sizes, 0.0)
    return np.asarray(n * deviations / (n * n + noise / prior), dtype=np.float64)


def clipped_shares(shares: Floats) -> Floats:
    """Clip to [0, 1] and rescale to a sum of 1 along the last axis."""
    clipped = np.clip(shares, 0.0, 1.0)
    total = clipped.sum(axis=-1, keepdims=True)
    return np.where(total > 0, clipped / np.where(total > 0, total, 1.0), 1 / clipped.shape[-1])
