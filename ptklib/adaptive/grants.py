"""A budget that is handed out in parts: what preprocessing, training and validation spend adds up to one grant."""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from threading import Lock
from typing import Self

from ptklib.exceptions import PrivacyParameterError
from ptklib.scalars import finite_number

EPSILON_PARTS = 10**9
DELTA_PARTS = 10**24
"""Whole parts in an epsilon, and a delta, of 1."""


class GrantExceededError(PrivacyParameterError):
    """More was asked for than a grant still has; nothing was taken."""


@dataclass(frozen=True, slots=True)
class _Amount:
    """Epsilon and delta in whole parts."""

    epsilon: int
    delta: int

    @classmethod
    def of(cls, epsilon: object, delta: object) -> Self:
        return cls(_parts(epsilon, "epsilon", EPSILON_PARTS), _parts(delta, "delta", DELTA_PARTS))


class Grant:
    """An (epsilon, delta) that is handed out in parts.

    Parameters
    ----------
    epsilon, delta : float
        Read as the decimal numbers that they are written as, so that three times 0.1 is 0.3. Digits beyond the ninth of
        epsilon, and the 24th of delta, are rounded up.

    Notes
    -----
    The losses of parts add up by basic composition, whatever each of them saw of the others. Amounts are
    whole numbers, so no sum is rounded. A part is taken once: it can be spent or divided further, and it does
    not return. Several threads may take parts at the same time.

    Listing 1 of [1]_ hands one epsilon to preprocessing, training and validation, which is three times epsilon. A
    pipeline of this library is given one grant and takes a part of it for each.

    References
    ----------
    .. [1] Lécuyer et al., "Privacy Accounting and Quality Control in the Sage Differentially Private ML Platform",
       SOSP 2019.
    """

    def __init__(self, epsilon: object, delta: object = 0) -> None:
        self._left, self._lock = _Amount.of(epsilon, delta), Lock()

    def __repr__(self) -> str:
        return f"Grant(epsilon={self.epsilon:g}, delta={self.delta:g})"

    @property
    def epsilon(self) -> float:
        """The epsilon that nobody has taken yet; rounded down."""
        return _at_most(self._left.epsilon, EPSILON_PARTS)

    @property
    def delta(self) -> float:
        """The delta that nobody has taken yet; rounded down."""
        return _at_most(self._left.delta, DELTA_PARTS)

    def covers(self, epsilon: object, delta: object = 0) -> bool:
        """Return whether the grant still has so much."""
        asked = _Amount.of(epsilon, delta)
        return asked.epsilon <= self._left.epsilon and asked.delta <= self._left.delta

    def part(self, epsilon: object, delta: object = 0) -> "Grant":
        """Take a part.

        Raises
        ------
        GrantExceededError
            If the grant has less, of either. Nothing is taken then.
        PrivacyParameterError
            For an amount that is negative or no finite number.
        """
        asked = _Amount.of(epsilon, delta)
        with self._lock:
            left = _Amount(self._left.epsilon - asked.epsilon, self._left.delta - asked.delta)
            if left.epsilon < 0 or left.delta < 0:
                raise GrantExceededError(
                    f"asked for epsilon {_text(asked.epsilon, EPSILON_PARTS)} and delta "
                    f"{_text(asked.delta, DELTA_PARTS)}, left are {_text(self._left.epsilon, EPSILON_PARTS)} and "
                    f"{_text(self._left.delta, DELTA_PARTS)}"
                )
            self._left = left
        return _of_amount(asked)

    def rest(self) -> "Grant":
        """Take all that nobody has taken yet."""
        with self._lock:
            taken, self._left = self._left, _Amount(0, 0)
        return _of_amount(taken)


def _of_amount(amount: _Amount) -> Grant:
    grant = Grant(0)
    grant._left = amount
    return grant


def _parts(value: object, name: str, whole: int) -> int:
    number = finite_number(value, name)
    if number < 0:
        raise PrivacyParameterError(f"{name} must not be negative")
    return int((Decimal(repr(number)) * whole).to_integral_value(ROUND_CEILING))


def _at_most(parts: int, whole: int) -> float:
    value = parts / whole
    while Decimal(repr(value)) * whole > parts:  # it reads as more than there is
        value = math.nextafter(value, 0.0)
    return value


def _text(parts: int, whole: int) -> str:
    return f"{Decimal(parts) / whole:f}".rstrip("0").rstrip(".") if parts else "0"
