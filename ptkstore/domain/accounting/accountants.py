"""Accountants: in which coordinates losses are added up, and how much of each a block may lose (differences.md F1).

Every accountant is the same filter over another list of coordinates. A charge has one amount per coordinate and a
delta beside them; a block has one cap per coordinate. A charge is admitted when, at *some* coordinate, what is
committed plus the charge stays within the cap, and the deltas fit too. Proof: docs/proofs/filters.md.

`basic`  epsilons add up and deltas add up (Sage SOSP'19, Theorem 4.3).
`renyi`  Rényi divergences add up at fifteen orders, pure epsilons at the sixteenth (infinity).
`zcdp`   one rho for all orders (Bun, Steinke 2016), and pure epsilons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from ptkstore.domain.accounting.losses import ATTO, NANO, Loss
from ptkstore.errors import InvalidRequest

SATURATED = 2**40
"""An amount above every cap: that coordinate is dead for the block. Eight million of them still fit 64 bits."""

_MARGIN = 1e-12  # float64 evaluates the formulas below to about 1e-15


class Accountant(StrEnum):
    """How the losses of a stream are added up."""

    BASIC = "basic"
    RENYI = "renyi"
    ZCDP = "zcdp"

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the coordinates: `epsilon` (pure epsilons), `rho`, or a Rényi order as it is printed."""
        match self:
            case Accountant.BASIC:
                return ("epsilon",)
            case Accountant.RENYI:
                return (*(f"{order:g}" for order in ORDERS), "epsilon")
            case Accountant.ZCDP:
                return ("rho", "epsilon")


ORDERS = (1.5, 2.0, 3.0, 4.0, 5.5, 8.0, 11.0, 16.0, 23.0, 32.0, 45.0, 64.0, 128.0, 256.0, 1024.0)
"""Finite Rényi orders. Gaussian losses that add up to epsilon are read at about 1 + 2 ln(1 / delta) / epsilon: from 4
at epsilon 10 to 280 at epsilon .1."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of a release under an accountant: nano-units per coordinate, atto-delta beside them; rounded up."""

    amounts: tuple[int, ...]
    delta_atto: int = 0

    def __post_init__(self) -> None:
        if not all(0 < amount <= SATURATED for amount in self.amounts) or not self.amounts:
            raise InvalidRequest("a charge is positive in every coordinate")
        if not 0 <= self.delta_atto <= ATTO:
            raise InvalidRequest("a charge's delta is in [0, 1]")

    @classmethod
    def of(cls, curve: tuple[float, ...], delta: float) -> Charge:
        """Return the charge of upper bounds `curve` (one per coordinate, infinity allowed) and `delta`: rounded up."""
        if any(math.isnan(amount) or amount < 0 for amount in curve) or not 0 <= delta <= 1:
            raise InvalidRequest("a curve has no negative and no missing amount, and its delta is in [0, 1]")
        amounts = tuple(
            SATURATED if amount >= SATURATED / NANO else max(1, math.ceil(amount * (1 + _MARGIN) * NANO))
            for amount in curve
        )
        return cls(amounts, min(ATTO, math.ceil(delta * (1 + _MARGIN) * ATTO)))

    def at_most_pure(self, loss: Loss) -> Charge:
        """Return the charge of a release known to be private with `loss`: a pure epsilon is charged exactly."""
        if loss.delta_atto:
            return self
        return Charge(tuple(min(amount, loss.epsilon_nano) for amount in self.amounts), self.delta_atto)

    @classmethod
    def basic(cls, loss: Loss) -> Charge:
        """Return the charge of `loss` under basic composition."""
        return cls((loss.epsilon_nano,), loss.delta_atto)

    def covers(self, other: Charge) -> bool:
        """Tell whether this pays for `other` at every coordinate."""
        amounts = zip(self.amounts, other.amounts, strict=True)
        return self.delta_atto >= other.delta_atto and all(mine >= due for mine, due in amounts)

    @classmethod
    def pure(cls, accountant: Accountant, loss: Loss) -> Charge:
        """Return the charge of any (epsilon, delta)-private release of which nothing else is known.

        Its divergences are at most epsilon and at most order * epsilon**2 / 2, outside an event of probability delta.
        """
        epsilon = loss.epsilon_nano / NANO
        rho = epsilon * epsilon / 2
        match accountant:
            case Accountant.BASIC:
                return cls.basic(loss)
            case Accountant.RENYI:
                curve = (*(min(epsilon, order * rho) for order in ORDERS), epsilon)
            case Accountant.ZCDP:
                curve = (rho, epsilon)
        amounts = cls.of(curve, 0.0).amounts
        return cls((*amounts[:-1], loss.epsilon_nano), loss.delta_atto)


@dataclass(frozen=True, slots=True)
class Caps:
    """The capacity of a block: nano-units per coordinate, -1 where the coordinate is of no use; rounded down."""

    amounts: tuple[int, ...]
    delta_atto: int


@lru_cache(maxsize=1024)
def caps_of(accountant: Accountant, capacity: Loss) -> Caps:
    """Return the caps of a block that may lose `capacity`.

    Notes
    -----
    Under `renyi` and `zcdp` half of delta pays for the conversion, shared by the finite orders in use. The other half
    is for the deltas of mechanisms that have one of their own. With delta 0 only pure epsilons count.
    """
    if accountant is Accountant.BASIC:
        return Caps((capacity.epsilon_nano,), capacity.delta_atto)
    for_conversion = capacity.delta_atto // 2
    epsilon, delta = capacity.epsilon_nano / NANO, for_conversion / ATTO
    curved: tuple[int, ...]
    if accountant is Accountant.RENYI:
        curved = _renyi_caps(epsilon, delta)
    else:
        curved = (_zcdp_cap(epsilon, delta),)
    return Caps((*curved, capacity.epsilon_nano), capacity.delta_atto - for_conversion)


def admits(caps: Caps, amounts: Sequence[int], delta_atto: int) -> bool:
    """Return the rule: some coordinate, and the deltas, are within their caps."""
    return delta_atto <= caps.delta_atto and any(
        a <= cap for a, cap in zip(amounts, caps.amounts, strict=True)
    )


def fit_together(caps: Caps, charges: Iterable[Charge]) -> bool:
    """Tell whether what some charges add up to is admitted; at least one of them."""
    every = tuple(charges)
    amounts = [sum(column) for column in zip(*(charge.amounts for charge in every), strict=True)]
    return admits(caps, amounts, sum(charge.delta_atto for charge in every))


def loss_of(accountant: Accountant, capacity: Loss, amounts: Sequence[int], delta_atto: int) -> Loss:
    """Return the valid (epsilon, delta) for amounts and deltas added up on a line of this capacity.

    Under `basic` the sums. Otherwise the least epsilon that a coordinate implies, at the capacity's delta unless it is
    that of pure epsilons, which needs no more than the deltas added up.
    """
    if accountant is Accountant.BASIC or not any(amounts):
        return Loss(amounts[0], delta_atto)
    pure = amounts[-1]
    implied = _implied_nano(accountant, capacity, amounts)
    if pure <= implied:
        return Loss(pure, min(ATTO, delta_atto))
    return Loss(max(0, implied), capacity.delta_atto)  # a large delta may pay for all of it


def deciding_coordinate(accountant: Accountant, capacity: Loss, amounts: Sequence[int]) -> int:
    """Return the coordinate that `loss_of` reads the epsilon off. At it, amounts of several releases add up."""
    last = len(amounts) - 1
    if accountant is Accountant.BASIC or amounts[last] <= _implied_nano(accountant, capacity, amounts):
        return last
    caps = caps_of(accountant, capacity).amounts
    return min((c for c in range(last) if caps[c] >= 0), key=lambda c: amounts[c] - caps[c], default=last)


def _implied_nano(accountant: Accountant, capacity: Loss, amounts: Sequence[int]) -> int:
    """The least epsilon, in nano units, that coordinates other than pure epsilons imply."""
    caps = caps_of(accountant, capacity).amounts
    if accountant is Accountant.ZCDP:
        if caps[0] < 0:
            return SATURATED
        return math.ceil(
            _epsilon_of_rho(amounts[0] / NANO, capacity.delta_atto // 2 / ATTO) * (1 + _MARGIN) * NANO
        )
    pairs = zip(amounts[:-1], caps[:-1], strict=True)
    return min((amount + capacity.epsilon_nano - cap for amount, cap in pairs if cap >= 0), default=SATURATED)


def _renyi_caps(epsilon: float, delta: float) -> tuple[int, ...]:
    used = set(ORDERS) if delta > 0 else set()
    while True:
        caps = {order: _renyi_cap(order, epsilon, delta / len(used)) for order in used}
        kept = {order for order, cap in caps.items() if cap > 0}
        if kept == used:
            return tuple(caps.get(order, -1) for order in ORDERS)
        used = kept


def _renyi_cap(order: float, epsilon: float, delta: float) -> int:
    """Canonne, Kamath, Steinke 2020, Proposition 12, solved for the divergence."""
    cap = epsilon + (math.log(delta) + math.log(order)) / (order - 1) - math.log1p(-1 / order)
    return math.floor((cap - _MARGIN * max(1.0, abs(cap))) * NANO)


def _zcdp_cap(epsilon: float, delta: float) -> int:
    if delta <= 0:
        return -1
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _epsilon_of_rho(middle, delta) <= epsilon else (low, middle)
    return math.floor(low * (1 - _MARGIN) * NANO) or -1


def _epsilon_of_rho(rho: float, delta: float) -> float:
    """The same conversion at the best of many orders; each of them is a bound, so none need be the best."""
    best = 1 + math.sqrt(math.log(1 / delta) / rho) if rho > 0 else math.inf
    if not math.isfinite(best):
        return 0.0
    orders = (1 + (best - 1) * 2 ** (step / 64) for step in range(-64, 65))
    return min(
        order * rho + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        for order in orders
    )
