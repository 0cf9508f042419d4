"""Value types of privacy: units, relations, bounds and losses."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np

from ptklib.events import Event, LocalReport
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError, UnboundedSensitivityError
from ptklib.scalars import finite_number

EPSILON_MIN = 1e-6
EPSILON_MAX = 10.0
DELTA_LIMIT = 1e-2
SUMS_MOST, SQUARES_MOST = 1e100, 1e60
"""Limits of public bounds. At the least epsilon, the noise in a sum is below 1e25 times the bounds, and its variance
is that squared: 1e250 for sums and 1e290 for sums of squares."""


class PrivacyUnit(StrEnum):
    """The difference between one neighbouring dataset and the other."""

    RECORD = "record"
    USER_IN_WINDOW = "user_in_window"
    USER = "user"


class Relation(StrEnum):
    """How neighbouring datasets differ; parallel composition over blocks needs add/remove."""

    ADD_REMOVE = "add_remove"


def check_epsilon(value: object) -> float:
    """Return a usable epsilon.

    Raises
    ------
    PrivacyParameterError
        For booleans, strings, NaN, infinities, and anything outside [1e-6, 10] (so for zero and subnormals).
    """
    epsilon = finite_number(value, "epsilon")
    if not EPSILON_MIN <= epsilon <= EPSILON_MAX:
        raise PrivacyParameterError(f"epsilon must be in [{EPSILON_MIN:g}, {EPSILON_MAX:g}], got {epsilon:g}")
    return epsilon


def check_delta(value: object) -> float:
    """Return a usable delta: zero, or a normal number below 0.01."""
    delta = finite_number(value, "delta")
    if not 0.0 <= delta < DELTA_LIMIT or 0.0 < delta < sys.float_info.min:
        raise PrivacyParameterError(f"delta must be 0 or in (0, {DELTA_LIMIT:g}), got {delta:g}")
    return delta


@dataclass(frozen=True, slots=True)
class Bounds:
    """A public closed interval values are clamped to."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = (finite_number(end, "a bound", InvalidParameterError) for end in (self.low, self.high))
        if not low < high:
            raise InvalidParameterError(f"bounds need low < high, got ({low:g}, {high:g})")
        if not math.isfinite(high - low) or (high - low) < sys.float_info.min * 2.0**24:
            raise InvalidParameterError(f"bounds ({low:g}, {high:g}) are too wide or too narrow for float64")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def of(cls, pair: object, column: str) -> Self:
        """Read ``(low, high)`` as given for `column`."""
        if pair is None:
            raise UnboundedSensitivityError(f"bounds for column {column!r} are missing: give (low, high)")
        if isinstance(pair, cls):
            return pair
        if isinstance(pair, str) or not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
            raise InvalidParameterError(f"bounds for column {column!r} must be a pair (low, high)")
        return cls(pair[0], pair[1])

    def within(self, most: float, column: str) -> Self:
        """Return these bounds if sums of values between them stay within float64, with the noise in them.

        Parameters
        ----------
        most : float
            The largest absolute value of a bound, and one over the least half width: `SUMS_MOST` where values are
            added, `SQUARES_MOST` where their squares are.
        """
        if max(abs(self.low), abs(self.high)) > most or self.half_width * most < 1 - 2**-40:
            raise InvalidParameterError(
                f"the bounds ({self.low:g}, {self.high:g}) of column {column!r} are too wide or too narrow: bounds lie "
                f"within {-most:g} and {most:g}, and half their width is at least {1 / most:g}. Use another unit."
            )
        return self

    @property
    def midpoint(self) -> float:
        """The centre, which a clamped value misses by at most `half_width`."""
        return self.low + (self.high - self.low) / 2

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The loss of one release: a promised (epsilon, delta) with the mechanism behind it.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee towards one privacy unit under add/remove neighbours.
    event : Event
        The mechanism, which ``ptklib.accounting`` composes, or its JSON form, for example
        ``{"name": "DiscreteLaplace", "scale": 20.0, "l1_sensitivity": 1, "shape": [24]}``.
    """

    epsilon: float
    delta: float
    event: Event

    def __post_init__(self) -> None:
        epsilon, delta = finite_number(self.epsilon, "epsilon"), finite_number(self.delta, "delta")
        if epsilon < 0 or not 0 <= delta < 1:
            raise PrivacyParameterError("a loss needs epsilon >= 0 and delta in [0, 1)")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "event", Event.of(self.event))

    def __repr__(self) -> str:
        kinds: dict[str, int] = {}
        for leaf, count in self.event.leaves():
            kind = type(leaf).__name__
            kinds[kind] = kinds.get(kind, 0) + count
        mechanisms = ", ".join(name if count == 1 else f"{count} x {name}" for name, count in kinds.items())
        epsilon, delta = (repr(number).removesuffix(".0") for number in (self.epsilon, self.delta))
        return f"PrivacyLoss(epsilon={epsilon}, delta={delta}, event=<{mechanisms}>)"

    def checked_central(self) -> Self:
        """Return the loss of rows in one place; `PrivacyParameterError` for that of a report, which bounds none."""
        if isinstance(self.event, LocalReport):
            raise PrivacyParameterError(
                "devices train this model: the loss of a report says nothing of rows in one place"
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the loss as plain JSON values."""
        return {"epsilon": self.epsilon, "delta": self.delta, "event": self.event.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        if not isinstance(document, Mapping) or set(document) != {"epsilon", "delta", "event"}:
            raise PrivacyParameterError("a loss has exactly the fields epsilon, delta and event")
        return cls(document["epsilon"], document["delta"], Event.of(document["event"]))
