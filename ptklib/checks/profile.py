"""A bound of epsilon from how often an observer who guesses always is right."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ptklib.accounting import pld_advantage, pld_epsilon
from ptklib.arrays import Bools, Floats
from ptklib.checks.rules import Chances, Rule, even_rule, guesses, share_bounds
from ptklib.events import Event
from ptklib.privacy import PrivacyLoss

_DIVISOR, _DIVISORS = 1.02, 150
"""Noise is divided by powers of the first, from a twentieth to twenty times it."""

_UNCLAIMED = 1e9


@dataclass(frozen=True, slots=True)
class Bound:
    """An epsilon that the mechanism loses at least, with the confidence of the test that found it."""

    epsilon: float
    exceeds: bool
    """Whether it contradicts the declared loss."""


class ProfileTest:
    """Against the privacy profile of an event: who guesses always is right no more often than the profile allows.

    Notes
    -----
    Of all guesses, by a fair coin, ``(1 + delta(0)) / 2`` can be right at most. Here ``delta(0)`` is the
    profile at epsilon 0: the total variation between outputs with the row and without. `pld_advantage`
    composes it from the profiles of all parts. So many parts and few are compared with what they lose
    together, Gaussian noise as exactly as Laplace noise. Trials are independent, so the number of right
    guesses is at most binomial, and one share of all trials needs a bound.

    The bound is the epsilon, at the declared delta, of the event with all its noise divided by the least number that
    explains the share: to a fiftieth, rounded down.
    """

    def __init__(self, loss: PrivacyLoss) -> None:
        self._loss = loss

    def strength(self, scores: Floats, inside: Chances, rule: Rule, level: float | None) -> float:
        """Return the least share of right guesses; where none is made it counts as a wrong one."""
        return share_bounds(guesses(scores, inside, rule)[0], len(scores), level)[0]

    def bound(self, strength: float) -> Bound:
        """Return what a share says of epsilon."""
        low, high = -_DIVISORS, _DIVISORS  # in fiftieths or so, of the logarithm
        if strength <= self._share(low):
            return Bound(0.0, False)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._share(middle) < strength else (low, middle)
        divisor = _DIVISOR**low
        if self._loss.delta == 0:
            epsilon = divisor * self._loss.epsilon
        else:
            declared, epsilon = (
                pld_epsilon([_with_less_noise(self._loss, c)], self._loss.delta) for c in (1.0, divisor)
            )
            epsilon *= self._loss.epsilon / declared
        return Bound(epsilon, strength > self._share(0))

    def rule(self, scores: Floats, inside: Bools) -> Rule:
        """Return a rule that guesses always."""
        return even_rule(scores[: len(inside)], inside)

    def _share(self, step: int) -> float:
        """Return the greatest share of right guesses with the noise of all parts divided by ``_DIVISOR**step``."""
        return _greatest_share(_with_less_noise(self._loss, _DIVISOR**step).event)


@lru_cache(maxsize=1024)
def _greatest_share(event: Event) -> float:
    # Only the event speaks: no epsilon is claimed for it.
    return (1 + pld_advantage(PrivacyLoss(_UNCLAIMED, 0.0, event))) / 2


def _with_less_noise(loss: PrivacyLoss, divisor: float) -> PrivacyLoss:
    """Return a loss with the noise of all parts of its event divided.

    Notes
    -----
    For Gaussian noise the sensitivity is multiplied instead: what the noise of a small scale lacks of continuous noise
    would count for more at a smaller one.
    """

    def divided(event: Mapping[str, Any]) -> dict[str, Any]:
        gaussian = "l2_sensitivity" in event
        return {key: value_of(key, value, gaussian) for key, value in event.items()}

    def value_of(key: str, value: Any, gaussian: bool) -> Any:
        if key == "events":
            return [divided(part) for part in value]
        if key == "event":
            return divided(value)
        if key == "l2_sensitivity":
            return value * divisor
        return value / divisor if "scale" in key and not gaussian else value

    return loss if divisor == 1 else replace(loss, event=Event.of(divided(loss.event.to_json())))
