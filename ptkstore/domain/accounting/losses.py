"""Integer privacy losses: charges rounded up, capacities rounded down (differences.md F4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Self

from ptkstore.errors import InvalidRequest

NANO = 10**9
ATTO = 10**18
MIN_EPSILON = Decimal("1e-6")
MAX_EPSILON = Decimal(10)
MAX_DELTA = Decimal("1e-2")


def checked_epsilon(value: object, what: str = "epsilon", most: Decimal = MAX_EPSILON) -> Decimal:
    """Return `value` as an exact decimal, or raise `InvalidRequest` unless it is a number in [1e-6, `most`]."""
    number = _decimal(value, what)
    if not MIN_EPSILON <= number <= most:
        raise InvalidRequest(f"{what} must be in [1e-6, {most}], not {number:.6g}")
    return number


def checked_delta(value: object, what: str = "delta") -> Decimal:
    """Return `value` as an exact decimal, or raise `InvalidRequest` unless it is a number in [0, 1e-2]."""
    number = _decimal(value, what)
    if not 0 <= number <= MAX_DELTA:
        raise InvalidRequest(f"{what} must be in [0, 1e-2], not {number:.6g}")
    return number


def _decimal(value: object, what: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise InvalidRequest(f"{what} must be a number, not {type(value).__name__}")
    # numpy's float64 is a float, but its repr is no number
    number = Decimal(float.__repr__(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise InvalidRequest(f"{what} must be finite")
    return number


@dataclass(frozen=True, slots=True)
class Loss:
    """A privacy loss in whole nano-epsilon and atto-delta; adding is exact, in any order."""

    epsilon_nano: int
    delta_atto: int = 0

    def __post_init__(self) -> None:
        if self.epsilon_nano < 0 or self.delta_atto < 0:
            raise InvalidRequest("a privacy loss is never negative")

    @classmethod
    def charge(cls, epsilon: object, delta: object = 0) -> Self:
        """Return the loss that is charged for (epsilon, delta): rounded up."""
        return cls(
            int((checked_epsilon(epsilon) * NANO).to_integral_value(ROUND_CEILING)),
            int((checked_delta(delta) * ATTO).to_integral_value(ROUND_CEILING)),
        )

    @classmethod
    def of_report(cls, epsilon: float, delta: float) -> Self:
        """Return the loss of a device's report, rounded up; it may be beyond what a block may be charged."""
        return cls(
            int((_decimal(epsilon, "epsilon") * NANO).to_integral_value(ROUND_CEILING)),
            int((_decimal(delta, "delta") * ATTO).to_integral_value(ROUND_CEILING)),
        )

    @classmethod
    def report_limit(cls, epsilon: float, delta: float) -> Self:
        """Return the most that a device's report may lose: rounded down, so that what fits is within it for devices."""
        return cls(
            int((_decimal(epsilon, "epsilon") * NANO).to_integral_value(ROUND_FLOOR)),
            int((_decimal(delta, "delta") * ATTO).to_integral_value(ROUND_FLOOR)),
        )

    @classmethod
    def capacity(cls, epsilon: object, delta: object = 0) -> Self:
        """Return the most a block may lose under (epsilon, delta): rounded down."""
        return cls(
            int((checked_epsilon(epsilon) * NANO).to_integral_value(ROUND_FLOOR)),
            int((checked_delta(delta) * ATTO).to_integral_value(ROUND_FLOOR)),
        )

    @property
    def epsilon(self) -> float:
        """In nats, for reading; decisions use the integers."""
        return self.epsilon_nano / NANO

    @property
    def delta(self) -> float:
        """A probability, for reading; decisions use the integers."""
        return self.delta_atto / ATTO

    @property
    def spendable_epsilon(self) -> float:
        """The largest float a trainer may be handed: never above the exact amount."""
        return _at_most(self.epsilon_nano, NANO)

    @property
    def spendable_delta(self) -> float:
        """The largest float a trainer may be handed: never above the exact amount."""
        return _at_most(self.delta_atto, ATTO)

    def __str__(self) -> str:
        """Exact, so that what is said to be left may be asked for."""
        epsilon, delta = Decimal(self.epsilon_nano).scaleb(-9), Decimal(self.delta_atto).scaleb(-18)
        return f"epsilon {epsilon.normalize():f}, delta {delta.normalize()}"

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.epsilon_nano + other.epsilon_nano, self.delta_atto + other.delta_atto)

    def __sub__(self, other: Loss) -> Loss:
        return Loss(self.epsilon_nano - other.epsilon_nano, self.delta_atto - other.delta_atto)

    def fits(self, capacity: Loss) -> bool:
        """Tell whether this loss stays within `capacity` in both coordinates."""
        return self.epsilon_nano <= capacity.epsilon_nano and self.delta_atto <= capacity.delta_atto


def _at_most(amount: int, unit: int) -> float:
    """The largest float that is no more than amount / unit."""
    nearest = amount / unit
    return nearest if Fraction(nearest) <= Fraction(amount, unit) else math.nextafter(nearest, 0.0)


NO_LOSS = Loss(0, 0)


def capacity_of(epsilon: object, delta: object) -> Loss:
    """Return the most a block may lose; no loss where users do not say any, for streams without blocks."""
    if epsilon is None:
        if delta:
            raise InvalidRequest("delta goes with epsilon: say both, or none")
        return NO_LOSS
    return Loss.capacity(epsilon, delta)


LEAST_LOSS = Loss(int(MIN_EPSILON * NANO))


@dataclass(frozen=True, slots=True)
class LossShares:
    """The loss of one line of a block by proven releases alone, and by all others alone.

    Each part is added up by the filter of the stream, as if the others had not been. Under basic composition the two
    add up to what is spent. Under renyi and zcdp each is at most what is spent, and their sum may be more.
    """

    library: Loss = NO_LOSS
    asserted: Loss = NO_LOSS
