"""The overview of a store: is it healthy, what needs somebody, what happened in the last day.

The console, `ptk status` and `GET /v1/overview` show these facts. Each reader sees what its roles allow. All of it is
public: ids, fixed codes, times and the figures of the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from ptkstore.application.identity.sight import EVERYTHING as EVERYTHING
from ptkstore.application.identity.sight import Sight
from ptkstore.application.operations.unfinished_work import WorkFacts, unfinished_work
from ptkstore.application.scheduling.given_looks import waits_that_last
from ptkstore.application.streams.exposure import PrivatePlaces, exposures_of, sentences_on
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.ledger.block_ledgers import BlockLedger
from ptkstore.domain.names import team_of
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.queues import Awaited
from ptkstore.domain.streams.blocks import BlockRange, BlockState, part_name, place_of, stride_of
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import start_of
from ptkstore.ports.catalog import CatalogView, Read
from ptkstore.ports.runtime import Clock

DAY = timedelta(days=1)
FAILURES_FOR = timedelta(days=7)
"""A failed training is shown for so long, or until the PTK has a newer version."""
NEARLY_SPENT = 0.9
"""The share of its capacity, spent or reserved, from which on an active block counts as nearly spent."""
STREAMS_MOST = 12
"""Streams whose budget and exposure are read, by name: each takes a few statements, all else is read at once."""
ITEMS_MOST = 50
"""Items of a list that are shown; the count beside them is of all."""
NOTICES_MOST = 1_000
"""Notices that are looked through for failed trainings, the newest first."""
NO_FAILURES = frozenset({"previous-state-unreadable", "recovered", Awaited.MORE_THAN_IT_MAY_HAVE.value})
"""Codes about a training that say something else than that it failed."""

_NO_BLOCK = 2**62
"""No block has this number, or a larger one."""

_T = TypeVar("_T")


class WaitsFor(StrEnum):
    """The event that a PTK waits for."""

    SCHEDULER = "scheduler"
    """Its next training, in the queue of an adaptive or budgeting stream."""
    ACCEPTED_VERSION = "accepted-version"
    """The first state of it that a validation accepts."""
    FIRST_VERSION = "first-version"
    """Its first training to end."""


@dataclass(frozen=True, slots=True)
class Listed(Generic[_T]):
    """The first `ITEMS_MOST` things of a list, and how many there are."""

    count: int
    items: tuple[_T, ...]

    @classmethod
    def of(cls, things: Sequence[_T]) -> Listed[_T]:
        """Return the list of these things."""
        return cls(len(things), tuple(things[:ITEMS_MOST]))


@dataclass(frozen=True, slots=True)
class FullestBlock:
    """The line of a block that has the least share of its capacity left.

    It is one of an active block, or of a retired one of the stream's newest window. `start` is the start of its
    window, None of a block that is a shard of users.
    """

    number: int
    window: int | None
    start: datetime | None
    part: str
    state: str
    line: str
    capacity_epsilon: float
    reserved_epsilon: float
    spent_epsilon: float
    share_used: float


@dataclass(frozen=True, slots=True)
class BudgetFacts:
    """Blocks of a stream that may still be charged, how many of them are nearly spent, and the fullest block."""

    active_blocks: int
    nearly_spent: int
    fullest: FullestBlock | None


@dataclass(frozen=True, slots=True)
class ExposureFacts:
    """Whether the exposure check of a stream passes, and its verdict in a sentence."""

    holds: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """A stream that the reader may see.

    `closed_windows` counts those that closed in the last day. `budget` and `exposure` are None where the roles do not
    allow them, beyond the first `STREAMS_MOST` streams, and while the store that has the answer is away.
    `closed_windows` is None where the roles allow neither of the two.
    """

    name: str
    team: str
    ptks: int
    closed_windows: int | None
    budget: BudgetFacts | None
    exposure: ExposureFacts | None


@dataclass(frozen=True, slots=True)
class FailedTraining:
    """The newest training of a PTK that ended without a version, while no newer version of it came."""

    ptk_id: str
    window: int
    code: str
    at: datetime


@dataclass(frozen=True, slots=True)
class GivenUpPtk:
    """A PTK that is trained no longer, and why; `ptk resume` may train it again."""

    ptk_id: str
    code: str


@dataclass(frozen=True, slots=True)
class WaitingFacts:
    """A PTK that waits, for what, and since when if that is on record."""

    ptk_id: str
    waits_for: WaitsFor
    since: datetime | None


@dataclass(frozen=True, slots=True)
class TroubledSubscription:
    """A subscription that is failing or disabled, or has dead letters; `code` is of its last failure."""

    id: str
    ptk_id: str
    status: str
    dead_letters: int
    code: str | None


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A version that was elected in the last day."""

    ptk_id: str
    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Overview:
    """All of it, as of `at`; what is of the last day is of the time from `since` on.

    Attributes
    ----------
    parts : mapping
        The state of each part of the service: `ok`, `failing`, `unused`, `silent` or `lost`; in a home also `starting`.
    failing : tuple of str
        The parts for which the service is not ready; none where it is healthy.
    ptks : int
        Registered PTKs on the streams that the reader may see.
    subscriptions : int or None
        Subscriptions of the reader's team; None where its roles do not allow it to list them. Each of the lists is
        None in the same case. `work` is None where an earlier service does not tell it. `published` is None where the
        roles allow the states of none of the streams.
    """

    at: datetime
    since: datetime
    parts: Mapping[str, str]
    failing: tuple[str, ...]
    streams: tuple[StreamFacts, ...]
    ptks: int
    failed_trainings: Listed[FailedTraining] | None
    given_up: Listed[GivenUpPtk]
    waiting: Listed[WaitingFacts]
    work: Listed[WorkFacts] | None
    subscriptions: int | None
    troubled_subscriptions: Listed[TroubledSubscription] | None
    published: Listed[PublishedVersion] | None
    notices: Listed[Notice] | None

    @property
    def healthy(self) -> bool:
        """Whether no part of the service fails."""
        return not self.failing


def read_overview(
    sight: Sight,
    parts: Mapping[str, str],
    failing: Sequence[str],
    *,
    begin: Read,
    clock: Clock,
    private: PrivatePlaces,
) -> Overview:
    """Read what a reader may see of it, in a few statements and a few more for each of the first streams."""
    now = clock.now()
    since = now - DAY
    with begin() as uow:
        streams = [one for one in uow.streams.all() if _sees(sight.streams, one.name)]
        names = {one.name for one in streams}
        specs = [spec for spec in uow.ptks.find() if spec.stream in names]
        elected = uow.versions.elected_since(now - FAILURES_FOR)
        placed = uow.jobs.placed()
        closed = uow.windows.closed_since(since)
        notices = (
            uow.notices(sight.team, since=now - FAILURES_FOR, limit=NOTICES_MOST, newest=True)
            if sight.reads_notices
            else None
        )
        waiting = _waiting(uow, streams, specs, placed, sight)
        first = [one for one in streams if _sees(sight.budgets, one.name)][:STREAMS_MOST]
        blocks = {one.name: _kept_blocks(uow, one) for one in first}
        subscriptions = uow.subscriptions.of(None, team=sight.team) if sight.reads_subscriptions else None
        missed = uow.subscriptions.missed([one.id for one in subscriptions or ()])
        work = unfinished_work(uow, sight, names, now)
    own = {spec.ptk_id: spec for spec in specs}
    seen = [one for one in elected if one[0] in own and _sees(sight.states, own[one[0]].stream)]
    checked = [one for one in streams if _sees(sight.exposures, one.name)][:STREAMS_MOST]
    found = exposures_of(checked, specs, begin=begin, clock=clock, private=private)
    exposures = {name: ExposureFacts(one.holds, sentences_on(one)[0]) for name, one in found.items()}
    troubled = None
    if subscriptions is not None:
        troubled = [
            TroubledSubscription(
                one.id,
                one.ptk_id,
                one.status,
                missed.get(one.id, 0),
                one.disabled_code or one.health.last_code,
            )
            for one in subscriptions
            if one.status != "ok" or missed.get(one.id)
        ]
    return Overview(
        at=now,
        since=since,
        parts=dict(parts),
        failing=tuple(failing),
        streams=tuple(
            StreamFacts(
                one.name,
                one.team,
                sum(spec.stream == one.name for spec in specs),
                closed.get(one.name, 0)
                if _sees(sight.budgets, one.name) or _sees(sight.exposures, one.name)
                else None,
                _budget(blocks[one.name], one.policy) if one.name in blocks else None,
                exposures.get(one.name),
            )
            for one in streams
        ),
        ptks=len(specs),
        failed_trainings=None if notices is None else Listed.of(_failed(notices, elected, own)),
        given_up=Listed.of(
            [
                GivenUpPtk(spec.ptk_id, spec.waiting.given_up.value)
                for spec in specs
                if spec.waiting is not None and spec.waiting.given_up is not None
            ]
        ),
        waiting=Listed.of(waiting),
        work=Listed.of(work),
        subscriptions=None if subscriptions is None else len(subscriptions),
        troubled_subscriptions=None if troubled is None else Listed.of(troubled),
        published=Listed.of([PublishedVersion(*one) for one in reversed(seen) if one[2] >= since])
        if not streams or any(_sees(sight.states, one.name) for one in streams)
        else None,
        notices=None if notices is None else Listed.of([one for one in notices if one.at >= since]),
    )


def _sees(allowed: frozenset[str] | None, stream: str) -> bool:
    return allowed is None or stream in allowed


def _failed(
    notices: Sequence[Notice],
    elected: Sequence[tuple[str, int, datetime]],
    specs: Mapping[str, PtkSpec],
) -> list[FailedTraining]:
    """The newest failure of each registered PTK that no version followed, the newest first."""
    newest = {ptk_id: at for ptk_id, _, at in elected}
    told: dict[str, Notice] = {}
    for one in notices:
        if one.ptk_id in specs and _is_failure(one):
            told.setdefault(str(one.ptk_id), one)
    return [
        FailedTraining(ptk_id, int(one.window_index or 0), one.code, one.at)
        for ptk_id, one in told.items()
        if ptk_id not in newest or newest[ptk_id] < one.at
    ]


def _is_failure(notice: Notice) -> bool:
    if notice.window_index is None or notice.code in NO_FAILURES:
        return False
    if notice.run is JobKind.VALIDATE:  # other words of it are its verdicts
        return not notice.code.startswith("validation-")
    return notice.run in (None, JobKind.AVERAGE)


def _waiting(
    uow: CatalogView,
    streams: Sequence[Stream],
    specs: Sequence[PtkSpec],
    placed: Mapping[str, int],
    sight: Sight,
) -> list[WaitingFacts]:
    """PTKs in queues that the reader may see, and those without a version, by id."""
    queued: dict[str, WaitingFacts] = {}
    with_queue = {one.name for one in streams if one.policy.scheduler.lets_wait}
    for stream in (one for one in streams if one.name in with_queue and _sees(sight.budgets, one.name)):
        mine = [spec for spec in specs if spec.stream == stream.name]
        for wait in waits_that_last(uow, stream, mine):
            if sight.context is None or stream.policy.sharing.same_context(
                team_of(wait.ptk_id), sight.context
            ):
                queued[wait.ptk_id] = WaitingFacts(wait.ptk_id, WaitsFor.SCHEDULER, wait.since)
    found = []
    for spec in specs:
        if spec.ptk_id in queued:
            found.append(queued[spec.ptk_id])
        elif spec.stream in with_queue or spec.has_given_up or not _sees(sight.states, spec.stream):
            continue
        elif not placed.get(spec.ptk_id):
            waits_for = WaitsFor.FIRST_VERSION if spec.waiting is None else WaitsFor.ACCEPTED_VERSION
            found.append(WaitingFacts(spec.ptk_id, waits_for, None))
    return found


def _kept_blocks(uow: CatalogView, stream: Stream) -> Sequence[BlockLedger]:
    """The blocks of windows that have not expired, or all where blocks belong to no window: others are erased."""
    if stream.policy.privacy_unit is PrivacyUnit.USER:
        return uow.ledger.blocks(stream.name)
    first = uow.windows.first_kept(stream.name) * stride_of(stream.policy)
    return uow.ledger.blocks(stream.name, BlockRange(first, _NO_BLOCK))


def _budget(blocks: Sequence[BlockLedger], policy: Policy) -> BudgetFacts:
    active = [one for one in blocks if one.state is BlockState.ACTIVE]
    used = [(_used(one), one.number, one) for one in (*active, *_retired_in_newest_window(blocks, policy))]
    nearly = {number for share, number, _ in used[: len(active)] if share >= NEARLY_SPENT}
    fullest = max(used, key=lambda one: one[:2], default=(0.0, 0, None))[2]
    return BudgetFacts(
        len({one.number for one in active}),
        len(nearly),
        None if fullest is None else _fullest(fullest, policy),
    )


def _retired_in_newest_window(blocks: Sequence[BlockLedger], policy: Policy) -> list[BlockLedger]:
    """Retired blocks of the newest window whose blocks are not all erased: where all is spent, as planned."""
    last = max((one.number for one in blocks if one.state is not BlockState.ERASED), default=0)
    newest = place_of(last, policy).window or 0
    retired = [one for one in blocks if one.state is BlockState.RETIRED]
    return [one for one in retired if place_of(one.number, policy).window == newest]


def _used(block: BlockLedger) -> float:
    """The share of a line's capacity that is spent or reserved."""
    capacity = block.capacity.epsilon_nano
    return 1.0 - block.left.epsilon_nano / capacity if capacity else 0.0


def _fullest(block: BlockLedger, policy: Policy) -> FullestBlock:
    place = place_of(block.number, policy)
    return FullestBlock(
        block.number,
        place.window,
        None if place.window is None else start_of(policy, place.window),
        part_name(place.part),
        block.state.value,
        block.line,
        block.capacity.epsilon,
        block.reserved.epsilon,
        block.spent.epsilon,
        round(_used(block), 4),
    )
