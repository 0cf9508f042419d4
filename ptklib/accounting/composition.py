"""Composition: what several declared losses cost together."""

import math
from collections.abc import Sequence

from ptklib.accounting.analytic import joint_multiplier, profile_epsilon
from ptklib.accounting.conversion import renyi_epsilon
from ptklib.accounting.curves import ORDERS, event_delta, pure_epsilon, renyi_curve
from ptklib.privacy import PrivacyLoss, check_delta


def basic_composition(losses: Sequence[PrivacyLoss]) -> tuple[float, float]:
    """Return the sums of epsilon and delta, rounded up."""
    return (
        _up(math.fsum(loss.epsilon for loss in losses)),
        _up(math.fsum(loss.delta for loss in losses)),
    )


def epsilon_of(losses: Sequence[PrivacyLoss], delta: float) -> float:
    """Return the least epsilon we can prove for all `losses` together at `delta`.

    Returns
    -------
    float
        The least of basic composition, Rényi composition of the events and, when all are Gaussian, their joint
        privacy profile; infinity when none reaches `delta`.

    Notes
    -----
    Valid for a fixed list of losses, however adaptively their queries were chosen. A filter, where the losses
    themselves are chosen adaptively, is another matter.
    """
    target = check_delta(delta)
    if not losses:
        return 0.0
    pure = _up(math.fsum(pure_epsilon(loss.event) for loss in losses))
    epsilon, spent = basic_composition(losses)
    candidates = [pure, epsilon if spent <= target else math.inf]
    left = target - _up(math.fsum(event_delta(loss.event) for loss in losses))
    if left > 0:
        curve = sum(renyi_curve(loss.event, ORDERS) for loss in losses)
        candidates.append(renyi_epsilon(ORDERS, curve, left))
    multiplier = joint_multiplier([loss.event for loss in losses])
    if multiplier is not None and target > 0:
        candidates.append(profile_epsilon(multiplier, target))
    return min(candidates)


def _up(value: float) -> float:
    return math.nextafter(value, math.inf) if 0 < value < math.inf else value
