"""Rényi curves of the declared events: upper bounds at finite orders.

Discrete Laplace noise of scale s on integers, moved by an integer d > 0, has for every order a > 1

    E[(P/Q)**(a - 1)] = A exp((a - 1) d / s) + (1 - A) exp(-a d / s),
    A = 1 / (1 + q) + tanh(1 / (2 s)) / (exp((2 a - 1) / s) - 1),   q = exp(-1 / s),

by adding three geometric series (x <= 0, 0 < x < d, x >= d). Its logarithm is convex in d and zero at d = 0,
so it is superadditive: among all integer vectors of L1 norm d, the one with a single non-zero entry is the
worst. The continuous Laplace curve is *not* a bound: at d = 1 the discrete mechanism is randomised response,
the worst epsilon-DP mechanism there is. As s grows with d / s fixed, A tends to a / (2 a - 1), the continuous
curve.

Discrete Gaussian noise of parameter sigma is (d**2 / (2 sigma**2))-zCDP [1]_.

References
----------
.. [1] Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", Theorem 4.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ptklib.exceptions import PrivacyParameterError
from ptklib.privacy import finite_number

ORDERS: tuple[float, ...] = (
    *(1 + x / 20 for x in range(1, 100)),
    *(6 + x / 4 for x in range(40)),
    *range(16, 64),
    *(2.0**x for x in range(6, 21)),
)
"""Finite orders only: dp-accounting raises for Laplace, or returns 0 for a Gaussian, at infinity."""

_ROUND_UP = 1.0 + 1e-11
"""float64 evaluates these formulas to about 1e-13 from below."""


def renyi_curve(event: Mapping[str, Any], orders: Sequence[float] = ORDERS) -> npt.NDArray[np.float64]:
    """Return an upper bound of the Rényi divergence of `event` at each order (finite, above 1)."""
    alphas = np.asarray(orders, dtype=np.float64)
    if alphas.ndim != 1 or not np.all(np.isfinite(alphas)) or not np.all(alphas > 1):
        raise PrivacyParameterError("orders must be finite and above 1")
    match _name(event):
        case "Composed":
            total = np.zeros_like(alphas)
            for part in _parts(event):
                total += renyi_curve(part, orders)
            return total * _count(event)
        case "DiscreteLaplace":
            return _laplace(alphas, _positive(event, "l1_sensitivity"), _positive(event, "scale")) * _count(
                event
            )
        case "DiscreteGaussian":
            ratio = _positive(event, "l2_sensitivity") / _positive(event, "scale")
            return alphas * (ratio * ratio / 2 * _ROUND_UP) * _count(event)
        case _:  # EpsilonDelta; its delta is charged by event_delta
            return _pure(alphas, _not_negative(event, "epsilon")) * _count(event)


def pure_epsilon(event: Mapping[str, Any]) -> float:
    """Return the epsilon of `event` at delta 0 by basic composition, or infinity."""
    match _name(event):
        case "Composed":
            return math.fsum(pure_epsilon(part) for part in _parts(event)) * _count(event) * _ROUND_UP
        case "DiscreteLaplace":
            return _positive(event, "l1_sensitivity") / _positive(event, "scale") * _count(event) * _ROUND_UP
        case "DiscreteGaussian":
            return math.inf
        case _:
            if _not_negative(event, "delta") > 0:
                return math.inf
            return _not_negative(event, "epsilon") * _count(event) * _ROUND_UP


def event_delta(event: Mapping[str, Any]) -> float:
    """Return the part of delta that a Rényi curve of `event` does not cover."""
    match _name(event):
        case "Composed":
            return math.fsum(event_delta(part) for part in _parts(event)) * _count(event)
        case "EpsilonDelta":
            return _not_negative(event, "delta") * _count(event)
        case _:
            return 0.0


def _laplace(alphas: npt.NDArray[np.float64], distance: float, scale: float) -> npt.NDArray[np.float64]:
    x = distance / scale
    with np.errstate(over="ignore"):
        low = 1 / (1 + math.exp(-1 / scale)) + math.tanh(1 / (2 * scale)) / np.expm1((2 * alphas - 1) / scale)
    low = np.clip(low, 0.5, 1.0)
    with np.errstate(divide="ignore"):
        moment = np.logaddexp(np.log(low) + (alphas - 1) * x, np.log1p(-low) - alphas * x)
    # Small x cancel: 1e-14 covers the absolute rounding error, and the pure bound takes over there.
    exact = (moment * _ROUND_UP + 1e-14) / (alphas - 1)
    return np.minimum(exact, _pure(alphas, x))


def _pure(alphas: npt.NDArray[np.float64], epsilon: float) -> npt.NDArray[np.float64]:
    return np.minimum(epsilon, alphas * (epsilon * epsilon / 2)) * _ROUND_UP


def _name(event: Mapping[str, Any]) -> str:
    name = event.get("name")
    if name not in ("Composed", "DiscreteLaplace", "DiscreteGaussian", "EpsilonDelta"):
        raise PrivacyParameterError("the event of a loss has an unknown mechanism name")
    return str(name)


def _parts(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts = event.get("events")
    if not isinstance(parts, list | tuple) or not all(isinstance(part, Mapping) for part in parts):
        raise PrivacyParameterError("a composed event needs a list of events")
    return list(parts)


def _count(event: Mapping[str, Any]) -> int:
    count = event.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise PrivacyParameterError("the count of an event must be a positive integer")
    return count


def _not_negative(event: Mapping[str, Any], field: str) -> float:
    value = finite_number(event.get(field), field)
    if value < 0:
        raise PrivacyParameterError(f"{field} of an event must not be negative")
    return value


def _positive(event: Mapping[str, Any], field: str) -> float:
    value = _not_negative(event, field)
    if value == 0:
        raise PrivacyParameterError(f"{field} of an event must be positive")
    return value
