"""Noise of a report: its scale and its variance, in units of the grid."""

from fractions import Fraction
from math import exp, isqrt, log, sinh, sqrt
from typing import Literal

from ptklib.accounting import discrete_scale, gaussian_multiplier
from ptklib.arrays import Ints
from ptklib.mechanisms.additive import check_scale, gaussian, laplace, laplace_scale

Clip = Literal["l1", "l2", "coordinate"]
Noise = Literal["laplace", "gaussian"]


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


def noise_quantile(noise: Noise, scale: float, n_weights: int, chance: float) -> float:
    """Return what no entry of a noise vector exceeds in absolute value, but for a chance of at most `chance`."""
    if noise == "laplace":
        return scale * log(2 * n_weights / ((1 + exp(-1 / scale)) * chance))
    return scale * sqrt(2 * log(2 * n_weights / chance))


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
