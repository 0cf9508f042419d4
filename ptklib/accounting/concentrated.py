"""Zero-concentrated differential privacy of the declared events (Bun, Steinke 2016)."""

import math
from collections.abc import Mapping
from typing import Any

from ptklib.accounting.curves import ROUND_UP, pure_epsilon
from ptklib.events import (
    Composed,
    DiscreteGaussian,
    EpsilonDelta,
    Event,
    ExponentialMechanism,
    OneOf,
    Parallel,
    PoissonSampled,
    ThresholdedGaussian,
    ThresholdedLaplace,
)


def zcdp_rho(event: Event | Mapping[str, Any]) -> float:
    """Return a rho such that the Rényi divergence of `event` is at most ``order * rho`` at every order above 1.

    Notes
    -----
    Gaussian noise has ``(l2 / scale)**2 / 2``. A release that is epsilon-DP has ``epsilon**2 / 2`` [1]_, and one whose
    privacy loss has range epsilon ``epsilon**2 / 8`` [2]_. A Poisson sample costs no more than all rows: divergences
    are quasi-convex. A delta of the event is charged beside rho, by `event_delta`.

    References
    ----------
    .. [1] Bun, Steinke, "Concentrated Differential Privacy", 2016, Proposition 1.4.
    .. [2] Cesar, Rogers, "Bounding, Concentrating, and Truncating", 2021, Lemma 3.4.
    """
    match event := Event.of(event):
        case Composed():
            return math.fsum(map(zcdp_rho, event.events)) * event.times * ROUND_UP
        case Parallel() | OneOf():
            return max(map(zcdp_rho, event.events), default=0.0) * event.times
        case DiscreteGaussian() | ThresholdedGaussian():
            return event.ratio**2 / 2 * event.times * ROUND_UP
        case PoissonSampled():
            return zcdp_rho(event.event) * event.times
        case ExponentialMechanism():
            return pure_epsilon(event.once()) ** 2 / 8 * event.times * ROUND_UP
        case ThresholdedLaplace():
            return (event.epsilon * ROUND_UP) ** 2 / 2 * event.times * ROUND_UP
        case EpsilonDelta():
            return (event.epsilon * ROUND_UP) ** 2 / 2 * event.times * ROUND_UP
        case _:
            return pure_epsilon(event.once()) ** 2 / 2 * event.times * ROUND_UP
