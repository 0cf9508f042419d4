"""Orders among requests that compete for the same blocks: by arrival, fair (DPF), efficient (DPack)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ptkstore.domain.accounting.accountants import Caps, Charge


@dataclass(frozen=True, slots=True)
class Claim:
    """A request to charge some blocks. `value` is what granting it is worth, against that of others."""

    ptk_id: str
    arrived: int
    blocks: tuple[int, ...]
    charge: Charge
    value: float = 1.0


Order = Callable[[Sequence[Claim], Mapping[int, Caps]], tuple[Claim, ...]]
"""Sorts claims on blocks, of which each has a capacity per coordinate. Equal ones go by arrival, then by name."""


def by_arrival(claims: Sequence[Claim], capacity: Mapping[int, Caps]) -> tuple[Claim, ...]:
    """Return claims as they arrived; `capacity` is not read."""
    return tuple(sorted(claims, key=_turn))


def by_dominant_share(claims: Sequence[Claim], capacity: Mapping[int, Caps]) -> tuple[Claim, ...]:
    """Return the claim with the smallest dominant share first (DPF).

    The share that a claim takes of a block is the largest over the coordinates that have a cap, and over the deltas.
    Its dominant share is the largest over its blocks. Of two that are equal, the second largest decides, and so on.

    Parameters
    ----------
    capacity : mapping of int to Caps
        What each block may lose in all, and not what it has left: shares are of what everybody is entitled to.

    References
    ----------
    .. [1] Luo, Pan, Tholoniat, Cidon, Geambasu, Lecuyer, "Privacy Budget Scheduling" (PrivateKube), OSDI 2021,
       section 4.2; section 5.2 for Renyi orders.
    """

    def shares(claim: Claim) -> tuple[float, ...]:
        return tuple(sorted((_share(claim.charge, capacity[b]) for b in claim.blocks), reverse=True))

    return tuple(sorted(claims, key=lambda claim: (shares(claim), *_turn(claim))))


def by_efficiency(claims: Sequence[Claim], capacity: Mapping[int, Caps]) -> tuple[Claim, ...]:
    """Return the claim with the most value per demand first (DPack).

    The demand of a claim is the sum over its blocks of the part that it takes of what they have left. Under several
    coordinates each block is measured at one of them, for all claims: that at which most value could be packed into the
    block alone. A filter needs one coordinate within its cap, so the others cost nothing.

    Parameters
    ----------
    capacity : mapping of int to Caps
        What each block has left.

    Notes
    -----
    The most value of a block alone is a knapsack. It is approximated by taking claims by value per amount, or the most
    valuable one alone: never less than half of the best.

    References
    ----------
    .. [1] Tholoniat, Kostopoulou, Chowdhury, Cidon, Geambasu, Lecuyer, Yang, "DPack: Efficiency-Oriented Privacy Budget
       Scheduling", EuroSys 2025, section 3 (equation 6 and algorithm 1).
    """
    on_block: dict[int, list[Claim]] = {}
    for claim in sorted(claims, key=_turn):
        for block in claim.blocks:
            on_block.setdefault(block, []).append(claim)
    best = {block: _best_coordinate(here, capacity[block]) for block, here in on_block.items()}

    def efficiency(claim: Claim) -> float:
        parts = [_part(claim.charge, capacity[b], best[b]) for b in claim.blocks]
        demand = math.fsum(parts) if all(map(math.isfinite, parts)) else math.inf
        return claim.value / demand

    return tuple(sorted(claims, key=lambda claim: (-efficiency(claim), *_turn(claim))))


def _turn(claim: Claim) -> tuple[int, str]:
    return claim.arrived, claim.ptk_id


def _share(charge: Charge, caps: Caps) -> float:
    pairs = zip(charge.amounts, caps.amounts, strict=True)
    shares = [amount / cap for amount, cap in pairs if cap > 0]
    if charge.delta_atto:
        shares.append(charge.delta_atto / caps.delta_atto if caps.delta_atto > 0 else math.inf)
    return max(shares, default=math.inf)


def _part(charge: Charge, left: Caps, coordinate: int) -> float:
    """The part of what a block has left, at one coordinate or of the deltas where that is more."""
    amount, room = charge.amounts[coordinate], left.amounts[coordinate]
    part = amount / room if room > 0 else math.inf
    if charge.delta_atto:
        part = max(part, charge.delta_atto / left.delta_atto if left.delta_atto > 0 else math.inf)
    return part


def _best_coordinate(claims: Sequence[Claim], left: Caps) -> int:
    useful = [place for place, room in enumerate(left.amounts) if room > 0]
    if len(useful) < 2:
        return useful[0] if useful else 0
    return max(useful, key=lambda place: (_packed(claims, left.amounts[place], place), -place))


def _packed(claims: Sequence[Claim], room: int, place: int) -> float:
    """The value of claims that fit a block alone at one coordinate, at least half of the most there is."""
    fitting = [claim for claim in claims if claim.charge.amounts[place] <= room]
    total = 0.0
    for claim in sorted(fitting, key=lambda c: (-c.value / c.charge.amounts[place], *_turn(c))):
        if claim.charge.amounts[place] <= room:
            total, room = total + claim.value, room - claim.charge.amounts[place]
    return max([total, *(claim.value for claim in fitting)])
