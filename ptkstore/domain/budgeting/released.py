"""The windows that serve a PTK, and its loss, if noisy losses are released (budgeting paper, Algorithm 3).

A release is charged to the profile part of a window, whose rows it reads, and a training to the train part. All else
follows from the number that was released, from charges and from declarations.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache

from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.budgeting.blocks import Query
from ptkstore.domain.budgeting.measured import Askable, Sorted, ToAsk
from ptkstore.domain.budgeting.online import Declined
from ptkstore.domain.budgeting.partial import next_release, worth
from ptkstore.domain.budgeting.public import AskedWindows, WindowsLeft, asked_windows
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.scheduling.model import ChargeOf, Proposal, Waiting
from ptkstore.domain.scheduling.queues import Awaited

STEPS = 8
"""Losses between the least and the largest of a PTK that a window can grant."""


@dataclass(frozen=True, slots=True)
class ReleasedBudgeting:
    """The scheduler `budgeting` with noisy losses that are released.

    A window grants a PTK eps*: the noisy losses over the threshold U / (1 + ln(U/L)), less epsilon_0. It grants no
    more than the largest loss that the PTK may have, no more than its train blocks still have, and nothing below the
    least loss that the PTK asks for. The grant is rounded down to one of `STEPS` losses between these two, so that few
    losses have to be priced, whatever was released.

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
        released: Mapping[int, float | None],
        askable: Callable[[int], Askable],
        charge_of: ChargeOf,
        without: Collection[int] = (),
    ) -> Proposal | Awaited | ToAsk:
        """Return the next look of a PTK, where losses are to be released first, or what it waits for.

        Parameters
        ----------
        released : mapping of int to float or None
            The noisy losses of its version on windows, in clipped losses. None where a release failed, which grants
            nothing.
        askable : callable
            Whether those on a window can be released.
        without : collection of int
            Windows that it may not read.

        Notes
        -----
        One training over several windows has one loss, which each of them pays: the least that any of them grants. The
        PTK reads those windows of which the number of windows times this loss is largest. Of equal ones it reads the
        most windows, for the noise of a model falls with both. So a window that grants little does not take away what
        the others grant.

        Newer windows are released first, and only as many as are missing to the most that the PTK may read. Numbers
        that were released count for each pair of its menu.
        """
        if one.under_way:
            return Awaited.VERDICT
        charged = _remembered(one, charge_of)
        windows = sorted(set(left.windows()).difference(without), reverse=True)
        wishes = asked_windows(one, self.rows_per_window)
        (least, most, _), found = wishes[0], Sorted()
        grants: dict[int, Loss] = {}
        for window in windows:
            match self._granted(one, window, left, released, charged, wishes[0]):
                case Loss() as grant:
                    found.serving.append(window)
                    grants[window] = grant
                case None:
                    found.unknown.append(window)
                case why:
                    found.declined.add(why)
        if len(grants) >= most:
            return self._proposal(one, wishes[0], grants, charged)
        for wish in wishes[1:]:
            others = {
                window: other
                for window in windows
                if isinstance(other := self._granted(one, window, left, released, charged, wish), Loss)
            }
            if len(others) >= wish[0]:
                return self._proposal(one, wish, others, charged)
        awaited = found.awaited(least, most, askable, min(wish[0] for wish in wishes))
        return self._proposal(one, wishes[0], grants, charged) if awaited is None else awaited

    def declines(
        self, one: Waiting, window: int, left: WindowsLeft, charge_of: ChargeOf, loss: Loss | None = None
    ) -> Declined | None:
        """Return why a window cannot serve a PTK with a loss; None if its train blocks can pay for that.

        Parameters
        ----------
        loss : Loss, optional
            By default the least that the PTK asks for. Without it nothing is released.
        """
        due = asked_windows(one, self.rows_per_window)[0][2] if loss is None else loss
        query = Query(one.ptk_id, due.epsilon_nano, one.windows[1], due.epsilon_nano)
        charge = charge_of(one.ptk_id, due)
        for group in one.groups:
            found = left.asked((window, group), query, charge)
            if isinstance(found, Declined):
                return found
            # the release is charged elsewhere: whether it can be paid for is asked of the profile part
            step = next_release(*found, self.rule, 1.0, paid_elsewhere=True)
            if isinstance(step, Declined):
                return step
        return None

    def _granted(
        self,
        one: Waiting,
        window: int,
        left: WindowsLeft,
        released: Mapping[int, float | None],
        charge_of: ChargeOf,
        wish: AskedWindows,
    ) -> Loss | Declined | None:
        """The grant of a window; None if a number is to be released first."""
        low, delta = wish[2].epsilon_nano, wish[2].delta_atto
        if declined := self.declines(one, window, left, charge_of, wish[2]):
            return declined
        if window not in released:
            return None
        noisy = released[window]
        if noisy is None or (enough := worth(self.rule, noisy)) < low:
            return Declined.NOT_SIGNIFICANT
        steps = [
            Loss(step, delta) for step in steps_between(low, one.losses[1].epsilon_nano) if step <= enough
        ]
        least_missed = bisect(
            steps, 0, lo=1, key=lambda loss: self._misses(one, window, left, charge_of, loss)
        )
        return steps[least_missed - 1]  # the first one fits

    def _misses(self, one: Waiting, window: int, left: WindowsLeft, charge_of: ChargeOf, loss: Loss) -> bool:
        return self.declines(one, window, left, charge_of, loss) is not None

    def _proposal(
        self, one: Waiting, wish: AskedWindows, grants: Mapping[int, Loss], charge_of: ChargeOf
    ) -> Proposal:
        least, most, _ = wish
        best = sorted(grants, key=lambda window: (-grants[window].epsilon_nano, -window))[:most]
        n = max(range(least, len(best) + 1), key=lambda n: (n * grants[best[n - 1]].epsilon_nano, n))
        loss, n_rows = grants[best[n - 1]], n * self.rows_per_window
        charge = charge_of(one.ptk_id, loss)
        return Proposal(one.ptk_id, one.arrived, tuple(sorted(best[:n])), loss, charge, n_rows)


def steps_between(least_nano: int, most_nano: int) -> list[int]:
    """Return `STEPS` epsilons from the least to the most, evenly on a log scale; the least alone if most is less."""
    if most_nano <= least_nano:
        return [least_nano]
    ratio = most_nano / least_nano
    between = (round(least_nano * ratio ** (k / (STEPS - 1))) for k in range(1, STEPS - 1))
    return sorted({least_nano, *between, most_nano})


def _remembered(one: Waiting, charge_of: ChargeOf) -> ChargeOf:
    """A charge takes an accountant some time, and many windows ask for the same."""

    @cache
    def charged(loss: Loss) -> Charge:
        return charge_of(one.ptk_id, loss)

    return lambda _, loss: charged(loss)
