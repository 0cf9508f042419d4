"""The windows that serve a PTK that waits, if significance is public (budgeting paper, Algorithm 2).

A window serves a PTK if each of its blocks does that the PTK is trained on. A training over several windows is charged
its whole loss on each of them, so each window is asked by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeAlias

from ptkstore.domain.accounting.accountants import Caps, Charge, fit_together
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.budgeting.blocks import BudgetedBlock, Query
from ptkstore.domain.budgeting.online import Declined, Taken, next_step_if_public
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.scheduling.adaptive import looks_of_menu
from ptkstore.domain.scheduling.model import ChargeOf, Proposal, Waiting
from ptkstore.domain.scheduling.orders import Claim, Order
from ptkstore.domain.scheduling.queues import Awaited


class WindowsLeft:
    """The unspent budget of the train blocks of kept windows on one line.

    Parameters
    ----------
    caps : Caps
        The capacity of a block of the line.
    left : mapping of (window, group) to Caps
        The unspent budget of each active block. Blocks that are not there serve nobody.
    """

    def __init__(self, caps: Caps, left: Mapping[tuple[int, int], Caps]) -> None:
        self._caps, self._left = caps, dict(left)

    def __len__(self) -> int:
        return len(self._left)

    def add(self, left: Mapping[tuple[int, int], Caps]) -> None:
        """Take in what blocks of more windows have left."""
        self._left |= left

    def drop(self, place: tuple[int, int]) -> Caps | None:
        """Forget a block, and return what it had left; None if it was not there."""
        return self._left.pop(place, None)

    def below(self, charge: Charge) -> tuple[tuple[int, int], ...]:
        """Return the blocks that cannot pay for a charge."""
        return tuple(place for place, left in self._left.items() if not fit_together(left, [charge]))

    def windows(self) -> tuple[int, ...]:
        """Return the windows with a block that is active, rising."""
        return tuple(sorted({window for window, _ in self._left}))

    def step(
        self, place: tuple[int, int], query: Query, charge: Charge, rule: ThresholdRule, significance: float
    ) -> Declined | Taken:
        """Return whether a block serves a query whose significance is public.

        Parameters
        ----------
        place, query, charge
            As for `asked`.
        rule : ThresholdRule
            How much significance the block asks for.
        significance : float
            That of the window for the PTK.
        """
        found = self.asked(place, query, charge)
        return found if isinstance(found, Declined) else next_step_if_public(*found, rule, significance)

    def asked(
        self, place: tuple[int, int], query: Query, charge: Charge
    ) -> Declined | tuple[BudgetedBlock, Query]:
        """Return a block and a query as the rules take them: in units of one coordinate.

        Parameters
        ----------
        place : tuple (window, group)
            Names the block.
        query, charge
            The PTK with the epsilon of its training, and what the accountant counts for that.

        Notes
        -----
        The consumed share is that of the coordinate of the accountant at which least is consumed once the charge is
        paid: the filter admits what fits at some coordinate.
        """
        left = self._left.get(place)
        if left is None:
            return Declined.RETIRED
        at = min(self._usable(), key=lambda one: (self._consumed_after(left, charge, one), -one))
        if charge.delta_atto > left.delta_atto:
            return Declined.UNAFFORDABLE
        cap = self._caps.amounts[at]
        block = BudgetedBlock(place[0], cap, min(cap, max(0, left.amounts[at])))
        return block, replace(query, cost_nano=charge.amounts[at])

    def served_first(self, proposals: Sequence[tuple[Proposal, range]], order: Order) -> tuple[str, ...]:
        """Return the names of PTKs in the order in which they are served.

        Parameters
        ----------
        proposals : sequence of (Proposal, range)
            Trainings that are asked for, each with the groups of blocks that it reads.
        order : Order

        Notes
        -----
        Charges and unspent budget are measured at one coordinate of the accountant. It is the one at which all
        proposals together take the least part of what their blocks still have.
        """
        asked = {
            one.ptk_id: [(window, group) for window in one.windows for group in groups]
            for one, groups in proposals
        }
        at = min(
            self._usable(),
            key=lambda at: (
                sum(self._part(place, one.charge, at) for one, _ in proposals for place in asked[one.ptk_id]),
                -at,
            ),
        )
        numbers = {place: number for number, place in enumerate(self._left)}
        left = {
            numbers[place]: (max(0, caps.amounts[at]), max(0, caps.delta_atto))
            for place, caps in self._left.items()
        }
        claims = [
            Claim(
                one.ptk_id,
                one.arrived,
                tuple(numbers[place] for place in asked[one.ptk_id]),
                (one.charge.amounts[at], one.charge.delta_atto),
            )
            for one, _ in proposals
        ]
        whole = self._caps.amounts[at], self._caps.delta_atto
        return tuple(claim.ptk_id for claim in order(claims, left, whole))

    def _part(self, place: tuple[int, int], charge: Charge, at: int) -> float:
        left = self._left[place].amounts[at]
        return charge.amounts[at] / left if left > 0 else inf

    def take(self, windows: Iterable[int], groups: range, charge: Charge) -> None:
        """Take a charge off the blocks of some windows."""
        for place in ((window, group) for window in windows for group in groups):
            left = self._left[place]
            amounts = tuple(mine - due for mine, due in zip(left.amounts, charge.amounts, strict=True))
            self._left[place] = Caps(amounts, left.delta_atto - charge.delta_atto)

    def _usable(self) -> list[int]:
        return [place for place, cap in enumerate(self._caps.amounts) if cap > 0]

    def _consumed_after(self, left: Caps, charge: Charge, at: int) -> float:
        cap = self._caps.amounts[at]
        return (cap - left.amounts[at] + charge.amounts[at]) / cap


AskedWindows: TypeAlias = tuple[int, int, Loss]
"""The least and the most windows that a PTK asks for, and the loss."""


def asked_windows(one: Waiting, rows_per_window: int) -> list[AskedWindows]:
    """Return what a PTK asks for: the least and the most windows, and the loss; the first that is served counts."""
    least, most = one.windows
    low, high = one.losses
    if one.last is not None:
        twice = min(2 * one.last.loss.epsilon_nano, high.epsilon_nano)
        return [(least, most, Loss(twice, high.delta_atto))]
    named = looks_of_menu(one, rows_per_window)
    return [(wish.n_windows, wish.n_windows, wish.loss) for wish in named] or [(least, most, low)]


@dataclass(frozen=True, slots=True)
class PublicBudgeting:
    """The scheduler `budgeting` with a public significance.

    Parameters
    ----------
    rule : ThresholdRule
        How much significance a window asks for.
    rows_per_window : int
        The rows that a PTK may expect of one window.
    """

    rule: ThresholdRule
    rows_per_window: int

    def next_look(
        self,
        one: Waiting,
        left: WindowsLeft,
        significance: Callable[[int], float],
        charge_of: ChargeOf,
        without: Collection[int] = (),
    ) -> Proposal | Awaited:
        """Return the next look of a PTK, or what it waits for.

        It reads as many of the windows that serve it as it may, the most significant first. The first look of a PTK
        with a menu reads as many as the menu says.

        Parameters
        ----------
        significance : callable
            That of a window for the PTK, by the window's number.
        without : collection of int
            Windows that it may not read.
        """
        if one.under_way:
            return Awaited.VERDICT
        in_order = sorted(set(left.windows()).difference(without), key=lambda w: (-significance(w), -w))
        declined: set[Declined] = set()
        for least, most, loss in asked_windows(one, self.rows_per_window):
            serving = []
            for window in in_order:
                if (why := self._declines(one, window, loss, left, significance(window), charge_of)) is None:
                    serving.append(window)
                else:
                    declined.add(why)
            if len(serving) >= least:
                windows = tuple(sorted(serving[:most]))
                charge = charge_of(one.ptk_id, loss)
                n_rows = len(windows) * self.rows_per_window
                return Proposal(one.ptk_id, one.arrived, windows, loss, charge, n_rows)
        if Declined.NOT_SIGNIFICANT in declined:
            return Awaited.SIGNIFICANCE
        return Awaited.BUDGET if Declined.UNAFFORDABLE in declined else Awaited.NEW_WINDOW

    def _declines(
        self,
        one: Waiting,
        window: int,
        loss: Loss,
        left: WindowsLeft,
        significance: float,
        charge_of: ChargeOf,
    ) -> Declined | None:
        charge = charge_of(one.ptk_id, loss)
        query = Query(one.ptk_id, loss.epsilon_nano, one.windows[1], loss.epsilon_nano)
        for group in one.groups:
            step = left.step((window, group), query, charge, self.rule, significance)
            if isinstance(step, Declined):
                return step
        return None
