"""The strategy `budgeting` on a stream: each window is asked whether it teaches a PTK enough for what it has left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from datetime import datetime
from typing import Final

from ptkstore.application.planning.window_plans import partition_rows
from ptkstore.application.scheduling.asked_trainings import AskedTraining, asked_look
from ptkstore.application.scheduling.comparisons import Comparisons
from ptkstore.application.scheduling.lines_asked import left_of
from ptkstore.application.scheduling.rooms_for_tests import RoomsForTests
from ptkstore.application.scheduling.waiting_ptks import (
    WaitingPtk,
    can_be_tried,
    charges_of,
    line_of,
    waiting_anew,
)
from ptkstore.domain.budgeting.declared import recency_of, rule_of
from ptkstore.domain.budgeting.measured import MeasuredBudgeting, ToAsk
from ptkstore.domain.budgeting.public import PublicBudgeting, WindowsLeft
from ptkstore.domain.budgeting.released import ReleasedBudgeting
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.choices import ServedFirst, Significance
from ptkstore.domain.scheduling.model import Proposal
from ptkstore.domain.scheduling.orders import ORDERS, Order
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.scheduling.serving import served_in_turn
from ptkstore.domain.streams.blocks import windows_behind
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.ports.catalog import CatalogView, UnitOfWork

PASSED_OVER: Final = "passed-over"
PASSED_OVER_WINDOWS: Final = 7
"""An owner is told that others are served first once a PTK has waited for as long as so many windows last."""


def budgeting_trainings(
    uow: UnitOfWork, stream: Stream, specs: Iterable[PtkSpec], now: datetime
) -> tuple[AskedTraining, ...]:
    """Return the next looks of those who wait and whom enough windows serve.

    The owner of a PTK that has waited for long while others are served first gets a notice, once for each wait.

    The caller has the stream's lock, and reserves in this transaction.
    """
    prepared = uow.windows.prepared(stream.name)
    waiting = waiting_anew(uow, stream, specs, prepared, now)
    asked: list[AskedTraining] = []
    comparisons = Comparisons(uow, stream)

    def passed_over(one: WaitingPtk) -> None:
        if now - one.wait.since >= PASSED_OVER_WINDOWS * stream.policy.window:
            _notify_once(uow, one, now)

    for one, found in next_looks(uow, stream, prepared, waiting, comparisons, passed_over):
        if isinstance(found, Proposal):
            asked.append(asked_look(uow, one, found, stream.policy, now))
        elif isinstance(found, ToAsk):
            asked += comparisons.asked(one, found.windows, now)
    return tuple(asked)


def _notify_once(uow: UnitOfWork, one: WaitingPtk, now: datetime) -> None:
    told = uow.notices_about(one.spec.team, one.spec.ptk_id)
    if all(earlier.code != PASSED_OVER or earlier.at < one.wait.since for earlier in told):
        uow.notify_owner(Notice(now, one.spec.team, PASSED_OVER, ptk_id=one.spec.ptk_id))


def next_looks(
    uow: CatalogView,
    stream: Stream,
    prepared: Sequence[int],
    waiting: Sequence[WaitingPtk],
    comparisons: Comparisons,
    passed_over: Callable[[WaitingPtk], object] | None = None,
) -> Iterator[tuple[WaitingPtk, Proposal | Awaited | ToAsk]]:
    """Return the next look of each PTK that waits, or what it waits for.

    They are asked as they arrived. Of those who could all be served, the policy says who is first. A comparison has to
    be noted before the next PTK is asked for.

    All of it follows from the policy, declarations, charges and released verdicts.

    Parameters
    ----------
    prepared : sequence of int
        The windows that are prepared.
    waiting : sequence
        Those who wait.
    comparisons : Comparisons
        Of the stream.
    passed_over : callable, optional
        Called with who would be served if others were not served first.
    """
    policy, tests = stream.policy, RoomsForTests(uow, stream)
    for one in waiting:
        tests.expect(one)
    newest = uow.streams.progress(stream.name).closed_before - 1
    newest_prepared = max(prepared, default=-1)
    rooms: dict[str, WindowsLeft] = {}

    def room(one: WaitingPtk) -> WindowsLeft:
        line = str(line_of(one.spec, policy))
        if line not in rooms:
            rooms[line] = left_of(uow, stream, prepared, line)
        return rooms[line]

    def next_look(one: WaitingPtk) -> Proposal | Awaited | ToAsk:
        return _next_look(one, room(one), comparisons, tests, newest, newest_prepared, policy)

    def take(one: WaitingPtk, found: Proposal) -> None:
        room(one).take(found.windows, one.facts.groups, found.charge)
        tests.take(one, found.windows)

    def in_order(could: Sequence[tuple[WaitingPtk, Proposal]]) -> Iterator[WaitingPtk]:
        for line, left in rooms.items():
            those = [(one, found) for one, found in could if line_of(one.spec, policy) == line]
            if those:
                yield from _in_order(those, left, ORDERS[policy.served_first])

    arrived = sorted(waiting, key=lambda one: (one.facts.arrived, one.spec.ptk_id))
    yield from served_in_turn(
        [one for one in arrived if line_of(one.spec, policy) is not None],
        next_look,
        take,
        None if policy.served_first is ServedFirst.ARRIVAL else in_order,
        passed_over,
    )


def _in_order(
    could: Sequence[tuple[WaitingPtk, Proposal]], left: WindowsLeft, order: Order
) -> list[WaitingPtk]:
    """Return who could all be served by what a line has left, in this order."""
    names = {one.spec.ptk_id: one for one, _ in could}
    proposals = [(found, one.facts.groups) for one, found in could]
    return [names[ptk_id] for ptk_id in left.served_first(proposals, order)]


def _next_look(
    one: WaitingPtk,
    left: WindowsLeft,
    comparisons: Comparisons,
    tests: RoomsForTests,
    newest: int,
    newest_prepared: int,
    policy: Policy,
) -> Proposal | Awaited | ToAsk:
    if not one.facts.under_way and not can_be_tried(one, newest_prepared):
        return Awaited.NEW_WINDOW
    charged = charges_of({one.spec.ptk_id: one.spec}, policy)
    recency = recency_of(one.spec.config, policy)
    rule, rows = rule_of(policy), partition_rows(policy)

    def without(windows: Set[int]) -> Proposal | Awaited | ToAsk:
        if policy.significance is Significance.RECENCY:
            public = PublicBudgeting(rule, rows)
            return public.next_look(
                one.facts, left, lambda window: recency.of(newest - window), charged, windows
            )
        answers, askable = comparisons.answers(one), comparisons.askable(one)
        if policy.significance is Significance.RELEASED_LOSS and comparisons.version_of(one):
            released = comparisons.released(one)
            return ReleasedBudgeting(rule, rows).next_look(
                one.facts, left, released, askable, charged, windows
            )
        return MeasuredBudgeting(rule, rows).next_look(one.facts, left, answers, askable, charged, windows)

    read = _read_by(one, policy)
    untested = {window for window in left.windows() if not tests.has_room(one, (window,))}
    found = without(read | untested)
    if untested and not isinstance(found, Proposal | ToAsk):
        return found if isinstance(without(read), Awaited) else Awaited.TEST_BLOCK
    return found


def _read_by(one: WaitingPtk, policy: Policy) -> set[int]:
    """The windows that a PTK was given since it began to wait: a window serves it once."""
    return {
        window for request in one.given.charged for window in windows_behind(policy, request.blocks, newest=0)
    }
