"""Rényi curves of the declared events: upper bounds at finite orders.

Discrete Laplace noise of scale s on integers, moved by an integer d > 0, has for every order a > 1

    E[(P/Q)**(a - 1)] = A exp((a - 1) d / s) + (1 - A) exp(-a d / s),
    A = 1 / (1 + q) + tanh(1 / (2 s)) / (exp((2 a - 1) / s) - 1),   q = exp(-1 / s),

by adding three geometric series (x <= 0, 0 < x < d, x >= d). Its logarithm is convex in d and zero at d = 0,
so it is superadditive. Among all integer vectors of L1 norm d, the one with a single non-zero entry is the
worst. The continuous Laplace curve is *not* a bound: at d = 1 the discrete mechanism is randomised response,
the worst epsilon-DP mechanism there is. As s grows with d / s fixed, A tends to a / (2 a - 1), the continuous
curve.

Discrete Gaussian noise of parameter sigma is (d**2 / (2 sigma**2))-zCDP [1]_; on a Poisson sample see `sampled`.

Parallel events are of disjoint parts of the data, to which each unit is assigned by itself: it meets one of
them only. If a coin assigns it, divergences are quasi-convex, so the greatest at each order is a bound again.

OneOf is a choice that earlier outputs made between events: whatever they were, no more is lost than by the event with
the greatest divergence at each order.

Permute-and-flip and one noisy threshold of AboveThreshold are epsilon-DP. So they are no worse at any order
than randomised response of the same epsilon: the curve above at d = 1, s = 1 / epsilon.

The exponential mechanism has epsilon-bounded range [2]_: ln(P / Q) is in [t - epsilon, t] for some t in [0,
epsilon]. The function x**a is convex, so E_Q[(P/Q)**a] is greatest when ln(P / Q) takes the two ends only,
and then

    E = exp((a - 1) t) (A - B exp(t)) / (1 - exp(-epsilon)),  A = 1 - exp(-a epsilon),
                                                             B = exp(-epsilon) - exp(-a epsilon).

It is greatest at exp(t) = (a - 1) A / (a B). The curve is below epsilon**2 / 8 times the order [2]_.
docs/proofs/selection.md and threshold.md have the proofs.

Thresholded noise on keys nobody declared has its delta charged beside the curve. The rest of both laws is as
far apart as randomised response of epsilon = l1 / scale, or as two Gaussians
(docs/proofs/partition-selection.md).

References
----------
.. [1] Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", Theorem 4.
.. [2] Dong, Durfee, Rogers, "Optimal Differential Privacy Composition for Exponential Mechanisms", 2020;
   Cesar, Rogers, "Bounding, Concentrating, and Truncating", 2021, Lemma 3.4.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ptklib.accounting.sampled import sampled_gaussian_curve
from ptklib.arrays import Floats
from ptklib.events import (
    AboveThreshold,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    Event,
    ExponentialMechanism,
    LocalReport,
    OneOf,
    Parallel,
    PermuteAndFlip,
    PoissonSampled,
    Selection,
    ThresholdedGaussian,
    ThresholdedLaplace,
    Unknown,
)
from ptklib.exceptions import PrivacyParameterError

ORDERS: tuple[float, ...] = (
    *(1 + x / 20 for x in range(1, 100)),
    *(6 + x / 4 for x in range(40)),
    *range(16, 64),
    *(2.0**x for x in range(6, 21)),
)
"""Finite orders only: dp-accounting raises for Laplace, or returns 0 for a Gaussian, at infinity."""

ROUND_UP = 1.0 + 1e-11
"""float64 evaluates these formulas to about 1e-13 from below."""


def renyi_curve(event: Event | Mapping[str, Any], orders: Sequence[float] = ORDERS) -> Floats:
    """Return an upper bound of the Rényi divergence of `event` at each order (finite, above 1)."""
    alphas = np.asarray(orders, dtype=np.float64)
    if alphas.ndim != 1 or not np.all(np.isfinite(alphas)) or not np.all(alphas > 1):
        raise PrivacyParameterError("orders must be finite and above 1")
    return _curve(Event.of(event), alphas)


def _curve(event: Event, alphas: Floats) -> Floats:
    match event:
        case Composed():
            once = np.zeros_like(alphas)
            for part in event.events:
                once += _curve(part, alphas)
        case Parallel() | OneOf():
            once = np.zeros_like(alphas)
            for part in event.events:
                once = np.maximum(once, _curve(part, alphas))
        case DiscreteLaplace():
            once = _laplace(alphas, event.l1_sensitivity, event.scale)
        case ThresholdedLaplace():
            once = _randomised_response(alphas, event.epsilon)
        case DiscreteGaussian() | ThresholdedGaussian():
            once = alphas * (event.ratio * event.ratio / 2 * ROUND_UP)
        case PermuteAndFlip() | AboveThreshold():
            once = _randomised_response(alphas, _selection_epsilon(event))
        case ExponentialMechanism():
            once = _bounded_range(alphas, _selection_epsilon(event))
        case PoissonSampled():
            noise = event.event
            rho = noise.ratio * noise.ratio / 2 * ROUND_UP * noise.times
            once = sampled_gaussian_curve(alphas, rho, event.sampling_rate)
        case EpsilonDelta():  # event_delta charges its delta
            once = _pure(alphas, event.epsilon)
        case _:
            raise _unknown(event)
    return once * event.times


def pure_epsilon(event: Event | Mapping[str, Any]) -> float:
    """Return the epsilon of `event` at delta 0 by basic composition, or infinity."""
    match event := Event.of(event):
        case Composed():
            return math.fsum(map(pure_epsilon, event.events)) * event.times * ROUND_UP
        case Parallel() | OneOf():
            return max(map(pure_epsilon, event.events), default=0.0) * event.times
        case DiscreteLaplace():
            return event.epsilon * event.times * ROUND_UP
        case DiscreteGaussian() | ThresholdedLaplace() | ThresholdedGaussian() | PoissonSampled():
            return math.inf
        case Selection() | AboveThreshold():
            return _selection_epsilon(event) * event.times * ROUND_UP
        case EpsilonDelta():
            return math.inf if event.delta > 0 else event.epsilon * event.times * ROUND_UP
        case _:
            raise _unknown(event)


def event_delta(event: Event | Mapping[str, Any]) -> float:
    """Return the part of delta that a Rényi curve of `event` does not cover."""
    match event := Event.of(event):
        case Composed():
            return math.fsum(map(event_delta, event.events)) * event.times
        case Parallel() | OneOf():
            return max(map(event_delta, event.events), default=0.0) * event.times
        case EpsilonDelta() | ThresholdedLaplace() | ThresholdedGaussian():
            return event.delta * event.times
        case Unknown() | LocalReport():
            raise _unknown(event)
        case _:
            return 0.0


def _laplace(alphas: Floats, distance: float, scale: float) -> Floats:
    x = distance / scale
    with np.errstate(over="ignore"):
        low = 1 / (1 + math.exp(-1 / scale)) + math.tanh(1 / (2 * scale)) / np.expm1((2 * alphas - 1) / scale)
    low = np.clip(low, 0.5, 1.0)
    with np.errstate(divide="ignore"):
        moment = np.logaddexp(np.log(low) + (alphas - 1) * x, np.log1p(-low) - alphas * x)
    # Small x cancel: 1e-14 covers the absolute rounding error, and the pure bound takes over there.
    exact = (moment * ROUND_UP + 1e-14) / (alphas - 1)
    return np.minimum(exact, _pure(alphas, x))


def _randomised_response(alphas: Floats, epsilon: float) -> Floats:
    return _laplace(alphas, 1.0, 1 / epsilon)


def _bounded_range(alphas: Floats, epsilon: float) -> Floats:
    with np.errstate(divide="ignore"):
        # B = exp(-epsilon) (1 - exp(-(a - 1) epsilon)); both A and B are 1 - exp of something negative.
        log_a = np.log(-np.expm1(-alphas * epsilon))
        log_b = np.log(-np.expm1(-(alphas - 1) * epsilon)) - epsilon
    best = np.log((alphas - 1) / alphas) + log_a - log_b
    moment = (alphas - 1) * best + log_a - np.log(alphas) - math.log(-math.expm1(-epsilon))
    exact = (moment * ROUND_UP + 1e-14 * alphas) / (alphas - 1)
    return np.minimum(np.minimum(exact, alphas * (epsilon * epsilon / 8) * ROUND_UP), _pure(alphas, epsilon))


def _selection_epsilon(event: Selection | AboveThreshold) -> float:
    """Return the epsilon at delta 0 of one selection, from the scales that are drawn."""
    twice = event.sensitivity if event.monotonic else 2 * event.sensitivity
    if isinstance(event, AboveThreshold):
        return event.sensitivity / event.threshold_scale + twice / event.value_scale
    return twice / event.scale


def _pure(alphas: Floats, epsilon: float) -> Floats:
    return np.minimum(epsilon, alphas * (epsilon * epsilon / 2)) * ROUND_UP


def _unknown(event: Event) -> PrivacyParameterError:
    if isinstance(event, LocalReport):
        return PrivacyParameterError("a LocalReport is noise of a device: no block of rows pays for it")
    return PrivacyParameterError(
        f"the event of a loss has an unknown mechanism: {event.to_json().get('name')!r}"
    )
