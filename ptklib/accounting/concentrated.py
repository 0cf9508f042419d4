"""Zero-concentrated differential privacy of the declared events (Bun, Steinke 2016)."""

import math
from collections.abc import Mapping
from typing import Any

from ptklib.accounting.curves import ROUND_UP, count_of, event_parts, l2_ratio, noise_of, pure_epsilon
from ptklib.exceptions import PrivacyParameterError


def zcdp_rho(event: Mapping[str, Any]) -> float:
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
    match event.get("name"):
        case "Composed":
            return math.fsum(map(zcdp_rho, event_parts(event))) * count_of(event) * ROUND_UP
        case "Parallel" | "OneOf":
            return max(map(zcdp_rho, event_parts(event)), default=0.0) * count_of(event)
        case "DiscreteGaussian" | "ThresholdedGaussian":
            return l2_ratio(event) ** 2 / 2 * count_of(event) * ROUND_UP
        case "PoissonSampled":
            return zcdp_rho(noise_of(event)) * count_of(event)
        case "ExponentialMechanism":
            return _once(event) ** 2 / 8 * count_of(event) * ROUND_UP
        case "ThresholdedLaplace":
            return _once({**event, "name": "DiscreteLaplace"}) ** 2 / 2 * count_of(event) * ROUND_UP
        case "EpsilonDelta":
            return _once({**event, "delta": 0.0}) ** 2 / 2 * count_of(event) * ROUND_UP
        case _:
            return _once(event) ** 2 / 2 * count_of(event) * ROUND_UP


def _once(event: Mapping[str, Any]) -> float:
    epsilon = pure_epsilon({**event, "count": 1})
    if not math.isfinite(epsilon):
        raise PrivacyParameterError("the event of a loss has no finite rho")
    return epsilon
