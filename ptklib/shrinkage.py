"""Noise-aware reading of noisy sums: small groups lean on what all groups say (post-processing only)."""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STANDS_OUT = 1.06
"""Times ln(groups), in standard deviations of a count: 1.5 Laplace scales, where 1 has one empty group in two."""


def prior_variance(
    deviations: Floats, sizes: Floats, noise: Floats | float, size_noise: float, most: float
) -> float:
    """Estimate how much group means differ, from sums of deviations from the common mean.

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


def common_mean(
    sums: Floats, counts: Floats, sum_variance: float, count_variance: float, half_width: float
) -> tuple[float, float]:
    """Estimate the mean of all groups and how much group means differ, from noisy centred sums and counts.

    Parameters
    ----------
    half_width : float
        Sums are of distances from the midpoint, at most this much each.

    Returns
    -------
    common : float
        Mean of all groups as a distance from the midpoint.
    prior : float
        Variance of group means around it.

    Notes
    -----
    A group of n rows has a sum ``n (common + d) + noise`` with a deviation d of variance `prior`. Two means are at
    hand: that of all groups, whose noise grows with the size of the domain, and that of the groups whose
    count stands out so far that hardly any empty group of the domain does, weighted by
    ``n / (n**2 prior + noise)``; the one of less estimated variance is taken, and drawn to the midpoint as far as it is
    uncertain. `prior` solves its likelihood equation on the groups that stand out: among the others the noise of a
    count moves size and deviation together. The two equations are solved in turns.
    """
    most = half_width * half_width / 3
    least = _STANDS_OUT * math.sqrt(count_variance) * math.log(max(len(counts), 2))
    big = np.where(counts > least, counts, 0.0)
    squares = np.maximum(big * big - count_variance, 0.0) * (big > 0)
    common, prior = 0.0, prior_variance(sums, counts, sum_variance, count_variance, most)
    for _ in range(6):
        noise = sum_variance + common * common * count_variance
        everyone = (
            float(sums.sum()),
            float(counts.sum()),
            len(counts) * noise + float(squares.sum()) * prior,
        )
        spread = big * big * prior + noise
        weights = big / spread
        chosen = (float(weights @ sums), float(weights @ counts), float(weights * weights @ spread))
        estimates = [(v / n**2, s / n) for s, n, v in (everyone, chosen) if n > 0]
        uncertainty, mean = min(estimates, default=(1.0, 0.0))
        common = float(np.clip(mean / (1 + uncertainty / most), -half_width, half_width))
        noise = sum_variance + common * common * count_variance
        deviations = sums - common * counts
        if not squares.any():
            prior = prior_variance(deviations, counts, noise, count_variance, most)
            continue
        weights = squares / (squares * prior + noise) ** 2
        likely = float(weights @ (deviations**2 - noise)) / float(weights @ squares)
        prior = float(np.clip(likely, most * 1e-4, most))
    return common, prior


def shrunken_deviation(deviations: Floats, sizes: Floats, noise: Floats | float, prior: float) -> Floats:
    """Return the posterior mean of each group's deviation: ``S / n`` for large groups, near 0 for small."""
    n = np.maximum(sizes, 0.0)
    return np.asarray(n * deviations / (n * n + noise / prior), dtype=np.float64)
