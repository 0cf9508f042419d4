"""Orders among requests that compete for the same blocks: by arrival, fair (DPF), efficient (DPack)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ptkstore.domain.scheduling.choices import ServedFirst

Amount = tuple[int, int]
"""Whole units at the one coordinate of a line's blocks, and deltas."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A request to charge some blocks of one line, the same amount each."""

    ptk_id: str
    arrived: int
    blocks: tuple[int, ...]
    amount: Amount


Order: TypeAlias = Callable[[Sequence[Claim], Mapping[int, Amount], Amount], tuple[Claim, ...]]
"""Sorts claims. It is told what each block has left, and what any block may lose in all. Equal ones go by arrival, then
by name."""


def by_arrival(claims: Sequence[Claim], left: Mapping[int, Amount], capacity: Amount) -> tuple[Claim, ...]:
    """Return claims as they arrived; no room is read."""
    return tuple(sorted(claims, key=_turn))


def by_dominant_share(
    claims: Sequence[Claim], left: Mapping[int, Amount], capacity: Amount
) -> tuple[Claim, ...]:
    """Return the claim with the smallest dominant share first (DPF).

    The share that a claim takes of a block is that of the units or of the deltas, whichever is larger. Shares are of
    what everybody is entitled to, so that the unspent amount does not matter. All blocks of a line may lose the same.
    So the dominant share of a claim is that of any of its blocks, and of two that are equal the one with fewer blocks
    is first.

    References
    ----------
    .. [1] Luo, Pan, Tholoniat, Cidon, Geambasu, Lecuyer, "Privacy Budget Scheduling" (PrivateKube), OSDI 2021,
       section 4.2.
    """
    return tuple(
        sorted(claims, key=lambda claim: (_part(claim.amount, capacity), len(claim.blocks), *_turn(claim)))
    )


def by_efficiency(claims: Sequence[Claim], left: Mapping[int, Amount], capacity: Amount) -> tuple[Claim, ...]:
    """Return the claim with the least demand first (DPack, where all claims are worth the same).

    The demand of a claim is the sum over its blocks of the part that it takes of what they have left. DPack measures
    each block at the Renyi order into which most fits; allowances have one coordinate, so there is no choice.

    References
    ----------
    .. [1] Tholoniat, Kostopoulou, Chowdhury, Cidon, Geambasu, Lecuyer, Yang, "DPack: Efficiency-Oriented Privacy Budget
       Scheduling", EuroSys 2025, section 3 (equation 6).
    """

    def demand(claim: Claim) -> float:
        parts = [_part(claim.amount, left[block]) for block in claim.blocks]
        return math.fsum(parts) if all(map(math.isfinite, parts)) else math.inf

    return tuple(sorted(claims, key=lambda claim: (demand(claim), *_turn(claim))))


ORDERS: Mapping[ServedFirst, Order] = {
    ServedFirst.ARRIVAL: by_arrival,
    ServedFirst.DPF: by_dominant_share,
    ServedFirst.DPACK: by_efficiency,
}


def _turn(claim: Claim) -> tuple[int, str]:
    return claim.arrived, claim.ptk_id


def _part(amount: Amount, room: Amount) -> float:
    """The part that an amount takes of a room: of the units or of the deltas, whichever is larger."""
    return max(due / there if there > 0 else math.inf for due, there in zip(amount, room, strict=True) if due)
