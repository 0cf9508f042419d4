"""The draws of the rounds of a release and their loss; known before any data are read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

from ptklib.accounting import gaussian_sigma
from ptklib.arrays import Ints
from ptklib.events import Composed, DiscreteGaussian, DiscreteLaplace, Event
from ptklib.mechanisms import additive, selection
from ptklib.privacy import PrivacyLoss, check_delta, check_epsilon
from ptklib.release import laplace_variance


@dataclass(frozen=True, slots=True)
class Measure:
    """One vector that a round releases."""

    name: str
    size: int
    """Number of cells."""
    l1: int
    l2: int
    """Largest norms of what one row adds to the vector."""
    share: float
    """Its part of the budget, in whatever sum."""
    count: int = 1
    """How often it is drawn."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One selection of a round."""

    name: str
    n_candidates: int
    sensitivity: int
    """How far one row moves each score."""
    share: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class RoundsPlan:
    """Vectors and selections, each drawn a fixed number of times.

    Notes
    -----
    The draws of a round depend on what was released in the rounds before, so composition is adaptive. It is
    basic for Laplace noise and permute-and-flip (the shares of epsilon add up), and zCDP for Gaussian noise
    and the exponential mechanism (the shares of rho add up).
    """

    parts: tuple[Measure | Choice, ...]
    loss: PrivacyLoss
    epsilons: Mapping[str, Fraction]
    """Of Laplace noise and of selections."""
    scales: Mapping[str, float]
    """Of noise."""
    gaussian: bool
    factor: int
    """Rows of one privacy unit, at most."""

    def add_noise(self, name: str, exact: Ints) -> Ints:
        """Release one vector; each call is a release of its own."""
        if self.gaussian:
            return additive.gaussian(exact, scale=self.scales[name])
        part = self._part(name)
        assert isinstance(part, Measure)
        return additive.laplace(exact, l1_sensitivity=self.factor * part.l1, epsilon=self.epsilons[name])

    def select(self, name: str, scores: Ints) -> int:
        """Release the index of a candidate with about the highest score."""
        part = self._part(name)
        assert isinstance(part, Choice)
        mechanism = selection.exponential_mechanism if self.gaussian else selection.report_noisy_max
        return mechanism(scores, sensitivity=self.factor * part.sensitivity, epsilon=self.epsilons[name])

    def noise_variance(self, name: str) -> float:
        """Return the variance of the noise in one cell, in squared units."""
        scale = self.scales[name]
        return scale * scale if self.gaussian else laplace_variance(scale)

    def size(self, name: str) -> int:
        """Return the number of cells of all draws of a vector."""
        part = self._part(name)
        assert isinstance(part, Measure)
        return part.size * part.count

    def _part(self, name: str) -> Measure | Choice:
        return next(part for part in self.parts if part.name == name)


def plan_rounds(
    parts: tuple[Measure | Choice, ...], epsilon: object, delta: object, factor: int = 1
) -> RoundsPlan:
    """Divide (epsilon, delta) over parts by their shares, and evenly over the draws of a part.

    Notes
    -----
    A selection of bounded range is ``(epsilon**2 / 8)``-zCDP and Gaussian noise of multiplier m is
    ``(1 / (2 m**2))``-zCDP.
    """
    budget, slack = check_epsilon(epsilon), check_delta(delta)
    total = sum((Fraction(part.share) for part in parts), Fraction(0))
    fractions = {part.name: Fraction(part.share) / total / part.count for part in parts}
    multiplier = gaussian_sigma(budget, slack, 1.0) if slack else 0.0
    epsilons: dict[str, Fraction] = {}
    scales: dict[str, float] = {}
    events: list[Event] = []
    for part in parts:
        name, fraction = part.name, fractions[part.name]
        if slack and isinstance(part, Choice):
            epsilons[name] = Fraction(2 * sqrt(fraction) / multiplier * (1 - 1e-12))
        else:
            epsilons[name] = Fraction(budget) * fraction
        if isinstance(part, Choice):
            event: Event = selection.selection_event(
                "ExponentialMechanism" if slack else "PermuteAndFlip",
                n_candidates=part.n_candidates,
                sensitivity=factor * part.sensitivity,
                epsilon=epsilons[name],
            )
        elif slack:
            moved = factor * part.l2
            scales[name] = additive.check_scale(moved * multiplier / sqrt(fraction) * (1 + 1e-12))
            event = DiscreteGaussian(scale=scales[name], l2_sensitivity=moved, shape=(part.size,))
        else:
            moved = factor * part.l1
            scales[name] = additive.laplace_scale(l1_sensitivity=moved, epsilon=epsilons[name])
            event = DiscreteLaplace(scale=scales[name], l1_sensitivity=moved, shape=(part.size,))
        events.append(replace(event, count=part.count) if part.count > 1 else event)
    loss = PrivacyLoss(budget, slack, Composed(events=tuple(events)))
    return RoundsPlan(parts, loss, epsilons, scales, bool(slack), factor)
