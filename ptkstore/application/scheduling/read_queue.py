"""The PTKs that wait on a stream: since when, with which allowances, and for what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ptkstore.application.scheduling.adaptive_trainings import (
    SharedLine,
    scheduler_of_policy,
    shared_lines,
)
from ptkstore.application.scheduling.budgeting_trainings import next_looks
from ptkstore.application.scheduling.comparisons import Comparisons
from ptkstore.application.scheduling.given_looks import Given, given_to_each
from ptkstore.application.scheduling.rooms_for_tests import RoomsForTests
from ptkstore.application.scheduling.waiting_ptks import WaitingPtk, can_be_tried, is_of_context, waiting_ptks
from ptkstore.domain.accounting.accountants import caps_of
from ptkstore.domain.ptks.accept_deadlines import GivenUp
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.scheduling.queues import WAITS_TOLD, Awaited, BlockShare, QueuedPtk, WaitSpan
from ptkstore.domain.scheduling.waits import VERSION, EndedWait, Wait
from ptkstore.domain.streams.blocks import place_of
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.validations import Validation
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import CatalogView, Read


def read_queue(stream: str, *, team: str | None = None, begin: Read) -> tuple[QueuedPtk, ...]:
    """Return the PTKs that wait on a stream, the first to arrive first.

    All of it follows from registrations, charges and released verdicts.

    Parameters
    ----------
    team : str, optional
        Of a stream with contexts, return the PTKs of this team's context alone: what one context learned from its
        verdicts is not told to another.

    Raises
    ------
    UnknownName
        No such stream.
    InvalidRequest
        Nobody waits on the stream: its scheduler is `allocate`.
    """
    with begin() as uow:
        owner = _with_queue(uow, stream)
        match owner.policy.scheduler:
            case Scheduler.ADAPTIVE:
                queued = _queue(uow, owner)
            case _:
                queued = _budgeted(uow, owner)
    queued = [one for one in queued if _is_told(one.ptk_id, team, owner.policy)]
    return tuple(sorted(queued, key=lambda one: (one.since, one.ptk_id)))


def read_waits(
    stream: str, *, team: str | None = None, ended: bool = False, limit: int = WAITS_TOLD, begin: Read
) -> tuple[WaitSpan, ...]:
    """Return when PTKs of a stream waited, of the waits that began last, the first to begin first.

    Of a PTK, the last wait and those that are kept after they ended.

    Parameters
    ----------
    team : str, optional
        As of `read_queue`.
    ended : bool
        Leave out waits that last.
    limit : int
        The most waits that an answer lists.

    Raises
    ------
    UnknownName, InvalidRequest
        As `read_queue` does.
    """
    with begin() as uow:
        owner = _with_queue(uow, stream)
        specs = {spec.ptk_id: spec for spec in uow.ptks.find(stream=stream)}
        kept = uow.waits.ended(
            stream, limit, None if team is None else owner.policy.sharing.teams_beside(team)
        )
        over = {(one.ptk_id, one.since) for one in kept}
        last = [
            wait
            for wait in uow.waits.of(stream).values()
            if wait.ptk_id in specs and (wait.ptk_id, wait.since) not in over
        ]
        both: tuple[EndedWait | Wait, ...] = (*kept, *last)
        told = [one for one in both if _is_told(one.ptk_id, team, owner.policy)]
        told.sort(key=lambda one: (one.since, one.ptk_id))
        if not ended:
            told = told[-limit:]
        verdicts = uow.validations.of_ptks({one.ptk_id for one in told if isinstance(one, EndedWait)})
        lasting = [one for one in told if isinstance(one, Wait)]
        given = given_to_each(uow, lasting, owner.policy)
        spans = tuple(
            _ended_span(one, verdicts[one.ptk_id], one.ptk_id in specs, _next_of(one, told))
            if isinstance(one, EndedWait)
            else _span(specs[one.ptk_id], one, given[one.ptk_id])
            for one in told
        )
        return tuple(one for one in spans if one.end is not None)[-limit:] if ended else spans


def _next_of(wait: EndedWait, told: Iterable[EndedWait | Wait]) -> datetime | None:
    """When the same PTK began to wait anew; None if it did not."""
    return min(
        (one.since for one in told if one.ptk_id == wait.ptk_id and one.since > wait.since), default=None
    )


def _ended_span(
    wait: EndedWait, verdicts: Sequence[Validation], registered: bool, anew: datetime | None
) -> WaitSpan:
    during = tuple(
        (one.at, str(one.verdict["decision"]))
        for one in verdicts
        if wait.since <= one.at
        and (wait.until is None or one.at <= wait.until)
        and (anew is None or one.at < anew)
    )
    until = wait.until
    if until is None and wait.end == GivenUp.REJECT.value and during:
        until = during[-1][0]
    return WaitSpan(wait.ptk_id, wait.since, until, wait.end, during, registered)


def _span(spec: PtkSpec, wait: Wait, given: Given) -> WaitSpan:
    """A wait whose end was not kept: it lasts, or ended with a version."""
    verdicts = tuple((one.at, str(one.verdict["decision"])) for one in given.verdicts)
    until, end = given.served_at, None if given.served_at is None else VERSION
    if end is None and spec.waiting is not None and spec.waiting.given_up is not None:
        end, until = spec.waiting.given_up.value, verdicts[-1][0] if verdicts else None
    return WaitSpan(wait.ptk_id, wait.since, until, end, verdicts)


def _with_queue(uow: CatalogView, stream: str) -> Stream:
    found = uow.streams.get(stream)
    if not found.policy.scheduler.lets_wait:
        raise InvalidRequest(
            f"stream {stream!r} has no queue: its scheduler {found.policy.scheduler.value!r} plans each window when it "
            "closes, so no PTK waits. PTKs wait on streams that were created with 'adaptive' or 'budgeting'"
        )
    return found


def _is_told(ptk_id: str, team: str | None, policy: Policy) -> bool:
    return team is None or is_of_context(ptk_id, team, policy)


def _queue(uow: CatalogView, stream: Stream) -> list[QueuedPtk]:
    prepared = uow.windows.prepared(stream.name)
    waiting, strategy = waiting_ptks(uow, stream), scheduler_of_policy(stream.policy)
    lines = shared_lines(uow, stream, prepared, waiting)
    tests = RoomsForTests(uow, stream)
    for one in (one for line in lines for one in line.members.values()):
        tests.expect(one)
    newest = max(prepared, default=-1)
    sharing = [
        _queued(
            one,
            _awaited(one, line, tests, newest, stream.policy),
            _shares(one.spec.ptk_id, line, stream.policy),
        )
        for line in lines
        for one in line.members.values()
    ]
    exhausted = [one for one in waiting if not strategy.may_have_more(one.facts)]
    return [*sharing, *(_queued(one, Awaited.MORE_THAN_IT_MAY_HAVE) for one in exhausted)]


def _budgeted(uow: CatalogView, stream: Stream) -> list[QueuedPtk]:
    """Nobody has an allowance: windows serve whom they teach enough."""
    prepared = uow.windows.prepared(stream.name)
    looks = next_looks(uow, stream, prepared, waiting_ptks(uow, stream), Comparisons(uow, stream))
    return [_queued(one, found if isinstance(found, Awaited) else Awaited.SCHEDULER) for one, found in looks]


def _queued(one: WaitingPtk, waits_for: Awaited, shares: tuple[BlockShare, ...] = ()) -> QueuedPtk:
    given = one.given
    return QueuedPtk(one.spec.ptk_id, one.wait.since, len(given.verdicts), given.decision, waits_for, shares)


def _shares(ptk_id: str, line: SharedLine, policy: Policy) -> tuple[BlockShare, ...]:
    caps = caps_of(policy.accountant, policy.lines[line.name])
    shares = []
    for share in line.room.shares():
        if share.ptk_id == ptk_id:
            place = place_of(share.block, policy)
            part = share.nano / caps.amounts[share.coordinate]
            shares.append(BlockShare(int(place.window or 0), place.group, round(part, 6)))
    return tuple(shares)


def _awaited(one: WaitingPtk, line: SharedLine, tests: RoomsForTests, newest: int, policy: Policy) -> Awaited:
    if not one.facts.under_way and not can_be_tried(one, newest):
        return Awaited.NEW_WINDOW
    found = scheduler_of_policy(policy).next_look(
        one.facts, line.room.of_ptk(one.spec.ptk_id), line.charge_of
    )
    if isinstance(found, Awaited):
        return found
    return Awaited.SCHEDULER if tests.take(one, found.windows) else Awaited.TEST_BLOCK
