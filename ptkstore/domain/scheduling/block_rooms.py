"""The unspent budget of one line of a block, at one coordinate of the accountant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of
from ptkstore.domain.accounting.losses import Loss
from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class BlockRoom:
    """The unspent budget of one line of a block: the cap less committed losses, at one coordinate of the accountant.

    `left_nano` is in the whole units of that coordinate, `left_atto` is the unspent delta. Neither is below 0.
    """

    number: int
    window: int
    coordinate: int
    left_nano: int
    left_atto: int
    group: int = 0


def coordinate_of(accountant: Accountant, capacity: Loss, charges: Sequence[Charge]) -> int:
    """Return the coordinate at which some charges take the least part of their caps.

    Plans of windows are solved at each coordinate, and the best answer is taken. Allowances need one that stays: that
    at which the least losses of all who wait take least room. Without charges it is that of pure epsilons.

    Raises
    ------
    InvalidRequest
        The capacity leaves no coordinate any use.
    """
    caps = caps_of(accountant, capacity).amounts
    loads = {
        place: Fraction(sum(charge.amounts[place] for charge in charges), cap)
        for place, cap in enumerate(caps)
        if cap > 0
    }
    if not loads:
        raise InvalidRequest("no coordinate of the accountant has a cap")
    if not charges:
        return max(loads)
    return min(loads, key=lambda place: (loads[place], -place))


def whole_block(accountant: Accountant, capacity: Loss, least: Sequence[Charge]) -> BlockRoom:
    """Return a block of a line that may lose `capacity` and of which nothing is charged; it has number 0.

    Its coordinate is that of the least losses of those who wait, `least`.
    """
    coordinate, caps = coordinate_of(accountant, capacity, least), caps_of(accountant, capacity)
    return BlockRoom(0, 0, coordinate, max(0, caps.amounts[coordinate]), max(0, caps.delta_atto))
