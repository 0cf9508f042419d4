"""Privacy-adaptive training: small losses and few windows first, more on RETRY (Sage SOSP'19, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.allowances import Allowances, Holding
from ptkstore.domain.scheduling.choices import Mode as Mode
from ptkstore.domain.scheduling.model import ChargeOf, Proposal, Waiting
from ptkstore.domain.scheduling.queues import Awaited


@dataclass(frozen=True, slots=True, order=True)
class Wish:
    """A look that a PTK would take: so many windows with this loss."""

    n_windows: int
    epsilon_nano: int
    delta_atto: int = 0

    @property
    def loss(self) -> Loss:
        """The loss of the look."""
        return Loss(self.epsilon_nano, self.delta_atto)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The scheduler `adaptive`: a PTK may use its allowances, and takes them by its mode.

    Allowances of different PTKs are apart, so all that is proposed fits together, and the order decides nothing but who
    is reserved first. A look takes the newest windows that its allowance covers, and all rows of them.

    Parameters
    ----------
    rows_per_window : int
        The rows that a PTK may expect of one window.
    """

    rows_per_window: int
    mode: Mode = Mode.CONSERVE

    @property
    def shares_out(self) -> bool:
        """A PTK pays from its own allowance."""
        return True

    def propose(
        self, waiting: Sequence[Waiting], room: Allowances, charge_of: ChargeOf
    ) -> tuple[Proposal, ...]:
        """Return the next look of each PTK whose allowance covers one, by arrival."""
        found = (self.next_look(one, room.of_ptk(one.ptk_id), charge_of) for one in in_turn(waiting))
        return tuple(one for one in found if isinstance(one, Proposal))

    def next_look(self, one: Waiting, holding: Holding, charge_of: ChargeOf) -> Proposal | Awaited:
        """Return the next look of a PTK with these allowances, or what it waits for."""
        if one.under_way:
            return Awaited.VERDICT
        if not self.may_have_more(one):
            return Awaited.MORE_THAN_IT_MAY_HAVE
        if self.mode is Mode.AGGRESSIVE:
            return self._all_at_once(one, holding, charge_of)
        for wish in self.wishes(one):
            charge = charge_of(one.ptk_id, wish.loss)
            covered = holding.covering(charge)
            if len(covered) >= wish.n_windows:
                return self._proposal(one, covered[-wish.n_windows :].tolist(), wish.loss, charge_of)
        return Awaited.ALLOWANCE

    def may_have_more(self, one: Waiting) -> bool:
        """Return whether a PTK may be given a look with enough room; if not, nothing is to be divided with it.

        After a RETRY the next look takes twice the loss times windows, which may be beyond the most that it may have.
        While a look is under way it may: a training that is released is no look.
        """
        if one.last is None or one.under_way:
            return True
        if self.mode is Mode.AGGRESSIVE:
            return _floor(one) <= one.windows[1] * one.losses[1].epsilon_nano
        return bool(doubled(one))

    def wishes(self, one: Waiting) -> tuple[Wish, ...]:
        """Return the looks that a PTK may take next, unless it is aggressive; it takes the first that is covered."""
        if one.last is None:
            guided = looks_of_menu(one, self.rows_per_window) if self.mode is Mode.GUIDED else ()
            low = one.losses[0]
            return guided or (Wish(one.windows[0], low.epsilon_nano, low.delta_atto),)
        return doubled(one)

    def _all_at_once(self, one: Waiting, holding: Holding, charge_of: ChargeOf) -> Proposal | Awaited:
        """The look with the most rows times loss that the allowance covers; after a RETRY, at least twice as much."""
        best: tuple[int, Loss] | None = None
        floor = _floor(one)
        for n in _doublings(*one.windows):
            loss = _largest_on(n, one, holding, charge_of)
            if loss is None:
                break
            if n * loss.epsilon_nano >= floor:
                best, floor = (n, loss), n * loss.epsilon_nano + 1
        if best is None:
            return Awaited.ALLOWANCE
        n, loss = best
        covered = holding.covering(charge_of(one.ptk_id, loss))
        return self._proposal(one, covered[-n:].tolist(), loss, charge_of)

    def _proposal(self, one: Waiting, windows: list[int], loss: Loss, charge_of: ChargeOf) -> Proposal:
        charge, n_rows = charge_of(one.ptk_id, loss), len(windows) * self.rows_per_window
        return Proposal(one.ptk_id, one.arrived, tuple(windows), loss, charge, n_rows)


def doubled(one: Waiting) -> tuple[Wish, ...]:
    """Return what may follow on a RETRY, the first wish first: each is twice the loss times windows of the last look.

    The first is twice the loss on as many windows. The second is twice the windows with this loss. The others follow
    if the allowance covers neither, because more PTKs share the newer blocks: half the loss on four times the windows,
    and so on. Nothing goes beyond what the PTK may have, so that nothing follows on the most of both.

    Notes
    -----
    Sage (section 3.3) names the first two. With these alone a PTK waits forever once its share of new blocks is below
    its loss. In simulations of Figure 8 two thirds of the budgets then stayed unused while PTKs waited.
    """
    if one.last is None:
        return ()
    n, epsilon, delta = one.last.n_windows, one.last.loss.epsilon_nano, one.last.loss.delta_atto
    (_, most), (low, high) = one.windows, (loss.epsilon_nano for loss in one.losses)
    wishes = []
    if epsilon < high:
        wishes.append(Wish(n, min(2 * epsilon, high), delta))
    if n < most:
        wishes.append(Wish(min(2 * n, most), epsilon, delta))
    n, epsilon = 4 * n, max(low, epsilon // 2)
    while n <= most and epsilon < wishes[-1].epsilon_nano:
        wishes.append(Wish(n, epsilon, delta))
        n, epsilon = 2 * n, max(low, epsilon // 2)
    return tuple(wishes)


def _floor(one: Waiting) -> int:
    """The least that an aggressive look takes, in windows times nano-epsilon: twice as much as the last one."""
    return 0 if one.last is None else 2 * one.last.n_windows * one.last.loss.epsilon_nano


def looks_of_menu(one: Waiting, rows_per_window: int) -> tuple[Wish, ...]:
    """Return the pairs of a menu that the PTK may be given, the least loss first."""
    least, most = one.windows
    low, high = (loss.epsilon_nano for loss in one.losses)
    wishes = (
        Wish(max(least, -(-entry.n_rows // rows_per_window)), entry.loss.epsilon_nano, entry.loss.delta_atto)
        for entry in one.menu
    )
    fitting = {wish for wish in wishes if wish.n_windows <= most and low <= wish.epsilon_nano <= high}
    return tuple(sorted(fitting, key=lambda wish: (wish.epsilon_nano, wish)))


def in_turn(waiting: Sequence[Waiting]) -> list[Waiting]:
    """Return PTKs by arrival, then by name."""
    return sorted(waiting, key=lambda one: (one.arrived, one.ptk_id))


def _doublings(least: int, most: int) -> list[int]:
    """`least`, twice that, ..., and `most`."""
    steps = [least]
    while 2 * steps[-1] < most:
        steps.append(2 * steps[-1])
    return steps if steps[-1] == most else [*steps, most]


def _largest_on(n: int, one: Waiting, holding: Holding, charge_of: ChargeOf) -> Loss | None:
    """The largest loss of a PTK's range that its allowance covers on `n` windows; None if it covers none."""
    low, high = (loss.epsilon_nano for loss in one.losses)
    delta = one.losses[0].delta_atto

    def fits(epsilon_nano: int) -> bool:
        return len(holding.covering(charge_of(one.ptk_id, Loss(epsilon_nano, delta)))) >= n

    if not fits(low):
        return None
    if fits(high):
        return Loss(high, delta)
    guess = holding.nth_largest(n)  # exact where a charge is epsilon itself
    if low < guess < high and fits(guess):
        low = guess
        high = high if fits(guess + 1) else guess + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Loss(low, delta)
