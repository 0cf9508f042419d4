"""The jobs that may be worked on, as a condition in SQL that reads unfinished jobs alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)

from ptkstore.adapters.sql import tables as t
from ptkstore.domain.jobs import LONGEST_LEASE, WHILE_KEPT, JobKind, Outcome, latest_due

# literals, for the indexes of unfinished jobs
_STATES: tuple[ColumnElement[str], ...] = (literal_column("'ready'"), literal_column("'opened'"))
_LATEST: dict[timedelta, list[JobKind]] = {}  # kinds that can be due equally far ahead
for _kind in JobKind:
    _LATEST.setdefault(latest_due(_kind), []).append(_kind)


def _time(name: str) -> BindParameter[datetime]:
    return bindparam(name, type_=t.Instant())


def _latest(ahead: timedelta) -> str:
    return f"latest_{ahead // timedelta(minutes=1)}"


def is_unfinished(jobs: Any) -> ColumnElement[bool]:
    """Match jobs that want work, as the indexes of unfinished jobs have it, so that they serve."""
    condition: ColumnElement[bool] = jobs.c.state.in_(_STATES)
    return condition


def of_kind(jobs: Any, *kinds: JobKind) -> ColumnElement[bool]:
    """Match jobs of these kinds, written as literals: drivers take some time for each parameter of a look."""
    condition: ColumnElement[bool] = jobs.c.kind.in_([literal_column(f"'{kind.value}'") for kind in kinds])
    return condition


def is_refused_average(jobs: Any) -> ColumnElement[bool]:
    """Match averages that were refused, as their index has it, so that it serves."""
    is_average = jobs.c.kind == literal_column(f"'{JobKind.AVERAGE.value}'")
    return and_(is_average, jobs.c.outcome == literal_column(f"'{Outcome.REFUSED.value}'"))


def oldest_window(jobs: Any) -> ColumnElement[int]:
    """Read the oldest window that a job is about: that of one window is its only one."""
    return func.coalesce(jobs.c.oldest_window, jobs.c.window_index)


def at(now: datetime) -> dict[str, datetime]:
    """Return the times in these conditions. They are parameters, so that a query is built once."""
    latest = {_latest(ahead): now + ahead for ahead in _LATEST}
    return {"now": now, "longest_lease": now + LONGEST_LEASE, **latest}


def leased(jobs: Any) -> ColumnElement[bool]:
    """Match jobs that somebody works on, which then are unfinished; saving a job drops its lease.

    A lease longer than there are any was given by a clock that had jumped ahead.
    """
    return and_(jobs.c.lease_until > _time("now"), jobs.c.lease_until <= _time("longest_lease"))


def has_come(jobs: Any) -> ColumnElement[bool]:
    """Match jobs that are due, or due at a time that only a clock that had jumped ahead can have set."""
    latest = case(*((of_kind(jobs, *kinds), _time(_latest(ahead))) for ahead, kinds in _LATEST.items()))
    return or_(jobs.c.due_at <= _time("now"), jobs.c.due_at > latest)


_OTHER = t.jobs.alias("other")
_OF_SAME_PTK = _OTHER.c.ptk_id == t.jobs.c.ptk_id

_UNCOLLECTED = exists().where(
    is_unfinished(_OTHER),
    of_kind(_OTHER, JobKind.PARTIAL),
    _OF_SAME_PTK,
    _OTHER.c.window_index == t.jobs.c.window_index,
    _OTHER.c.look == t.jobs.c.look,
)
"""A partial of the training is to be collected."""

_UNQUEUED = exists().where(
    is_unfinished(_OTHER),
    of_kind(_OTHER, JobKind.PREPARE, JobKind.ALLOCATE),
    _OTHER.c.stream == t.jobs.c.stream,
    _OTHER.c.window_index < t.jobs.c.window_index,
)
"""Trainings on an earlier window may still be queued."""

_UNVALIDATED = exists().where(is_unfinished(_OTHER), of_kind(_OTHER, JobKind.VALIDATE), _OF_SAME_PTK)
"""A trained state of the PTK waits for its verdict."""

_NEWEST = (
    select(func.coalesce(func.max(t.versions.c.number), 0))
    .where(t.versions.c.ptk_id == _OTHER.c.ptk_id)
    .correlate(_OTHER)
    .scalar_subquery()
)
_UNPLACED = exists().where(of_kind(_OTHER, JobKind.PLACE), _OF_SAME_PTK, _OTHER.c.position < _NEWEST)
"""The last elected state is not in the lake."""

_UNSHOWN = exists().where(of_kind(_OTHER, JobKind.PLACE), _OF_SAME_PTK, _OTHER.c.position < t.jobs.c.version)
"""The version to evaluate is not in the lake."""

_WORKS = and_(leased(_OTHER), of_kind(_OTHER, *WHILE_KEPT), _OTHER.c.window_index.is_not(None))
# found once, as they are few, instead of looked for once for each window
_WORKED_ON = select(_OTHER.c.stream, _OTHER.c.window_index).where(_WORKS)
_SEVERAL = and_(_WORKS, _OTHER.c.oldest_window.is_not(None))
_WORKED_ON_WITH_OTHERS = and_(
    exists().where(_SEVERAL),  # asked once for all jobs, and mostly false
    exists().where(
        _SEVERAL,
        # not by the index of streams, in which SQLite would read all later windows' jobs for each window
        func.coalesce(_OTHER.c.stream, "") == t.jobs.c.stream,
        _OTHER.c.oldest_window <= t.jobs.c.window_index,
        _OTHER.c.window_index > t.jobs.c.window_index,
    ),
)
"""Somebody works on several windows, of which the job's is not the newest."""


def _is_first(*, of_many: bool) -> ColumnElement[bool]:
    """Whether a training is the first unfinished one of its PTK.

    If the claimable ones of `of_many` jobs are sought, the first training of each PTK is found once for all of them.
    For a single job that would cost more than a look at those of its own PTK.
    """
    trains, window = and_(is_unfinished(_OTHER), of_kind(_OTHER, JobKind.TRAIN)), _OTHER.c.window_index
    other_look = (trains, _OF_SAME_PTK, window == t.jobs.c.window_index, _OTHER.c.look < t.jobs.c.look)
    is_first_look = or_(t.jobs.c.look == 1, ~exists().where(*other_look))
    if of_many:
        firsts = select(_OTHER.c.ptk_id, func.min(window)).where(trains).group_by(_OTHER.c.ptk_id)
        return tuple_(t.jobs.c.ptk_id, t.jobs.c.window_index).in_(firsts) & is_first_look
    return ~exists().where(trains, _OF_SAME_PTK, window < t.jobs.c.window_index) & is_first_look


_UNAVERAGED = exists().where(
    is_unfinished(_OTHER),
    of_kind(_OTHER, JobKind.AVERAGE),
    _OF_SAME_PTK,
    _OTHER.c.window_index < t.jobs.c.window_index,
)
"""An average of an earlier window is yet to be published."""


def claimable(*, of_many: bool) -> ColumnElement[bool]:
    """Match jobs that are due, unleased, and wait for nothing unfinished.

    A training continues from the PTK's last state. It waits for earlier trainings, and for earlier windows whose
    trainings are still to be queued. It also waits for the verdict on the last trained state, and until the last
    elected one is in the lake.
    Once it is split it waits for its partials. An evaluation waits for its version to be in the lake, an expiry for
    runs that hold a live lease on its window.
    """
    waits_for_nothing = _is_first(of_many=of_many) & ~_UNCOLLECTED & ~_UNQUEUED & ~_UNVALIDATED & ~_UNPLACED
    busy = tuple_(t.jobs.c.stream, t.jobs.c.window_index).in_(_WORKED_ON)
    return and_(
        is_unfinished(t.jobs),
        has_come(t.jobs),
        or_(t.jobs.c.lease_until.is_(None), ~leased(t.jobs)),
        or_(~of_kind(t.jobs, JobKind.TRAIN), waits_for_nothing),
        or_(~of_kind(t.jobs, JobKind.EVALUATE), ~_UNSHOWN),
        or_(~of_kind(t.jobs, JobKind.AVERAGE), ~_UNAVERAGED),
        or_(~of_kind(t.jobs, JobKind.EXPIRE), ~(busy | _WORKED_ON_WITH_OTHERS)),
    )


CLAIMABLE = claimable(of_many=True)
IS_CLAIMABLE = claimable(of_many=False)
"""The same of one job, whose id is known."""
