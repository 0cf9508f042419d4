"""Goodness-of-fit tests and an empirical epsilon with stated error rates."""

from itertools import product
from typing import Any

import numpy as np
from scipy import stats

from ptklib import PrivacyLoss
from ptklib.arrays import Floats, Ints
from ptklib.checks import epsilon_lower_bound

FALSE_ALARM = 1e-8
"""An honest mechanism fails one assertion of this room once in 10**8 runs, and all some 200 of them once in 10**5.

What must be rejected lies five standard deviations or more beyond: docs/proofs/audits.md lists what was computed.
"""

LEAST_EXPECTED = 100
"""Draws in a cell of a chi-squared test: with few, its tail is heavier than it says."""


def discrete_laplace_pvalue(noise: Ints, scale: float) -> float:
    """Chi-squared test that `noise` is discrete Laplace of `scale` with independent cells."""
    return _chi_squared(noise, lambda x: _laplace_cdf(x, scale), scale)


def discrete_gaussian_pvalue(noise: Ints, scale: float) -> float:
    """Chi-squared test that `noise` is discrete Gaussian of parameter `scale`."""
    support = np.arange(-int(12 * scale) - 12, int(12 * scale) + 13)
    mass = np.exp(-(support**2) / (2 * scale * scale))
    cumulative = np.cumsum(mass / mass.sum())

    def cdf(x: Floats) -> Any:
        return cumulative[np.clip(np.floor(x).astype(int) - support[0], 0, len(support) - 1)]

    return _chi_squared(noise, cdf, scale)


def permute_and_flip(scores: Ints, scale: float) -> Floats:
    """Return the law of permute-and-flip: a fair choice among candidates that each passed on their own."""
    chances = np.exp((scores - scores.max()) / scale)
    law = np.zeros(len(scores))
    for passed in product((False, True), repeat=len(scores)):
        if any(passed):
            chosen = np.asarray(passed)
            law += np.where(chosen, np.where(chosen, chances, 1 - chances).prod() / chosen.sum(), 0.0)
    return law


def exponential(scores: Ints, scale: float) -> Floats:
    """Return the law of the exponential mechanism."""
    weights = np.exp((scores - scores.max()) / scale)
    return np.asarray(weights / weights.sum())


def first_above(values: Ints, threshold: int, threshold_scale: float, value_scale: float) -> Floats:
    """Return the law of the first value that AboveThreshold calls above; last, of none."""
    reach = int(40 * threshold_scale) + 5
    noise = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(noise) / threshold_scale)
    law, left = [], weights / weights.sum()
    for value in values:
        below = _laplace_cdf(threshold + noise - int(value) - 1.0, value_scale)
        law.append(float((left * (1 - below)).sum()))
        left = left * below
    return np.asarray([*law, float(left.sum())])


def law_pvalue(draws: Ints, law: Floats) -> float:
    """Chi-squared test that indices follow a law."""
    return float(stats.chisquare(np.bincount(draws, minlength=len(law)), law * len(draws)).pvalue)


def fine_laplace_pvalue(noise: Floats, scale: float) -> float:
    """Kolmogorov-Smirnov test against continuous Laplace, for noise on a fine grid."""
    return float(stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue)


def empirical_epsilon(with_row: Floats, without: Floats) -> float:
    """Return a lower bound of epsilon at delta 0 from independent outputs on neighbouring datasets.

    A coin chooses one of each two outputs; the bound is wrong with probability FALSE_ALARM at most, stricter than
    the 0.1 % of the bounds `ptklib.checks.audit` reports.
    """
    inside = np.random.default_rng().random(len(with_row)) < 0.5
    claim = PrivacyLoss(1.0, 0.0, {"name": "EpsilonDelta", "epsilon": 1.0, "delta": 0.0})
    scores = np.where(inside, with_row, without)
    return epsilon_lower_bound(scores, inside, claim, confidence=1 - FALSE_ALARM).epsilon


def _laplace_cdf(x: Floats, scale: float) -> Any:
    q, k = np.exp(-1 / scale), np.floor(x)
    return np.where(k < 0, q ** np.abs(k) / (1 + q), 1 - q ** (np.abs(k) + 1) / (1 + q))


def _chi_squared(noise: Ints, cdf: Any, scale: float) -> float:
    edges = np.unique(np.round(max(scale, 1.0) * np.linspace(-3.5, 3.5, 29)))
    expected = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]])) * len(noise)
    observed = np.bincount(np.searchsorted(edges, noise), minlength=len(edges) + 1)
    kept = expected > LEAST_EXPECTED
    observed = np.append(observed[kept], observed[~kept].sum())
    expected = np.append(expected[kept], expected[~kept].sum())
    if expected[-1] < LEAST_EXPECTED:
        observed = np.append(observed[:-2], observed[-2:].sum())
        expected = np.append(expected[:-2], expected[-2:].sum())
    assert len(expected) > 1, "one bin accepts anything"
    return float(stats.chisquare(observed, expected).pvalue)
