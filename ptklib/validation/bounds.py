"""Confidence bounds of an expected loss from noisy sums; docs/proofs/validation.md has the proofs."""

import math
from dataclasses import dataclass
from functools import lru_cache

from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms.additive import laplace_scale
from ptklib.profiling.bounds import bernoulli_divergence
from ptklib.profiling.estimates import UNITS, LossEstimate

SAMPLING, NOISE, COUNT = 0.5, 0.45, 0.05
"""Shares of the failure probability: the sample is luckier than its law, noise hides losses, noise hides units.
They were chosen by calculation (docs/proofs/validation.md): no other shares save more than a fifth of the units."""

STEP = 1 / UNITS
"""A step of the grid of sums, in losses of 1. Rounding to it moves a mean loss by half a step at most."""

_FINEST = 2.0**-30
_CARE = 1 + 1e-9
"""What floating-point arithmetic may be wrong by, many times over."""


@dataclass(frozen=True, slots=True)
class NoisySums:
    """Sums of losses and of what is missing in each to 1, with discrete Laplace noise on each.

    Parameters
    ----------
    lost, kept : float
        In losses of 1.
    scale : float
        Of the noise of each sum, in losses of 1.
    """

    lost: float
    kept: float
    scale: float

    @classmethod
    def of(cls, sums: LossEstimate, sensitivity: int = UNITS) -> "NoisySums":
        """Return the sums of an estimate whose noise was drawn for `sensitivity` steps."""
        scale = laplace_scale(l1_sensitivity=sensitivity, epsilon=sums.epsilon)
        return cls(sums.lost / UNITS, sums.kept / UNITS, scale / UNITS)

    def swapped(self) -> "NoisySums":
        """Return the sums for the losses ``1 - l``."""
        return NoisySums(self.kept, self.lost, self.scale)


def upper_bound(sums: LossEstimate, failure: float) -> float:
    """Return a number that the expected loss exceeds with probability `failure` at most.

    Parameters
    ----------
    sums : LossEstimate
        Of losses in [0, 1] of independent units alike. Their number may be random, and small, and none.
    failure : float
        In (0, 1).

    Returns
    -------
    float
        In (0, 1]; 1 when the sums show nothing.
    """
    return upper_bound_of(NoisySums.of(sums), failure)


def lower_bound(sums: LossEstimate, failure: float) -> float:
    """Return a number that the expected loss falls below with probability `failure` at most; 0 shows nothing."""
    return 1 - upper_bound_of(NoisySums.of(sums).swapped(), failure)


def upper_bound_of(sums: NoisySums, failure: float) -> float:
    """Return `upper_bound` for sums of any noise scale.

    Notes
    -----
    Every mean loss above the bound is refuted by the sums. Means are refuted in whole intervals, from 1
    downwards, so that none is skipped.
    """
    if not 0 < failure < 1:
        raise InvalidParameterError("a failure probability must be in (0, 1)")
    refutes = _Refutation(sums, failure)
    high, width = 1.0, 0.5
    while width > _FINEST * high:
        width = min(width, high / 2)
        if refutes.all_between(high - width, high):
            high -= width
        else:
            width /= 2
    return min(high + STEP, 1.0)


class _Refutation:
    """The mean losses that the sums refute."""

    def __init__(self, sums: NoisySums, failure: float) -> None:
        self._sums, self._hidden = sums, NOISE * failure
        self._needed = math.log(1 / (SAMPLING * failure)) * _CARE
        self._missing = sums.scale * laplace_tail(1, 1, COUNT * failure) + 2 * STEP
        self._n_most = sums.lost + sums.kept + self._missing
        self._has_units = sums.lost + sums.kept - self._missing >= 1

    def all_between(self, low: float, high: float) -> bool:
        """Tell whether each mean in [low, high] is refuted."""
        if not self._has_units:
            return False  # Listing 2 has no such guard, and its bound changes sign
        noise = max(self._noise(low), self._noise(high))
        mean = (self._sums.lost + noise + high * self._missing) / self._n_most
        if mean >= low:
            return False
        return self._n_most * bernoulli_divergence(max(mean, 0.0), low) >= self._needed

    def _noise(self, mean: float) -> float:
        """Return what noise takes off ``(1 - mean) lost - mean kept``, at most."""
        return self._sums.scale * laplace_tail(1 - mean, mean, self._hidden) + STEP


@lru_cache(maxsize=4096)
def laplace_tail(first: float, second: float, failure: float) -> float:
    """Return the t that ``first * X + second * Y`` exceeds with probability `failure`.

    Parameters
    ----------
    first, second : float
        Weights, not negative, not both 0.
    failure : float
        Below 1/2.

    Notes
    -----
    X and Y are independent Laplace numbers of scale 1. For weights a > b the probability to exceed t is
    ``(a**2 exp(-t / a) - b**2 exp(-t / b)) / (2 (a**2 - b**2))``. The iteration begins above its root and falls towards
    it: each step is a function that rises, by less than half of what its argument does.
    """
    a, b = max(first, second), min(first, second)
    log = math.log(1 / (2 * failure))
    t = 2 * a * (log + 1)
    while True:
        spread = t * (a - b) / (a * b) if b > 0 else math.inf
        share = -math.expm1(-spread) / spread if spread > 0 else 1.0
        lower = a * (log + math.log1p(b * t * share / (a * (a + b))))
        if not lower < t * (1 - 1e-12):
            return t
        t = lower
