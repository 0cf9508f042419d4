"""Goodness-of-fit tests and an empirical epsilon with stated error rates."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

FALSE_ALARM = 1e-6
"""An honest mechanism fails a test of this room once in a million runs."""

Ints = npt.NDArray[np.int64]


def discrete_laplace_pvalue(noise: Ints, scale: float) -> float:
    """Chi-squared test that `noise` is discrete Laplace of `scale` with independent cells."""
    return _chi_squared(noise, lambda x: _laplace_cdf(x, scale), scale)


def discrete_gaussian_pvalue(noise: Ints, scale: float) -> float:
    """Chi-squared test that `noise` is discrete Gaussian of parameter `scale`."""
    support = np.arange(-int(12 * scale) - 12, int(12 * scale) + 13)
    mass = np.exp(-(support**2) / (2 * scale * scale))
    cumulative = np.cumsum(mass / mass.sum())

    def cdf(x: npt.NDArray[np.float64]) -> Any:
        return cumulative[np.clip(np.floor(x).astype(int) - support[0], 0, len(support) - 1)]

    return _chi_squared(noise, cdf, scale)


def fine_laplace_pvalue(noise: npt.NDArray[np.float64], scale: float) -> float:
    """Kolmogorov-Smirnov test against continuous Laplace, for noise on a fine grid."""
    return float(stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue)


def empirical_epsilon(with_row: npt.NDArray[np.float64], without: npt.NDArray[np.float64]) -> float:
    """Return a lower bound of epsilon from independent outputs on neighbouring datasets.

    Thresholds are chosen on one half of the outputs and tested on the other; each Clopper-Pearson bound holds
    with probability 1 - FALSE_ALARM / 8 (two bounds, two directions, two tails), stricter than 99.9 %.
    """
    half = len(with_row) // 2
    best = 0.0
    for a, b in ((with_row, without), (without, with_row)):
        for sign in (1.0, -1.0):
            x, y = sign * a, sign * b
            cuts = np.quantile(np.concatenate([x[:half], y[:half]]), np.linspace(0.02, 0.98, 49))
            bounds = [_log_ratio(np.sum(x[:half] > c), np.sum(y[:half] > c), half) for c in cuts]
            cut = cuts[int(np.argmax(bounds))]
            best = max(best, _log_ratio(np.sum(x[half:] > cut), np.sum(y[half:] > cut), len(x) - half))
    return best


def _log_ratio(hits: int, misses: int, n: int) -> float:
    """Return a lower bound of ln(p / q) from binomial counts."""
    level = FALSE_ALARM / 8
    low = stats.beta.ppf(level, hits, n - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - level, misses + 1, n - misses) if misses < n else 1.0
    return float(np.log(low / high)) if low > 0 else -np.inf


def _laplace_cdf(x: npt.NDArray[np.float64], scale: float) -> Any:
    q, k = np.exp(-1 / scale), np.floor(x)
    return np.where(k < 0, q ** np.abs(k) / (1 + q), 1 - q ** (np.abs(k) + 1) / (1 + q))


def _chi_squared(noise: Ints, cdf: Any, scale: float) -> float:
    edges = np.unique(np.round(max(scale, 1.0) * np.linspace(-3.5, 3.5, 29)))
    expected = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]])) * len(noise)
    observed = np.bincount(np.searchsorted(edges, noise), minlength=len(edges) + 1)
    kept = expected > 5
    observed = np.append(observed[kept], observed[~kept].sum())
    expected = np.append(expected[kept], expected[~kept].sum())
    if expected[-1] < 5:
        observed = np.append(observed[:-2], observed[-2:].sum())
        expected = np.append(expected[:-2], expected[-2:].sum())
    assert len(expected) > 1, "one bin accepts anything"
    return float(stats.chisquare(observed, expected).pvalue)
