"""Discrete Laplace and discrete Gaussian noise on integer vectors."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from ptklib.arrays import Ints
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms import vectorised
from ptklib.mechanisms.recording import note
from ptklib.scalars import finite_number, is_integer, positive_fraction

SCALE_MIN = 0.05
"""OpenDP accepts scale 0 and 1e-9 and then returns its input; epsilon <= 10 never needs a smaller scale."""

SCALE_MAX = 2.0**55
"""Noise beyond 2**62 has probability below exp(-128); OpenDP saturates there, which is post-processing."""

VECTOR_MIN = 16
SHORT_SCALE = 128.0
"""OpenDP adds noise to vectors of up to so many values at scales below this; all others get our own exact sampler.
OpenDP takes 200 microseconds and 5 to 16 for each value, ours 40 to 120 in all. Ours makes a table for each new scale
below 256, which takes up to a millisecond; importing OpenDP takes seconds."""

_SUM_MAX = 2**62

_AHEAD = 2**12
"""Values of noise that are drawn before they are needed."""


def laplace_scale(*, l1_sensitivity: int, epsilon: float | Fraction) -> float:
    """Return the least float64 scale of discrete Laplace noise that promises `epsilon`.

    Notes
    -----
    The mechanism loses exactly ``l1_sensitivity / scale``. The comparison is made on fractions, so rounding
    can only make the scale larger.
    """
    sensitivity = positive_integer(l1_sensitivity, "l1_sensitivity")
    wanted = positive_fraction(epsilon, "epsilon")
    scale = float(sensitivity / wanted)
    while Fraction(scale) * wanted < sensitivity:
        scale = math.nextafter(scale, math.inf)
    return check_scale(scale)


def laplace(units: Ints, *, l1_sensitivity: int, epsilon: float | Fraction) -> Ints:
    """Add discrete Laplace noise to each entry.

    Notes
    -----
    :Guarantee: epsilon-DP for the whole vector.
    :Neighbours: vectors at L1 distance ``l1_sensitivity`` or less.
    :Mechanism: discrete Laplace by an exact sampler: `vectorised`, or OpenDP's for few values of a small scale.
    """
    scale = laplace_scale(l1_sensitivity=l1_sensitivity, epsilon=epsilon)
    note("DiscreteLaplace", scale, np.size(units))
    return _noised(units, scale, _laplace_measurement, vectorised.discrete_laplace)


def gaussian(units: Ints, *, scale: float) -> Ints:
    """Add discrete Gaussian noise of parameter `scale` (its standard deviation) to each entry.

    Notes
    -----
    :Guarantee: ``(l2 / scale)**2 / 2``-zCDP at any scale, and that of the analytic Gaussian at the scale of
        ``ptklib.accounting.discrete_scale``.
    :Neighbours: vectors at L2 distance ``l2`` or less.
    :Mechanism: discrete Gaussian by an exact sampler: `vectorised`, or OpenDP's for few values of a small scale.
    """
    checked = check_scale(finite_number(scale, "scale"))
    note("DiscreteGaussian", checked, np.size(units))
    return _noised(units, checked, _gaussian_measurement, vectorised.discrete_gaussian)


def gaussian_steps(*, scale: float, size: int) -> Callable[[Ints], Ints]:
    """Return what adds discrete Gaussian noise to one vector of `size` integers after another, as `gaussian` does.

    Notes
    -----
    :Guarantee: that of `gaussian` for each vector. Noise is independent of what it is added to, so it may be drawn
        before: some thousand values in one go, at a fraction of the time. No value is used twice.
    """
    checked = check_scale(finite_number(scale, "scale"))
    ahead = max(_AHEAD // max(size, 1), 1)
    kept: list[Ints] = []

    def next_noise(_: float, n: int) -> Ints:
        if not kept:
            kept.extend(vectorised.discrete_gaussian(checked, ahead * n).reshape(ahead, n))
        return kept.pop()

    def step(units: Ints) -> Ints:
        if np.size(units) != size:
            raise ValueError(f"noise is for vectors of {size} integers")
        note("DiscreteGaussian", checked, size)
        return _noised(units, checked, _gaussian_measurement, next_noise)

    return step


def _noised(
    units: Ints,
    scale: float,
    measurement: Callable[[float], Any],
    sampler: Callable[[float, int], Ints],
) -> Ints:
    exact = np.asarray(units)
    if exact.dtype != np.int64:
        raise TypeError(f"noise is added to int64 arrays, not {exact.dtype}")
    flat = np.clip(exact.reshape(-1), -_SUM_MAX, _SUM_MAX)
    short = flat.size <= VECTOR_MIN and scale < SHORT_SCALE
    if short or scale > vectorised.SCALE_MAX:  # size and scale are public
        noisy = np.asarray(measurement(scale)(np.ascontiguousarray(flat)), dtype=np.int64)
    else:
        noisy = sampler(scale, flat.size)
        noisy += flat
    return noisy.reshape(exact.shape)


def positive_integer(value: object, name: str) -> int:
    """Return `value` when it is a positive integer."""
    if not is_integer(value) or value < 1:
        raise PrivacyParameterError(f"{name} must be a positive integer")
    return int(value)


def check_scale(scale: float) -> float:
    """Return a scale that noise can be drawn at."""
    if not SCALE_MIN <= scale <= SCALE_MAX:
        raise PrivacyParameterError(f"a noise scale must be in [{SCALE_MIN:g}, 2**55]")
    return scale


@cache
def opendp() -> ModuleType:
    """Return OpenDP's prelude."""
    import opendp.prelude as prelude  # takes seconds, so only who draws noise pays for it

    prelude.enable_features("contrib")
    return prelude


@lru_cache(maxsize=64)
def _laplace_measurement(scale: float) -> Any:
    dp = opendp()
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)


@lru_cache(maxsize=64)
def _gaussian_measurement(scale: float) -> Any:
    dp = opendp()
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale)
