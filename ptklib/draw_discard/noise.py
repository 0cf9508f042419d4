"""Noise of a report: its scale and its variance, in units of the grid."""

from fractions import Fraction
from math import exp, expm1, isqrt, log, log1p, sinh, sqrt
from typing import Literal

from ptklib.accounting import discrete_scale, gaussian_multiplier
from ptklib.arrays import Ints
from ptklib.mechanisms.additive import check_scale, gaussian, laplace, laplace_scale

Clip = Literal["l1", "l2", "coordinate"]
Noise = Literal["laplace", "gaussian"]

_RATES = (0.01, 0.03, 0.08, *(1 - 0.85**step for step in range(1, 40)))
"""Rates of exponential bounds, in parts of the largest: each gives a bound, and the least is used."""


def whole_distance(clip: Clip, noise: Noise, reach: int, n_weights: int) -> int | float:
    """Return how far two clipped gradients can be apart: in L1 for Laplace noise, in L2 for Gaussian noise.

    Parameters
    ----------
    clip, noise : str
    reach : int
        Longest clipped gradient, or largest entry of one, in units of the grid.
    n_weights : int

    Notes
    -----
    docs/proofs/draw_discard.md, "Distance". A whole number where it can be one.
    """
    if noise == "laplace":
        if clip == "l1":
            return 2 * reach
        return isqrt(4 * reach * reach * n_weights) if clip == "l2" else 2 * reach * n_weights
    return 2 * reach * sqrt(n_weights) * (1 + 2**-50) if clip == "coordinate" else 2 * reach


def promised_distance(clip: Clip, noise: Noise, reach: int, n_weights: int) -> int:
    """Return the distance that `epsilon` of a specification is promised for: of one weight for ``"coordinate"``."""
    return 2 * reach if clip == "coordinate" else int(whole_distance(clip, noise, reach, n_weights))


def noise_scale(noise: Noise, distance: int, epsilon: float, delta: float) -> float:
    """Return the scale of noise that hides integer vectors at most `distance` apart."""
    if noise == "laplace":
        return laplace_scale(l1_sensitivity=distance, epsilon=epsilon)
    return check_scale(discrete_scale(gaussian_multiplier(epsilon, delta) * distance))


def noise_variance(noise: Noise, scale: float) -> float:
    """Return the variance of noise; that of the discrete Gaussian is its scale squared or less."""
    return 1 / (2 * sinh(1 / (2 * scale)) ** 2) if noise == "laplace" else scale * scale


def noise_quantile(noise: Noise, scale: float, n_weights: int, chance: float, n_reports: int = 1) -> float:
    """Return what no entry of a sum of noise vectors exceeds in absolute value, but for a chance of at most `chance`.

    Parameters
    ----------
    noise, scale
        Of each vector.
    n_weights : int
    chance : float
    n_reports : int, default 1
        How many vectors are added.

    Notes
    -----
    docs/proofs/draw_discard.md, "Spam".
    """
    if noise == "gaussian":
        return scale * sqrt(2 * n_reports * log(2 * n_weights / chance))
    if n_reports == 1:
        return scale * log(2 * n_weights / ((1 + exp(-1 / scale)) * chance))
    wanted = log(2 * n_weights / chance)
    return min((wanted + n_reports * _cumulant(rate / scale, scale)) / (rate / scale) for rate in _RATES)


def noise_norm(noise: Noise, scale: float, n_weights: int, chance: float, n_reports: int = 1) -> float:
    """Return what the L2 norm of a sum of noise vectors does not exceed, but for a chance of at most `chance`.

    Parameters
    ----------
    noise, scale, n_weights, chance, n_reports
        As for `noise_quantile`.
    """
    if noise == "gaussian":
        wanted = log(1 / chance)
        return scale * sqrt(n_reports * (n_weights + 2 * sqrt(n_weights * wanted) + 2 * wanted))
    most = noise_quantile(noise, scale, n_weights, chance / 2, n_reports) ** 2
    variance, q = noise_variance(noise, scale), exp(-1 / scale)
    fourth = 2 * q * (1 + 10 * q + q * q) / expm1(-1 / scale) ** 4
    fourth = n_reports * fourth + 3 * n_reports * (n_reports - 1) * variance * variance
    part = most * log(2 / chance) / 3
    return sqrt(
        n_weights * n_reports * variance + part + sqrt(part * part + 2 * n_weights * fourth * log(2 / chance))
    )


def _cumulant(rate: float, scale: float) -> float:
    """Return the logarithm of the mean of exp(rate * n), for discrete Laplace noise and a rate below 1 / scale."""
    q = exp(-1 / scale)
    return 2 * log(-expm1(-1 / scale)) - log(-expm1(rate - 1 / scale)) - log1p(-q * exp(-rate))


def with_noise(units: Ints, noise: Noise, *, distance: int, scale: float, epsilon: float | Fraction) -> Ints:
    """Add noise to integers.

    Parameters
    ----------
    units : ndarray of int64
    noise : str
    distance : int
        As for `noise_scale`; the scale of Laplace noise is computed from it.
    scale : float
        From `noise_scale`.
    epsilon : float
    """
    if noise == "laplace":
        return laplace(units, l1_sensitivity=distance, epsilon=epsilon)
    return gaussian(units, scale=scale)
