"""The windows that serve a PTK that waits, if significance is measured (budgeting paper, Algorithm 2).

A comparison is charged to the profile part of a window, whose rows it reads, and a training to the train part. Here z
is the consumed share of the train part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ptkstore.domain.budgeting.blocks import Query
from ptkstore.domain.budgeting.online import Declined, Taken, ToCompare, next_step
from ptkstore.domain.budgeting.public import AskedWindows, WindowsLeft, asked_windows
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.scheduling.model import ChargeOf, Proposal, Waiting
from ptkstore.domain.scheduling.queues import Awaited


class Askable(StrEnum):
    """Whether the losses on a window can be compared, or released, now; public facts alone."""

    YES = "yes"
    LATER = "a comparison is under way"
    WITHOUT_VERSION = "there is no version that can be compared"
    UNAFFORDABLE = "the profile part cannot pay for the noise"


@dataclass(frozen=True, slots=True)
class ToAsk:
    """Windows that are to be compared before it is known whether they serve a PTK."""

    windows: tuple[int, ...]


@dataclass(slots=True)
class Sorted:
    """Windows by what they answer a PTK; `unknown` are those that are to be compared first."""

    serving: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    declined: set[Declined] = field(default_factory=set)

    def awaited(
        self, least: int, most: int, askable: Callable[[int], Askable], fewest: int | None = None
    ) -> Awaited | ToAsk | None:
        """Return what comes before a look at `most` windows; None if one at those that serve is to be taken now.

        Only as many are compared as are missing to the most, and none while fewer than `fewest` could serve, whatever
        they answer; by default that is the least. Enough windows wait for nobody's comparison.
        """
        states = {window: askable(window) for window in self.unknown}
        ready = [window for window, state in states.items() if state is Askable.YES]
        could = len(self.serving) + sum(one in (Askable.YES, Askable.LATER) for one in states.values())
        if ready and len(self.serving) < most and could >= (least if fewest is None else fewest):
            return ToAsk(tuple(sorted(ready[: most - len(self.serving)])))
        if len(self.serving) >= least:
            return None
        if Askable.LATER in states.values():
            return Awaited.COMPARISON
        if Declined.NOT_SIGNIFICANT in self.declined or Askable.WITHOUT_VERSION in states.values():
            return Awaited.SIGNIFICANCE
        if Declined.UNAFFORDABLE in self.declined or Askable.UNAFFORDABLE in states.values():
            return Awaited.BUDGET
        return Awaited.NEW_WINDOW


@dataclass(frozen=True, slots=True)
class MeasuredBudgeting:
    """The scheduler `budgeting` with a significance that noisy thresholds are compared with.

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
        answers: Mapping[int, bool],
        askable: Callable[[int], Askable],
        charge_of: ChargeOf,
        without: Collection[int] = (),
    ) -> Proposal | Awaited | ToAsk:
        """Return the next look of a PTK, what is to be compared first, or what it waits for.

        Parameters
        ----------
        answers : mapping of int to bool
            The answers of noisy thresholds of windows since it began to wait.
        askable : callable
            Whether that of a window can be asked.
        without : collection of int
            Windows that it may not read.

        Notes
        -----
        Newer windows come first. Only as many are compared as are missing to the most that it may read. Comparisons
        are made for the first pair of its menu, and answers count for that pair alone: the line of another one is
        higher. Another pair is served if enough windows take it without a comparison.
        """
        if one.under_way:
            return Awaited.VERDICT
        wishes = asked_windows(one, self.rows_per_window)
        (least, most, _), windows = wishes[0], sorted(set(left.windows()).difference(without), reverse=True)
        found = Sorted()
        for window in windows:
            match self.step(one, window, left, charge_of):
                case Taken():
                    found.serving.append(window)
                case ToCompare():
                    answer = answers.get(window)
                    if answer is None:
                        found.unknown.append(window)
                    elif answer:
                        found.serving.append(window)
                    else:
                        found.declined.add(Declined.NOT_SIGNIFICANT)
                case why:
                    found.declined.add(why)
        if len(found.serving) >= most:
            return self._proposal(one, wishes[0], found.serving, charge_of)
        for wish in wishes[1:]:
            takes = [w for w in windows if isinstance(self.step(one, w, left, charge_of, wish), Taken)]
            if len(takes) >= wish[0]:
                return self._proposal(one, wish, takes, charge_of)
        awaited = found.awaited(least, most, askable)
        return self._proposal(one, wishes[0], found.serving, charge_of) if awaited is None else awaited

    def _proposal(
        self, one: Waiting, wish: AskedWindows, serving: list[int], charge_of: ChargeOf
    ) -> Proposal:
        _, most, loss = wish
        windows = tuple(sorted(serving[:most]))
        n_rows = len(windows) * self.rows_per_window
        return Proposal(one.ptk_id, one.arrived, windows, loss, charge_of(one.ptk_id, loss), n_rows)

    def step(
        self,
        one: Waiting,
        window: int,
        left: WindowsLeft,
        charge_of: ChargeOf,
        wish: AskedWindows | None = None,
    ) -> Declined | Taken | ToCompare:
        """Return whether a window serves a PTK, as far as that is public; else the line that it asks for.

        Parameters
        ----------
        wish : AskedWindows, optional
            The PTK's request; by default the first that it makes, for which comparisons are made.
        """
        _, most, loss = wish or asked_windows(one, self.rows_per_window)[0]
        query = Query(one.ptk_id, loss.epsilon_nano, most, loss.epsilon_nano)
        charge = charge_of(one.ptk_id, loss)
        steps: list[Taken | ToCompare] = []
        for group in one.groups:  # a window serves with all its blocks that the PTK is trained on
            found = left.asked((window, group), query, charge)
            if isinstance(found, Declined):
                return found
            block, cost = found
            # the threshold is charged elsewhere: whether it can be paid for is asked of the profile part
            step = next_step(replace(block, threshold_paid=True), cost, self.rule)
            if isinstance(step, Declined):
                return step
            steps.append(step)
        compared = [step for step in steps if isinstance(step, ToCompare)]
        return max(compared, key=lambda step: step.line, default=steps[0])
