"""The strategy `adaptive` on a stream: allowances are read and divided, and waiting PTKs are given their next looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.adaptive import Adaptive
from ptkstore.domain.scheduling.allowances import Allowances, Share
from ptkstore.domain.scheduling.block_rooms import BlockRoom, coordinate_of
from ptkstore.domain.scheduling.model import ChargeOf, Waiting
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.streams.blocks import train_blocks
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import CatalogView, UnitOfWork


@dataclass(frozen=True, slots=True)
class SharedLine:
    """The waiting PTKs that pay from one line of the budget, and what each of them may use of which block."""

    name: str
    members: Mapping[str, WaitingPtk]
    room: Allowances
    charge_of: ChargeOf


def scheduler_of_policy(policy: Policy) -> Adaptive:
    """Return the strategy of an adaptive stream."""
    return Adaptive(partition_rows(policy), policy.scheduler_mode)


def adaptive_trainings(
    uow: UnitOfWork, stream: Stream, specs: Iterable[PtkSpec], now: datetime
) -> tuple[AskedTraining, ...]:
    """Divide what is free among those who wait, write it down, and return their next looks.

    The owner of a PTK that may have no more gets a notice, once for its last verdict.

    The caller has the stream's lock, and reserves in this transaction.
    """
    prepared = uow.windows.prepared(stream.name)
    waiting = waiting_anew(uow, stream, specs, prepared, now)
    lines = shared_lines(uow, stream, prepared, waiting)
    uow.waits.allow(stream.name, [share for line in lines for share in _allowed(line)])
    strategy = scheduler_of_policy(stream.policy)
    for one in waiting:
        if not strategy.may_have_more(one.facts):
            _notify_once(uow, one, now)
    tests, newest = RoomsForTests(uow, stream), max(prepared, default=-1)
    for one in (one for line in lines for one in line.members.values()):
        tests.expect(one)
    return tuple(
        asked_look(uow, line.members[proposal.ptk_id], proposal, stream.policy, now)
        for line in lines
        for proposal in strategy.propose(_ready(line, newest), line.room, line.charge_of)
        if tests.take(line.members[proposal.ptk_id], proposal.windows)
    )


def _notify_once(uow: UnitOfWork, one: WaitingPtk, now: datetime) -> None:
    last = uow.jobs.get(one.given.verdicts[-1].job_id)
    notice = Notice.of_run(last, Awaited.MORE_THAN_IT_MAY_HAVE.value, now)
    told = uow.notices_about(notice.team, one.spec.ptk_id, windows=[last.window.index], run=last.kind)
    if all((earlier.code, earlier.look) != (notice.code, notice.look) for earlier in told):
        uow.notify_owner(notice)


def _ready(line: SharedLine, newest: int) -> list[Waiting]:
    return [one.facts for one in line.members.values() if can_be_tried(one, newest)]


def shared_lines(
    uow: CatalogView, stream: Stream, prepared: Sequence[int], waiting: Sequence[WaitingPtk]
) -> list[SharedLine]:
    """Return the allowances of each line that somebody waits for, after a division of what is free.

    PTKs that may have no more are of no line: what they held is free.
    """
    by_line: dict[str, dict[str, WaitingPtk]] = {}
    strategy = scheduler_of_policy(stream.policy)
    for one in waiting:
        line = line_of(one.spec, stream.policy)
        if line is not None and strategy.may_have_more(one.facts):
            by_line.setdefault(line, {})[one.spec.ptk_id] = one
    allowed = uow.waits.allowed(stream.name)
    return [_shared(uow, stream, prepared, line, members, allowed) for line, members in by_line.items()]


def _shared(
    uow: CatalogView,
    stream: Stream,
    prepared: Sequence[int],
    line: str,
    members: Mapping[str, WaitingPtk],
    allowed: Sequence[Share],
) -> SharedLine:
    charged = charges_of({ptk_id: one.spec for ptk_id, one in members.items()}, stream.policy)
    mine = [share for share in allowed if share.ptk_id in members]
    waiting = [one.facts for one in members.values()]
    blocks = _rooms(uow, stream, prepared, line, members, mine, charged)
    at = {block.number: block.coordinate for block in blocks}
    unused = [_less_used(share, members) for share in mine if at.get(share.block) == share.coordinate]
    room = Allowances.of(blocks, waiting, unused, charged)
    room.divide()
    return SharedLine(line, members, room, charged)


def _rooms(
    uow: CatalogView,
    stream: Stream,
    prepared: Sequence[int],
    line: str,
    members: Mapping[str, WaitingPtk],
    allowed: Sequence[Share],
    charged: ChargeOf,
) -> list[BlockRoom]:
    """Return what train blocks of prepared windows have left; blocks that are retired have nothing.

    A block that somebody has an allowance of keeps its coordinate. Others get that of the least losses of all.
    """
    policy = stream.policy
    capacity = policy.lines[line]
    least = [charged(ptk_id, one.facts.losses[0]) for ptk_id, one in members.items()]
    usual = coordinate_of(policy.accountant, capacity, least)
    kept = {share.block: share.coordinate for share in allowed}
    places = {
        number: (window, group)
        for window in prepared
        for group, number in enumerate(train_blocks(WindowId(stream.name, window), policy, 0))
    }
    left = uow.ledger.filters(stream.name).left(line, places)
    rooms = []
    for number, caps in left.items():
        (window, group), coordinate = places[number], kept.get(number, usual)
        nano, atto = max(0, caps.amounts[coordinate]), max(0, caps.delta_atto)
        rooms.append(BlockRoom(number, window, coordinate, nano, atto, group=group))
    return rooms


def _less_used(share: Share, members: Mapping[str, WaitingPtk]) -> Share:
    nano, atto = members[share.ptk_id].given.used(share.block, share.coordinate)
    return replace(share, nano=max(0, share.nano - nano), delta_atto=max(0, share.delta_atto - atto))


def _allowed(line: SharedLine) -> Iterator[Share]:
    """The table of allowances: what each PTK may use, and what it has used of it."""
    coordinates = line.room.coordinates()
    unused = {(share.ptk_id, share.block): share for share in line.room.shares()}
    for ptk_id, one in sorted(line.members.items()):
        used = {block for request in one.given.charged for block in request.blocks}
        mine = {block for name, block in unused if name == ptk_id}
        for block in sorted(mine | (used & coordinates.keys())):
            coordinate = coordinates[block]
            left = unused.get((ptk_id, block), Share(ptk_id, block, 0, 0, coordinate))
            nano, atto = one.given.used(block, coordinate)
            yield replace(left, nano=left.nano + nano, delta_atto=left.delta_atto + atto)
