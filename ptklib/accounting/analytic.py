"""Gaussian noise by its own privacy profile instead of its Rényi curve; docs/proofs/discrete-gaussian.md proves it."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ptklib.accounting.gaussian import least_noise
from ptklib.events import Composed, DiscreteGaussian, Event
from ptklib.exceptions import PrivacyParameterError
from ptklib.privacy import check_delta, check_epsilon
from ptklib.scalars import finite_number

SMOOTHING = 3.0
"""Variance by which discrete noise must exceed continuous noise to hide as much as it."""

_SLACK = 1e-15
"""What rounding to integers adds to epsilon at most (2**32 values)."""

_RELATIVE = 1e-12
"""More than float64 errs in the differences below, and than the factor of delta."""


def profile_delta(multiplier: float, epsilon: float) -> float:
    """Return an upper bound of the delta at `epsilon` of continuous noise of `multiplier` L2 sensitivities.

    References
    ----------
    .. [1] Balle, Wang, "Improving the Gaussian Mechanism for Differential Privacy", 2018, Theorem 8.
    """
    from scipy.special import log_ndtr  # scipy is slow to import, too

    near, far = 1 / (2 * multiplier), epsilon * multiplier
    more = math.exp(log_ndtr(near - far))
    less = math.exp(epsilon + log_ndtr(-near - far))
    return max(more - less + _RELATIVE * (more + less), 0.0) * (1 + _RELATIVE)


def profile_epsilon(multiplier: float, delta: float) -> float:
    """Return an epsilon of continuous noise of `multiplier` L2 sensitivities at `delta`, rounded up."""
    noise = finite_number(multiplier, "multiplier")
    if noise <= 0 or not 0 < delta < 1:
        raise PrivacyParameterError("a Gaussian needs a positive noise multiplier and delta in (0, 1)")
    low, high = 0.0, 1e-9
    while profile_delta(noise, high) > delta:
        low, high = high, 2 * high
        if high > 700:
            return math.inf
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if profile_delta(noise, middle) > delta:
            low = middle
        else:
            high = middle
    return high + _SLACK


@lru_cache(maxsize=256)
def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Return the least noise, in L2 sensitivities, for which continuous noise is (epsilon, delta)-DP, rounded up.

    Discrete noise of ``discrete_scale(multiplier * sensitivity)`` is (epsilon, delta)-DP then. A joint release of
    vectors with multipliers ``m_j`` needs ``sum(1 / m_j**2) <= 1 / multiplier**2``.
    """
    budget, slack = check_epsilon(epsilon) - _SLACK, check_delta(delta) * (1 - _RELATIVE)
    if slack == 0:
        raise PrivacyParameterError("Gaussian noise needs delta > 0")
    return least_noise(lambda multiplier: profile_delta(multiplier, budget) <= slack) * (1 + _RELATIVE)


def discrete_scale(scale: float) -> float:
    """Return a scale of discrete noise that hides as much as continuous noise of `scale`, rounded up."""
    return math.sqrt(scale * scale + SMOOTHING) * (1 + _RELATIVE)


def joint_multiplier(events: Sequence[Event | Mapping[str, Any]]) -> float | None:
    """Return the noise of several discrete Gaussian releases together, in sensitivities, or None for others.

    It is that of continuous noise which hides no more than they do: each shrinks as `discrete_scale` says.
    """
    total = 0.0
    for event in events:
        part = _inverse_square(Event.of(event))
        if part is None:
            return None
        total += part
    return 1 / math.sqrt(total * (1 + _RELATIVE)) if 0 < total < math.inf else None


def _inverse_square(event: Event) -> float | None:
    if isinstance(event, Composed):
        parts = [_inverse_square(part) for part in event.events]
        if any(part is None for part in parts):
            return None
        return math.fsum(part for part in parts if part is not None) * event.times
    if not isinstance(event, DiscreteGaussian):
        return None
    variance = float(event.scale) ** 2 - SMOOTHING
    if event.scale_beside_diagonal is not None:  # twice the variance of an entry that stands for two
        variance = min(variance, 2 * (float(event.scale_beside_diagonal) ** 2 - SMOOTHING))
    if variance <= 0:
        return None
    return float(event.l2_sensitivity) ** 2 / variance * event.times
