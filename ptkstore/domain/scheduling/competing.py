"""PTKs compete for what blocks have left: nobody has an allowance, an order decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptkstore.domain.scheduling.adaptive import Adaptive, Mode
from ptkstore.domain.scheduling.allowances import Allowances, Holding
from ptkstore.domain.scheduling.block_rooms import BlockRoom
from ptkstore.domain.scheduling.model import ChargeOf, Proposal, Waiting
from ptkstore.domain.scheduling.orders import Amount, Claim, Order
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.scheduling.serving import served_in_turn


@dataclass(frozen=True, slots=True)
class Competing:
    """A scheduler without allowances: each PTK asks for its next look of all that is free, and an order decides.

    The looks are those of `Adaptive`. If an earlier one took the room of a window, a later one
    is given others, or it waits. Room is measured at the one coordinate of its blocks.

    Parameters
    ----------
    rows_per_window : int
        The rows that a PTK may expect of one window.
    whole : BlockRoom
        A block of the line of which nothing is charged.
    """

    rows_per_window: int
    mode: Mode
    order: Order
    whole: BlockRoom

    @property
    def shares_out(self) -> bool:
        """Nobody has an allowance."""
        return False

    def may_have_more(self, one: Waiting) -> bool:
        """Return whether a PTK may be given a look with enough room."""
        return Adaptive(self.rows_per_window, self.mode).may_have_more(one)

    def propose(
        self, waiting: Sequence[Waiting], room: Allowances, charge_of: ChargeOf
    ) -> tuple[Proposal, ...]:
        """Return the next looks that fit together, in the strategy's order."""
        looks = Adaptive(self.rows_per_window, self.mode)
        names = {one.ptk_id: one for one in waiting}
        free = {ptk_id: room.free(one) for ptk_id, one in names.items()}
        taken: dict[int, tuple[int, int]] = {}

        def next_look(one: Waiting) -> Proposal | Awaited:
            return looks.next_look(one, free[one.ptk_id].less(taken), charge_of)

        def take(one: Waiting, look: Proposal) -> None:
            for number, due in free[one.ptk_id].due(look.windows, look.charge):
                nano, atto = taken.get(number, (0, 0))
                taken[number] = (nano + due, atto + look.charge.delta_atto)

        def in_order(could: Sequence[tuple[Waiting, Proposal]]) -> list[Waiting]:
            claims = self._sorted([look for _, look in could], free)
            return [names[claim.ptk_id] for claim in claims]

        found = served_in_turn(waiting, next_look, take, in_order)
        return tuple(look for _, look in found if isinstance(look, Proposal))

    def _sorted(self, asked: Sequence[Proposal], free: dict[str, Holding]) -> tuple[Claim, ...]:
        """The claims of proposals in the order, measured at the coordinate of their blocks."""
        claims: list[Claim] = []
        left: dict[int, Amount] = {}
        for one in asked:
            holding = free[one.ptk_id]
            due = dict(holding.due(one.windows, one.charge))
            claims.append(
                Claim(one.ptk_id, one.arrived, tuple(due), (max(due.values()), one.charge.delta_atto))
            )
            left |= holding.left_of(one.windows)
        return self.order(claims, left, (self.whole.left_nano, self.whole.left_atto))
