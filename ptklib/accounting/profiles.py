"""Privacy profiles of the declared events: at every epsilon, the least delta that is proven for it.

A profile H(epsilon) is the greatest ``P(S) - exp(epsilon) P'(S)`` over all neighbours and all sets S of
outcomes. Any convex upper bound of it (in ``exp(epsilon)``) that falls from 1 is the profile of a pair of
laws. Pairs compose however adaptively the queries are chosen, as long as the list of events is fixed [1]_.
docs/proofs/profiles.md proves each of the bounds below.

References
----------
.. [1] Zhu, Dong, Wang, "Optimal Accounting of Differential Privacy via Characteristic Function", 2022, Theorem 10.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptklib import events
from ptklib.accounting.analytic import joint_multiplier
from ptklib.accounting.curves import event_delta, pure_epsilon
from ptklib.arrays import Floats
from ptklib.events import Event

KNOTS_MAX = 400
"""A profile with fewer kinks than this is written down at its kinks alone."""


class PrivacyProfile(ABC):
    """The known bounds of one mechanism, whether a unit is removed or added."""

    @abstractmethod
    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return the delta at each epsilon (ascending, of either sign) when a unit is removed, and when it is added."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """An epsilon beyond which delta is nothing, or the place where it is cut off."""

    @property
    def knots(self) -> Floats | None:
        """All epsilons at which delta, as a function of ``exp(epsilon)``, has a kink; None when it is curved."""
        return None


@dataclass(frozen=True, slots=True)
class _Limited(PrivacyProfile):
    """A mechanism whose privacy loss is never beyond epsilon, whichever way a unit moves."""

    epsilon: float

    @property
    def reach(self) -> float:
        """The mechanism's epsilon."""
        return self.epsilon


@dataclass(frozen=True, slots=True)
class Pure(_Limited):
    """Any epsilon-DP mechanism: randomised response is the worst of them (Kairouz, Oh, Viswanath 2015)."""

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return ``(exp(e) - exp(epsilon)) / (1 + exp(e))`` between -e and e."""
        inside = -np.expm1(epsilons - self.epsilon) / (1 + math.exp(-self.epsilon))
        both = _between(inside, epsilons, self.epsilon)
        return both, both

    @property
    def knots(self) -> Floats | None:
        """Two."""
        return np.array([-self.epsilon, self.epsilon])


@dataclass(frozen=True, slots=True)
class Laplace(PrivacyProfile):
    """Discrete Laplace noise of `scale` on an integer vector that a unit moves by L1 norm `distance` at most."""

    distance: int
    scale: float

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return ``1 - exp(-j / scale)`` at epsilon ``(distance - 2 j) / scale``, straight between these points."""
        step = 2 / self.scale
        place = np.clip(np.floor((self.reach - epsilons) / step), 0, self.distance)
        high = self.reach - place * step  # the kink at or above each epsilon
        share = np.expm1(epsilons - high) / math.expm1(-step)  # of the way down to the next kink
        fall = np.exp(-place / self.scale) * -math.expm1(-1 / self.scale)
        inside = -np.expm1(-place / self.scale) + share * fall
        both = _between(inside, epsilons, self.reach)
        return both, both

    @property
    def reach(self) -> float:
        """The mechanism's epsilon."""
        return self.distance / self.scale

    @property
    def knots(self) -> Floats | None:
        """One for each integer between the two means."""
        if self.distance >= KNOTS_MAX:
            return None
        return (2 * np.arange(self.distance + 1) - self.distance) / self.scale


@dataclass(frozen=True, slots=True)
class BoundedRange(_Limited):
    """A mechanism whose privacy loss has range epsilon: the exponential mechanism (Dong, Durfee, Rogers 2020)."""

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return ``(1 - exp(-(e - epsilon) / 2))**2 / (1 - exp(-e))`` between -e and e."""
        inside = np.expm1((epsilons - self.epsilon) / 2) ** 2 / -math.expm1(-self.epsilon)
        both = _between(inside, epsilons, self.epsilon)
        return both, both


@dataclass(frozen=True, slots=True)
class Gaussian(PrivacyProfile):
    """Continuous Gaussian noise of `multiplier` sensitivities on a Poisson sample, or on all rows at rate 1."""

    multiplier: float
    rate: float = 1.0

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return those of Balle and Wang 2018, Theorem 8, with the likelihood ratio of the mixture."""
        from scipy.special import ndtr  # scipy is slow to import

        shift, rate = 1 / self.multiplier, self.rate
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            above = np.expm1(epsilons) + rate  # exp(epsilon) - (1 - rate)
            cut = (np.log(above / rate) + shift * shift / 2) / shift
            removed = np.where(above > 0, rate * ndtr(shift - cut) - above * ndtr(-cut), -np.expm1(epsilons))
            below = np.expm1(-epsilons) + rate
            cut = (np.log(below / rate) + shift * shift / 2) / shift
            added = np.exp(epsilons) * (below * ndtr(cut) - rate * ndtr(cut - shift))
            added = np.where(below > 0, added, 0.0)
        return lawful(removed, epsilons), lawful(added, epsilons)

    @property
    def reach(self) -> float:
        """The end of the loss of nine standard deviations."""
        shift = 1 / self.multiplier
        loss = shift * (9.0 + shift / 2)
        if self.rate == 1:
            return loss
        return loss + math.log(self.rate + (1 - self.rate) * math.exp(-loss))


Clean = Pure | Laplace | BoundedRange | Gaussian


@dataclass(frozen=True, slots=True)
class Parallel:
    """Several lists of mechanisms of which a unit meets one: they are on disjoint rows, or one of them is chosen."""

    lists: tuple[tuple[tuple[Leaf, int], ...], ...]

    @property
    def reach(self) -> float:
        """That of the longest list."""
        return max(sum(leaf.reach * count for leaf, count in leaves) for leaves in self.lists)


Leaf = Clean | Parallel


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an event: mechanisms with their counts, and a chance of total failure beside them."""

    leaves: tuple[tuple[Leaf, int], ...]
    delta: float


def parts_of(event: Event | Mapping[str, Any]) -> Parts | None:
    """Return the mechanisms of `event`, or None when one of them has no profile here.

    Raises
    ------
    PrivacyParameterError
        The event is malformed or unknown.
    """
    event = Event.of(event)
    delta = event_delta(event)  # refuses what is unknown
    leaves = _leaves(event)
    return None if leaves is None else Parts(leaves, delta)


def _leaves(event: Event) -> tuple[tuple[Leaf, int], ...] | None:
    leaf: Leaf | None
    match event:
        case events.Composed():
            return _all_leaves(event)
        case events.Parallel() | events.OneOf():
            lists = [_leaves(part) for part in event.events]
            chains = tuple(some for some in lists if some)
            if any(some is None for some in lists):
                return None
            return ((Parallel(chains), event.times),) if chains else ()
        case events.DiscreteLaplace():
            leaf = Laplace(math.ceil(event.l1_sensitivity), float(event.scale))
        case events.ThresholdedLaplace():
            leaf = Pure(event.epsilon)
        case events.DiscreteGaussian() | events.ThresholdedGaussian():
            leaf = _gaussian(event.once())
        case events.PoissonSampled():
            leaf = _gaussian(event.event, event.sampling_rate)
        case events.ExponentialMechanism():
            leaf = BoundedRange(pure_epsilon(event.once()))
        case events.EpsilonDelta() if event.epsilon == 0:
            return ()
        case events.EpsilonDelta():
            leaf = Pure(float(event.epsilon))
        case _:
            leaf = Pure(pure_epsilon(event.once()))
    return None if leaf is None else ((leaf, event.times),)


def _all_leaves(event: events.Composed) -> tuple[tuple[Leaf, int], ...] | None:
    mechanisms: list[tuple[Leaf, int]] = []
    for part in event.events:
        leaves = _leaves(part)
        if leaves is None:
            return None
        mechanisms += [(leaf, times * event.times) for leaf, times in leaves]
    return tuple(mechanisms)


def _gaussian(noise: events.GaussianNoise, rate: float = 1.0) -> Gaussian | None:
    if isinstance(noise, events.ThresholdedGaussian):
        noise = events.DiscreteGaussian(scale=noise.scale, l2_sensitivity=noise.l2_sensitivity)
    multiplier = joint_multiplier([noise])
    return None if multiplier is None else Gaussian(multiplier, rate)


def _between(inside: Floats, epsilons: Floats, bound: float) -> Floats:
    deltas = np.where(epsilons >= bound, 0.0, np.where(epsilons <= -bound, -np.expm1(epsilons), inside))
    return lawful(deltas, epsilons)


def lawful(deltas: Floats, epsilons: Floats) -> Floats:
    """Keep a profile above that of a mechanism without any loss, and from rising by rounding."""
    least = np.maximum(-np.expm1(np.minimum(epsilons, 0.0)), 0.0)
    return np.maximum.accumulate(np.clip(deltas, least, 1.0)[::-1])[::-1]
