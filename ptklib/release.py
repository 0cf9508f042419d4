"""Joint release: one budget divided over several integer vectors, and one noise draw."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ptklib.accounting import discrete_scale, gaussian_multiplier, gaussian_sigma
from ptklib.arrays import Ints
from ptklib.events import DiscreteGaussian, DiscreteLaplace, composed
from ptklib.mechanisms import additive
from ptklib.privacy import PrivacyLoss, check_delta, check_epsilon


@dataclass(frozen=True, slots=True)
class Component:
    """One integer vector of a release."""

    name: str
    size: int
    """Number of cells, public."""
    sensitivity: int
    """What one row moves: at most this much, in one cell only."""
    weight: float = 1.0
    """How much the variance of its noise matters, counted in squared sensitivities."""


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """How a joint release is going to be noised; known before any data are read."""

    components: tuple[Component, ...]
    loss: PrivacyLoss
    scales: Mapping[str, float]
    epsilons: Mapping[str, Fraction] | None
    """Share of each component for discrete Laplace noise; None means discrete Gaussian."""

    def __post_init__(self) -> None:
        for scale in self.scales.values():
            additive.check_scale(scale)  # before any row is read

    def draw(self, units: Mapping[str, Ints]) -> dict[str, Ints]:
        """Return the noisy vectors. Each call is a release of its own."""
        noisy = {}
        for component in self.components:
            exact = units[component.name]
            if self.epsilons is None:
                noisy[component.name] = additive.gaussian(exact, scale=self.scales[component.name])
            else:
                share = self.epsilons[component.name]
                noisy[component.name] = additive.laplace(
                    exact, l1_sensitivity=component.sensitivity, epsilon=share
                )
        return noisy

    def only(self, names: Collection[str]) -> "ReleasePlan":
        """Return the plan of some components: a release that is drawn in steps draws each component once."""
        return replace(self, components=tuple(c for c in self.components if c.name in names))

    def noise_variance(self, name: str) -> float:
        """Return the variance of the noise in one cell, in squared units."""
        scale = self.scales[name]
        return scale * scale if self.epsilons is None else laplace_variance(scale)


def plan_release(
    components: Sequence[Component], epsilon: object, delta: object, rows_per_unit: int = 1
) -> ReleasePlan:
    """Divide (epsilon, delta) over the components and choose the mechanism.

    Parameters
    ----------
    rows_per_unit : int
        Rows of one privacy unit: it moves a vector by at most so many times the sensitivity, in L1 and in L2.

    Notes
    -----
    A record moves one cell of every component, so Laplace shares add up: ``sum(epsilon_j) = epsilon``. The
    sum of ``weight_j / epsilon_j**2`` is least for shares proportional to ``weight_j ** (1/3)``. For Gaussian
    noise of ``m_j`` sensitivities, ``sum(1 / m_j**2) = 1 / m**2`` and ``sum(weight_j * m_j**2)`` is least for
    ``1 / m_j**2`` proportional to ``sqrt(weight_j)``. Gaussian noise is taken when delta allows it and its
    weighted variance is smaller; otherwise delta is not spent.
    """
    budget, slack, parts = check_epsilon(epsilon), check_delta(delta), per_unit(components, rows_per_unit)
    laplace = _laplace_plan(parts, _shares([c.weight ** (1 / 3) for c in parts]), budget)
    if slack == 0:
        return laplace
    gaussian = _gaussian_plan(parts, _shares([math.sqrt(c.weight) for c in parts]), budget, slack)
    return gaussian if _weighted_variance(gaussian) < _weighted_variance(laplace) else laplace


def plan_shares(
    components: Sequence[Component],
    shares: Sequence[float | Fraction],
    epsilon: object,
    delta: object,
    rows_per_unit: int = 1,
) -> ReleasePlan:
    """Divide (epsilon, delta) over the components as told, with Gaussian noise exactly when delta is positive.

    For a family that has to know the mechanism before it measures, because it clips in its norm.

    Parameters
    ----------
    components, epsilon, delta, rows_per_unit
        As for `plan_release`; weights only compare calibrations.
    shares : sequence of float or Fraction
        Parts of epsilon for Laplace noise, of the squared noise-to-sensitivity ratio's inverse for Gaussian noise.
    """
    budget, slack, parts = check_epsilon(epsilon), check_delta(delta), per_unit(components, rows_per_unit)
    if slack == 0:
        return _laplace_plan(parts, _shares(shares), budget)
    return _gaussian_plan(parts, _shares(shares), budget, slack)


def per_unit(components: Sequence[Component], rows_per_unit: int) -> tuple[Component, ...]:
    """Return the components with the sensitivity of one privacy unit of `rows_per_unit` rows."""
    return tuple(replace(c, sensitivity=c.sensitivity * rows_per_unit) for c in components)


def laplace_variance(scale: float) -> float:
    """Return the variance of discrete Laplace noise."""
    half = 1 / (2 * scale)
    return 1 / (2 * math.sinh(half) ** 2)


def _shares(parts: Sequence[float | Fraction]) -> list[Fraction]:
    exact = [Fraction(part) for part in parts]
    total = sum(exact, Fraction(0))
    return [part / total for part in exact]


def _laplace_plan(
    components: tuple[Component, ...], shares: Sequence[Fraction], epsilon: float
) -> ReleasePlan:
    epsilons = {c.name: Fraction(epsilon) * share for c, share in zip(components, shares, strict=True)}
    scales = {
        c.name: additive.laplace_scale(l1_sensitivity=c.sensitivity, epsilon=epsilons[c.name])
        for c in components
    }
    events = [
        DiscreteLaplace(scale=scales[c.name], l1_sensitivity=c.sensitivity, shape=(c.size,))
        for c in components
    ]
    return ReleasePlan(components, PrivacyLoss(epsilon, 0.0, composed(events)), scales, epsilons)


def _gaussian_plan(
    components: tuple[Component, ...], shares: Sequence[Fraction], epsilon: float, delta: float
) -> ReleasePlan:
    """Calibrate by the privacy profile (docs/proofs/discrete-gaussian.md) or by zCDP, whichever has less noise."""

    def plan(multiplier: float, rounded: Callable[[float], float]) -> ReleasePlan:
        scales = {
            c.name: rounded(c.sensitivity * multiplier / math.sqrt(share) * (1 + 1e-12))
            for c, share in zip(components, shares, strict=True)
        }
        events = [
            DiscreteGaussian(scale=scales[c.name], l2_sensitivity=c.sensitivity, shape=(c.size,))
            for c in components
        ]
        return ReleasePlan(components, PrivacyLoss(epsilon, delta, composed(events)), scales, None)

    by_profile = plan(gaussian_multiplier(epsilon, delta), discrete_scale)
    by_curve = plan(gaussian_sigma(epsilon, delta, 1.0), float)
    return min(by_profile, by_curve, key=_weighted_variance)


def _weighted_variance(plan: ReleasePlan) -> float:
    return math.fsum(c.weight * plan.noise_variance(c.name) / c.sensitivity**2 for c in plan.components)
