"""The strategy `budgeting` on a stream: each window is asked whether it teaches a PTK enough for what it has left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from ptkstore.application.planning.window_plans import partition_rows
from ptkstore.application.scheduling.asked_trainings import AskedTraining, asked_look
from ptkstore.application.scheduling.rooms_for_tests import RoomsForTests
from ptkstore.application.scheduling.waiting_ptks import (
    WaitingPtk,
    can_be_tried,
    charges_of,
    line_of,
    waiting_anew,
)
from ptkstore.domain.accounting.accountants import caps_of
from ptkstore.domain.budgeting.declared import recency_of, rule_of
from ptkstore.domain.budgeting.public import PublicBudgeting, WindowsLeft
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.model import Proposal
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.streams.blocks import groups_of, train_blocks, windows_behind
from ptkstore.domain.streams.streams import Policy, Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import CatalogView, UnitOfWork


def budgeting_trainings(
    uow: UnitOfWork, stream: Stream, specs: Iterable[PtkSpec], now: datetime
) -> tuple[AskedTraining, ...]:
    """Return the next looks of those who wait and whom enough windows serve.

    The caller holds the stream's lock, and reserves in this transaction.
    """
    prepared = uow.windows.prepared(stream.name)
    waiting = waiting_anew(uow, stream, specs, prepared, now)
    return tuple(
        asked_look(uow, one, found, stream.policy, now)
        for one, found in next_looks(uow, stream, prepared, waiting)
        if isinstance(found, Proposal)
    )


def next_looks(
    uow: CatalogView, stream: Stream, prepared: Sequence[int], waiting: Sequence[WaitingPtk]
) -> Iterator[tuple[WaitingPtk, Proposal | Awaited]]:
    """Return the next look of each PTK that waits, or what it waits for; the first to arrive is served first.

    All of it follows from the policy, declarations, charges and released verdicts.
    """
    policy, tests = stream.policy, RoomsForTests(uow, stream)
    for one in waiting:
        tests.expect(one)
    newest = uow.streams.progress(stream.name).closed_before - 1
    budgeting = PublicBudgeting(rule_of(policy), partition_rows(policy))
    rooms: dict[str, WindowsLeft] = {}
    for one in sorted(waiting, key=lambda one: (one.facts.arrived, one.spec.ptk_id)):
        if (line := line_of(one.spec, policy)) is None:
            continue
        if line not in rooms:
            rooms[line] = _left_of(uow, stream, prepared, line)
        found = _next_look(one, rooms[line], budgeting, tests, newest, max(prepared, default=-1), policy)
        if isinstance(found, Proposal):
            rooms[line].take(found.windows, one.facts.groups, found.charge)
            tests.take(one, found.windows)
        yield one, found


def _next_look(
    one: WaitingPtk,
    left: WindowsLeft,
    budgeting: PublicBudgeting,
    tests: RoomsForTests,
    newest: int,
    newest_prepared: int,
    policy: Policy,
) -> Proposal | Awaited:
    if not one.facts.under_way and not can_be_tried(one, newest_prepared):
        return Awaited.NEW_WINDOW
    charged = charges_of({one.spec.ptk_id: one.spec}, policy)
    recency = recency_of(one.spec.config, policy)

    def significance(window: int) -> float:
        return recency.of(newest - window)

    read = _read_by(one, policy)
    untested = {window for window in left.windows() if not tests.has_room(one, (window,))}
    found = budgeting.next_look(one.facts, left, significance, charged, read | untested)
    if untested and not isinstance(found, Proposal):
        otherwise = budgeting.next_look(one.facts, left, significance, charged, read)
        return Awaited.TEST_BLOCK if isinstance(otherwise, Proposal) else found
    return found


def _read_by(one: WaitingPtk, policy: Policy) -> set[int]:
    """The windows that a PTK was given since it began to wait: a window serves it once."""
    return {
        window for request in one.given.charged for window in windows_behind(policy, request.blocks, newest=0)
    }


def _left_of(uow: CatalogView, stream: Stream, prepared: Sequence[int], line: str) -> WindowsLeft:
    policy = stream.policy
    places = {
        number: (window, group)
        for window in prepared
        for group, number in zip(
            range(groups_of(policy)), train_blocks(WindowId(stream.name, window), policy, 0), strict=True
        )
    }
    left = uow.ledger.filters(stream.name).left(line, places)
    caps = caps_of(policy.accountant, policy.sharing.lines(policy.capacity)[line])
    return WindowsLeft(caps, {places[number]: caps for number, caps in left.items()})
