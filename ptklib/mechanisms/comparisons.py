"""How values are compared with a noisy threshold, in public numbers: sensitivity, epsilon, and its two parts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ptklib import events
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms.additive import laplace_scale, positive_integer
from ptklib.privacy import PrivacyLoss
from ptklib.scalars import float_above, is_integer, positive_fraction

VALUE_MAX = 2**62
"""Clamping to it moves no two values apart, so it is free; noise cannot overflow above it."""

_QUERY_SHARE = {False: Fraction(613, 1000), True: Fraction(1, 2)}
"""Share of epsilon for the noise on values: 2**(2/3) to 1 is the best split, 1 to 1 for monotonic values."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How values are compared with one noisy threshold, in public numbers.

    Parameters
    ----------
    sensitivity : int
        A neighbouring dataset moves each value by at most this much.
    epsilon : float or Fraction
        The loss that is paid for each noisy threshold.
    monotonic : bool, default False
        Whether one more row moves all values in the same direction.

    Raises
    ------
    PrivacyParameterError
        For unusable parameters.
    """

    sensitivity: int
    epsilon: float | Fraction
    monotonic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity", positive_integer(self.sensitivity, "sensitivity"))
        object.__setattr__(self, "epsilon", positive_fraction(self.epsilon, "epsilon"))
        object.__setattr__(self, "monotonic", bool(self.monotonic))

    @property
    def for_values(self) -> Fraction:
        """The part of epsilon for the noise on values."""
        return Fraction(self.epsilon) * _QUERY_SHARE[self.monotonic]

    @property
    def for_threshold(self) -> Fraction:
        """The part of epsilon for the noise on the threshold."""
        return Fraction(self.epsilon) - self.for_values

    @property
    def moves(self) -> int:
        """The distance that the noise on a value has to hide."""
        return self.sensitivity if self.monotonic else 2 * self.sensitivity

    @property
    def event(self) -> events.AboveThreshold:
        """The event of one noisy threshold, with all its comparisons."""
        return events.AboveThreshold(
            threshold_scale=laplace_scale(l1_sensitivity=self.sensitivity, epsilon=self.for_threshold),
            value_scale=laplace_scale(l1_sensitivity=self.moves, epsilon=self.for_values),
            sensitivity=self.sensitivity,
            monotonic=self.monotonic,
        )

    @property
    def loss(self) -> PrivacyLoss:
        """The loss of one noisy threshold, whatever the number of "below" answers."""
        return PrivacyLoss(float_above(Fraction(self.epsilon)), 0.0, self.event)


def above_threshold_event(
    *, sensitivity: int, epsilon: float | Fraction, monotonic: bool = False
) -> events.AboveThreshold:
    """Return the event of one noisy threshold."""
    return Comparison(sensitivity, epsilon, monotonic).event


def clamped(value: object) -> int:
    """Return a value or a threshold within what noise cannot overflow; `PrivacyParameterError` if it is no integer."""
    if not is_integer(value):
        raise PrivacyParameterError("values and thresholds are integers")
    return max(-VALUE_MAX, min(int(value), VALUE_MAX))
