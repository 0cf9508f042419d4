"""Partition selection: noisy counts of keys nobody declared, and only those above a threshold."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ptklib.arrays import Ints
from ptklib.events import Event
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms import vectorised
from ptklib.mechanisms.additive import SCALE_MIN, laplace_scale, positive_integer
from ptklib.mechanisms.recording import note
from ptklib.scalars import finite_number

CELLS_MAX = 2**12
"""Cells of one key; the tail of their sum is computed term by term."""

_COUNT_MAX = 2**61
_THRESHOLD_MAX = 2**60
_ROUND_UP = 1.0 + 1e-6
"""float64 evaluates the tails below to about 1e-9 of their value."""


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """Noise on the counts of keys, and the threshold that a key not known before must pass; all public."""

    mechanism: Literal["ThresholdedLaplace", "ThresholdedGaussian"]
    scale: float
    """Of the noise in each cell."""
    sensitivity: int
    """One privacy unit has at most so many rows; each adds 1 to one cell of one key."""
    n_cells: int
    """Cells per key, for example classes of a label."""
    threshold: int
    """A key that is not known before is released when its noisy cells add up to more than this."""
    delta: float
    """Bound of the probability that a unit makes a key appear which no other unit has."""

    @property
    def event(self) -> Event:
        """The event of one use, for any number of keys."""
        norm = "l1_sensitivity" if self.mechanism == "ThresholdedLaplace" else "l2_sensitivity"
        return Event.of(
            {
                "name": self.mechanism,
                "scale": self.scale,
                norm: self.sensitivity,
                "threshold": self.threshold,
                "delta": self.delta,
                "shape": [self.n_cells],
            }
        )

    def draw(self, public: Ints, private: Ints) -> tuple[Ints, Ints, Ints]:
        """Return noisy counts of public keys, and of those among the private ones that pass.

        Parameters
        ----------
        public : ndarray of shape (n_public, n_cells)
            Counts of keys that were released before, zeros included.
        private : ndarray of shape (n_private, n_cells)
            Counts of the keys that rows have beside those. **Private**, their number included.

        Returns
        -------
        noisy_public : ndarray of shape (n_public, n_cells)
        noisy_passed : ndarray of shape (n_passed, n_cells)
        passed : ndarray of shape (n_passed,)
            Their places in `private`.

        Notes
        -----
        :Guarantee: (epsilon, delta)-DP with Laplace noise, epsilon being ``sensitivity / scale``;
            delta-approximate ``(sensitivity / scale)**2 / 2``-zCDP with Gaussian noise.
        :Neighbours: one privacy unit more or less; keys no row has are not drawn for, since they never pass.
        """
        sampler = (
            vectorised.discrete_laplace
            if self.mechanism == "ThresholdedLaplace"
            else vectorised.discrete_gaussian
        )
        note(self.mechanism, self.scale, self.n_cells)
        noisy_public = _exact(public, self.n_cells) + self._noise(sampler, len(public))
        noise = self._noise(sampler, len(private))
        if self.mechanism == "ThresholdedLaplace":
            while len(again := np.flatnonzero(np.abs(noise.sum(axis=1)) > self.threshold)):
                noise[again] = self._noise(sampler, len(again))
        noisy = _exact(private, self.n_cells) + noise
        passed = np.flatnonzero(noisy.sum(axis=1) > self.threshold)
        return noisy_public, noisy[passed], passed.astype(np.int64)

    def _noise(self, sampler: Callable[[float, int], Ints], n_keys: int) -> Ints:
        return sampler(self.scale, n_keys * self.n_cells).reshape(n_keys, self.n_cells)


def laplace_selection(
    *, sensitivity: int, epsilon: float | Fraction, delta: float, n_cells: int
) -> PartitionSelection:
    """Return the selection by truncated discrete Laplace noise that promises (epsilon, delta).

    Notes
    -----
    :Mechanism: discrete Laplace noise in each cell, drawn again while it adds up to more than the threshold in
        size. A key without rows then never passes, so nothing is drawn for the keys nobody declared. With one
        cell per key this is the truncated geometric mechanism of [1]_, optimal among those that also release
        the count but for a constant. docs/proofs/partition-selection.md extends its proof to several cells.

    References
    ----------
    .. [1] Desfontaines, Voss, Gipson, Mandayam: Differentially private partition selection, 2022, section 3.4.
    """
    rows, cells, slack = _checked(sensitivity, n_cells, delta)
    scale = laplace_scale(l1_sensitivity=rows, epsilon=epsilon)
    if scale > vectorised.SCALE_MAX:
        raise PrivacyParameterError("the noise of a partition selection would be too large: raise epsilon")
    least = rows + math.ceil(2 * scale * math.sqrt(2 * cells))  # Chebyshev: 3 draws in 4 are kept, or more
    threshold = _least_threshold(lambda k: _laplace_delta(k, rows, scale, cells), slack, least)
    return PartitionSelection("ThresholdedLaplace", scale, rows, cells, threshold, slack)


def gaussian_selection(*, sensitivity: int, scale: float, delta: float, n_cells: int) -> PartitionSelection:
    """Return the selection by discrete Gaussian noise of `scale` that adds `delta` to what the noise costs.

    Notes
    -----
    :Mechanism: discrete Gaussian noise in each cell of the keys that rows have; a key passes when its noisy
        cells add up to more than the threshold. docs/proofs/partition-selection.md has the proof.
    """
    rows, cells, slack = _checked(sensitivity, n_cells, delta)
    width = finite_number(scale, "scale")
    if not SCALE_MIN <= width <= vectorised.SCALE_MAX:
        raise PrivacyParameterError("the noise scale of a partition selection is out of range")
    threshold = _least_threshold(lambda k: _gaussian_delta(k, rows, width, cells), slack, rows)
    return PartitionSelection("ThresholdedGaussian", width, rows, cells, threshold, slack)


def _checked(sensitivity: object, n_cells: object, delta: object) -> tuple[int, int, float]:
    rows, cells = positive_integer(sensitivity, "sensitivity"), positive_integer(n_cells, "n_cells")
    slack = finite_number(delta, "delta")
    if not 0 < slack < 1:
        raise PrivacyParameterError("partition selection needs delta in (0, 1)")
    if cells > CELLS_MAX:
        raise PrivacyParameterError(f"partition selection takes up to {CELLS_MAX} cells per key")
    return rows, cells, slack


def _least_threshold(delta_of: Callable[[int], float], delta: float, least: int) -> int:
    """Return the least threshold, `least` or more, whose delta is small enough, by bisection."""
    high = least
    while delta_of(high) > delta:
        high *= 2
        if high > _THRESHOLD_MAX:
            raise PrivacyParameterError("no threshold reaches this delta: raise epsilon or delta")
    low = least - 1
    while high - low > 1:
        middle = (low + high) // 2
        if delta_of(middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _laplace_delta(threshold: int, rows: int, scale: float, n_cells: int) -> float:
    """Bound ``P(K - rows < S <= K given |S| <= K)`` for the sum S of the noise of one key."""
    chance = _sum_mass(threshold - rows + 1, rows, scale, n_cells)
    kept = 1 - 2 * _sum_mass(threshold + 1, math.inf, scale, n_cells)
    return min(chance / kept, 1.0) if kept > 0 else 1.0


def _sum_mass(x: int, length: float, scale: float, n_cells: int) -> float:
    """Bound ``P(x <= S < x + length)``, x >= 1, for the sum S of `n_cells` discrete Laplace variables.

    Notes
    -----
    The law of S is log-concave, so the ratio of neighbouring probabilities does not grow and a geometric
    series bounds their sum.
    """
    here, next_ = _log_mass(x, scale, n_cells), _log_mass(x + 1, scale, n_cells)
    ratio = min(next_ - here, -1e-12)
    return min(math.exp(here) * math.expm1(ratio * length) / math.expm1(ratio) * _ROUND_UP, 1.0)


def _log_mass(x: int, scale: float, n_cells: int) -> float:
    """Return ``ln P(S = x)``, x >= 0, for the sum S of `n_cells` discrete Laplace variables.

    Notes
    -----
    S is the difference of two negative binomial variables. With q = exp(-1 / scale) and C cells, Pfaff's
    transformation turns its series into C positive terms:

        P(S = x) = ((1-q)/(1+q))**C q**x sum_j (C)_j / (j! (C-1-j)!) (x+1+j)...(x+C-1) (q**2/(1-q**2))**j
    """
    rising, constant, log_base, log_weight = _series(scale, n_cells)
    logs = np.log(float(x) + np.arange(1, n_cells)) if n_cells > 1 else np.empty(0)
    products = np.concatenate([np.cumsum(logs[::-1])[::-1], [0.0]])
    terms = products + rising + constant + np.arange(n_cells) * log_weight
    most = float(terms.max())
    return n_cells * log_base - x / scale + most + math.log(float(np.exp(terms - most).sum()))


@lru_cache(maxsize=64)
def _series(scale: float, n_cells: int) -> tuple[Any, Any, float, float]:
    """Return what the terms of `_log_mass` have in common for all x."""
    logs = np.log(np.arange(1, 2 * n_cells, dtype=np.float64))
    factorial = np.concatenate([[0.0], np.cumsum(logs)])  # ln n! for n = 0, 1, ...
    j = np.arange(n_cells)
    rising = factorial[n_cells - 1 + j] - factorial[n_cells - 1]
    constant = -factorial[j] - factorial[n_cells - 1 - j]
    log_base = math.log(math.tanh(1 / (2 * scale)))
    log_weight = -2 / scale - math.log(-math.expm1(-2 / scale))
    return rising, constant, log_base, log_weight


def _gaussian_delta(threshold: int, rows: int, scale: float, n_cells: int) -> float:
    """Bound the probability that a unit of `rows` rows makes a key of its own pass, however it spreads them.

    Notes
    -----
    m rows on one key pass with probability ``P(S > K - m) <= sqrt(C) P(N > K - m)`` with N normal of variance
    ``C scale**2``. Keys of m_1, m_2, ... rows together pass with at most ``sum m_k max(P_m / m)``.
    """
    m = np.arange(1, rows + 1)
    z = (float(threshold) - m) / (scale * math.sqrt(2 * n_cells))
    tails = np.asarray([math.erfc(value) for value in z]) / 2 / m
    return min(rows * math.sqrt(n_cells) * float(tails.max()) * _ROUND_UP, 1.0)


def _exact(counts: Ints, n_cells: int) -> Ints:
    exact = np.asarray(counts)
    if exact.dtype != np.int64 or exact.ndim != 2 or exact.shape[1] != n_cells:
        raise TypeError("counts of keys are an int64 matrix of one row per key")
    return np.clip(exact, 0, _COUNT_MAX // n_cells)
