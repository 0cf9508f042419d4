"""The loss of a report, for the whole model and for one weight of it."""

from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt

from ptklib.accounting import profile_epsilon
from ptklib.accounting.analytic import SMOOTHING
from ptklib.draw_discard.noise import whole_distance
from ptklib.draw_discard.specification import Specification
from ptklib.events import DiscreteGaussian, DiscreteLaplace
from ptklib.privacy import PrivacyLoss
from ptklib.scalars import float_above


@dataclass(frozen=True, slots=True)
class ReportLoss:
    """Two losses of one report, with events that `ptklib.accounting` composes."""

    whole: PrivacyLoss
    """Of the whole report: towards any two tables of a device."""
    one_weight: PrivacyLoss
    """Of what the report says of one weight; the paper calls it feature-level."""


def report_loss(specification: Specification) -> ReportLoss:
    """Return what one report loses; r reports of a device lose r times as much (basic composition).

    Notes
    -----
    :Guarantee: `whole` is that of the report, against whoever sees it and the instance it began with. `one_weight`
        bounds what the noisy value of a single weight reveals, by itself. With ``clip="coordinate"`` it is the promised
        epsilon. With Laplace noise, `whole` is then up to `n_weights` times as much: 387 weights at ln 32 each lose
        1341 together. With Gaussian noise it can be less or more than that, at the same delta.
    :Unit: all rows of a device.
    :Neighbours: any two tables of a device. The losses hold against each of the paper's adversaries I, II and III; `k`
        and later reports do not make them smaller.

    References
    ----------
    .. [1] The paper, section IV-B. We do not use Lemmas 1 to 3: docs/proofs/draw_discard.md, "No amplification".
    """
    s = specification
    return ReportLoss(
        _loss(s, whole_distance(s.clip, s.noise, s.reach, s.n_weights), s.n_weights),
        _loss(s, 2 * s.reach, 1),
    )


def _loss(specification: Specification, distance: int | float, n_weights: int) -> PrivacyLoss:
    scale = specification.noise_scale
    if specification.noise == "laplace":
        event = DiscreteLaplace(scale=scale, l1_sensitivity=distance, shape=(n_weights,))
        return PrivacyLoss(float_above(Fraction(distance) / Fraction(scale)), 0.0, event)
    noise = DiscreteGaussian(scale=scale, l2_sensitivity=distance, shape=(n_weights,))
    epsilon = (
        specification.epsilon
        if distance <= specification.distance
        else _gaussian_epsilon(noise, specification.delta)
    )
    return PrivacyLoss(epsilon, specification.delta, noise)


def _gaussian_epsilon(noise: DiscreteGaussian, delta: float) -> float:
    """Return the epsilon of noise: by its privacy profile, or where that is beyond 700 by its zCDP bound."""
    rho = noise.ratio**2 / 2
    bound = (rho + 2 * sqrt(rho * log(1 / delta))) * (1 + 1e-12)
    continuous = sqrt(noise.scale**2 - SMOOTHING) * (1 - 1e-12)
    return min(profile_epsilon(continuous / noise.l2_sensitivity, delta), bound)
