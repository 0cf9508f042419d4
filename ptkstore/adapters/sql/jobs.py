"""Jobs in SQL: claims, leases and fences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import tables as t
from ptkstore.domain.jobs import DELIVERIES, Job, JobKind, JobState, Outcome
from ptkstore.domain.windows import WindowId
from ptkstore.errors import LeaseLost, UnknownName
from ptkstore.ports.tracing import carried

_LAST = (JobKind.PROFILE, JobKind.DRIFT, JobKind.EVALUATE)  # they take long, and nobody waits for them
LIVE = (JobState.READY, JobState.OPENED)
_AT_ONCE = 500  # ids in one query


class SqlJobs:
    """The job table; a claim raises the fence, and every later write must carry it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, *jobs: Job) -> None:
        """Create jobs; one that exists is left as it is."""
        known: set[str] = set()
        for start in range(0, len(jobs), _AT_ONCE):
            some = t.jobs.c.id.in_([job.id for job in jobs[start : start + _AT_ONCE]])
            known.update(self._connection.execute(select(t.jobs.c.id).where(some)).scalars())
        new = [job for job in jobs if job.id not in known]
        if not new:
            return
        nested = self._connection.begin_nested()
        try:
            self._connection.execute(insert(t.jobs), list(map(_values, new)))
        except IntegrityError:  # somebody else added one meanwhile
            nested.rollback()
            for job in new if len(new) > 1 else ():
                self.add(job)
        else:
            nested.commit()

    def get(self, job_id: str) -> Job:
        """`UnknownName` if there is none."""
        row = self._row(job_id)
        if row is None:
            raise UnknownName("job", job_id)
        return job_of(row)

    def lock(self, job_id: str) -> Job:
        """Like `get`, holding the row until the transaction ends."""
        row = self._row(job_id, lock=True)
        if row is None:
            raise UnknownName("job", job_id)
        return job_of(row)

    def claim(self, job_id: str, now: datetime, lease: timedelta) -> Job | None:
        """Take a job that may be worked on now; None if it may not, or if somebody else is taking it."""
        query = select(t.jobs).where(t.jobs.c.id == job_id, claimable(now))
        if self._connection.execute(query.with_for_update(skip_locked=True)).one_or_none() is None:
            return None
        # PostgreSQL sees the row it locks as it is now, and other rows as they were when the statement began.
        row = self._connection.execute(query).one_or_none()
        if row is None:
            return None
        job = job_of(row)
        lost = job.kind in DELIVERIES and job.lease_until is not None  # which tells nothing of the endpoint
        attempt = job.attempt if lost else job.attempt + 1
        job = replace(job, fence=job.fence + 1, attempt=attempt, lease_until=now + lease)
        self._connection.execute(
            update(t.jobs)
            .where(t.jobs.c.id == job_id)
            .values(fence=job.fence, attempt=job.attempt, lease_until=job.lease_until)
        )
        return job

    def held(self, job: Job) -> Job:
        """The job, locked, if `job` still carries its newest fence."""
        row = self._row(job.id, lock=True)
        if row is None or row.fence != job.fence or row.state not in LIVE:
            raise LeaseLost(f"job {job.id} is in other hands")
        return job_of(row)

    def extend(self, job: Job, now: datetime, lease: timedelta) -> None:
        """Keep the lease; one that was given up is not taken again, by a heartbeat that comes late."""
        if self.held(job).lease_until is None:
            raise LeaseLost(f"job {job.id} was given back")
        self._connection.execute(update(t.jobs).where(t.jobs.c.id == job.id).values(lease_until=now + lease))

    def save(self, job: Job) -> None:
        """Write what became of a held job and drop its lease."""
        self._write(job, lease_until=None)

    def mark_opened(self, job: Job) -> None:
        """Record that rows are being opened; the lease stays."""
        self._write(replace(job, state=JobState.OPENED, attempt=1), lease_until=job.lease_until)

    def wake(self, job_id: str, due_at: datetime) -> None:
        """Make an idle cursor ready. Locks any row, idle or not, so that a finishing worker looks again."""
        row = self._row(job_id, lock=True)
        if row is not None and row.state == JobState.IDLE:
            values = {"state": JobState.READY, "due_at": due_at, "attempt": 0, "trace": carried()}
            self._connection.execute(update(t.jobs).where(t.jobs.c.id == job_id).values(**values))

    def due(self, now: datetime, limit: int, *, deliveries: bool = True) -> tuple[str, ...]:
        """Ids of jobs that could be claimed now."""
        waits = t.jobs.c.kind.in_(_LAST)
        query = select(t.jobs.c.id).where(claimable(now)).order_by(waits, t.jobs.c.due_at, t.jobs.c.id)
        if not deliveries:
            query = query.where(t.jobs.c.kind.not_in(DELIVERIES))
        query = query.limit(limit)
        return tuple(self._connection.execute(query).scalars())

    def busy(self, now: datetime, until: datetime) -> bool:
        """Whether a job is being worked on, or could be claimed by `until`."""
        leased = and_(t.jobs.c.state.in_(LIVE), t.jobs.c.lease_until > now)
        query = select(t.jobs.c.id).where(or_(leased, claimable(until))).limit(1)
        return self._connection.execute(query).first() is not None

    def of_window(self, window: WindowId, kind: JobKind) -> tuple[Job, ...]:
        """All jobs of one kind for a window, locked in one order."""
        query = (
            select(t.jobs)
            .where(
                t.jobs.c.stream == window.stream, t.jobs.c.window_index == window.index, t.jobs.c.kind == kind
            )
            .order_by(t.jobs.c.id)
            .with_for_update()
        )
        return tuple(map(job_of, self._connection.execute(query)))

    def find(
        self, *, stream: str | None = None, ptk_id: str | None = None, state: JobState | None = None
    ) -> tuple[Job, ...]:
        """Jobs, for reading."""
        query = select(t.jobs).order_by(t.jobs.c.id)
        if stream is not None:
            query = query.where(t.jobs.c.stream == stream)
        if ptk_id is not None:
            query = query.where(t.jobs.c.ptk_id == ptk_id)
        if state is not None:
            query = query.where(t.jobs.c.state == state)
        return tuple(map(job_of, self._connection.execute(query)))

    def unfinished(self, stream: str, kinds: Iterable[JobKind], lo: int, hi: int) -> frozenset[int]:
        """Which of the windows `lo` to `hi - 1` have a job of these kinds that has not ended."""
        # named one by one, for the index by state
        alive = [state for state in JobState if state is not JobState.ENDED]
        window = t.jobs.c.window_index
        query = select(window).where(
            t.jobs.c.state.in_(alive),
            t.jobs.c.stream == stream,
            t.jobs.c.kind.in_(tuple(kinds)),
            window >= lo,
            window < hi,
        )
        return frozenset(map(int, self._connection.execute(query.distinct()).scalars()))

    def trainings(
        self, ptk_id: str, *, start: int = 0, limit: int | None = None, newest: bool = False
    ) -> tuple[Job, ...]:
        """A PTK's trainings, by window."""
        window = t.jobs.c.window_index
        query = (
            select(t.jobs)
            .where(t.jobs.c.ptk_id == ptk_id, t.jobs.c.kind == JobKind.TRAIN, window >= start)
            .order_by(window.desc() if newest else window)
            .limit(limit)
        )
        return tuple(map(job_of, self._connection.execute(query)))

    def placed(self) -> Mapping[str, int]:
        """The newest version of each PTK that is in the lake."""
        query = select(t.jobs.c.ptk_id, t.jobs.c.position).where(t.jobs.c.kind == JobKind.PLACE)
        return {row.ptk_id: row.position for row in self._connection.execute(query)}

    def _row(self, job_id: str, *, lock: bool = False) -> Row[Any] | None:
        query = select(t.jobs).where(t.jobs.c.id == job_id)
        return self._connection.execute(query.with_for_update() if lock else query).one_or_none()

    def _write(self, job: Job, *, lease_until: datetime | None) -> None:
        done = self._connection.execute(
            update(t.jobs)
            .where(t.jobs.c.id == job.id, t.jobs.c.fence == job.fence)
            .values(
                state=job.state,
                outcome=job.outcome,
                position=job.position,
                due_at=job.due_at,
                attempt=job.attempt,
                lease_until=lease_until,
            )
        )
        if done.rowcount != 1:
            raise LeaseLost(f"job {job.id} is in other hands")


def claimable(now: datetime) -> ColumnElement[bool]:
    """Due, unleased, and nothing that must come first is unfinished.

    A training continues from the PTK's last state: it waits for earlier trainings, for earlier windows whose
    trainings are still to be queued, and for the last elected state to be in the lake. Once it is split it waits for
    its partials. An evaluation waits for its version to be in the lake, an expiry for runs that hold a live lease on
    the window.
    """
    other = t.jobs.alias("other")
    earlier = exists().where(
        other.c.kind == JobKind.TRAIN,
        other.c.ptk_id == t.jobs.c.ptk_id,
        other.c.window_index < t.jobs.c.window_index,
        other.c.state.in_(LIVE),
    )
    uncollected = exists().where(
        other.c.kind == JobKind.PARTIAL,
        other.c.ptk_id == t.jobs.c.ptk_id,
        other.c.window_index == t.jobs.c.window_index,
        other.c.state.in_(LIVE),
    )
    unqueued = exists().where(
        other.c.kind.in_((JobKind.PREPARE, JobKind.ALLOCATE)),
        other.c.stream == t.jobs.c.stream,
        other.c.window_index < t.jobs.c.window_index,
        other.c.state.in_(LIVE),
    )
    newest = (
        select(func.coalesce(func.max(t.versions.c.number), 0))
        .where(t.versions.c.ptk_id == other.c.ptk_id)
        .correlate(other)
        .scalar_subquery()
    )
    unplaced = exists().where(
        other.c.kind == JobKind.PLACE, other.c.ptk_id == t.jobs.c.ptk_id, other.c.position < newest
    )
    unshown = exists().where(
        other.c.kind == JobKind.PLACE,
        other.c.ptk_id == t.jobs.c.ptk_id,
        other.c.position < t.jobs.c.position,
    )
    busy = exists().where(
        other.c.stream == t.jobs.c.stream,
        other.c.window_index == t.jobs.c.window_index,
        other.c.kind != JobKind.EXPIRE,
        other.c.lease_until > now,
    )
    return and_(
        t.jobs.c.state.in_(LIVE),
        t.jobs.c.due_at <= now,
        or_(t.jobs.c.lease_until.is_(None), t.jobs.c.lease_until <= now),
        or_(t.jobs.c.kind != JobKind.TRAIN, ~earlier & ~uncollected & ~unqueued & ~unplaced),
        or_(t.jobs.c.kind != JobKind.EVALUATE, ~unshown),
        or_(t.jobs.c.kind != JobKind.EXPIRE, ~busy),
    )


def _values(job: Job) -> dict[str, Any]:
    values = {column.name: getattr(job, column.name) for column in t.jobs.columns}
    return {**values, "trace": job.trace or carried()}


def job_of(row: Row[Any]) -> Job:
    """The job of a row."""
    values = dict(row._mapping)
    outcome = values["outcome"]
    return Job(
        **{
            **values,
            "kind": JobKind(values["kind"]),
            "state": JobState(values["state"]),
            "outcome": None if outcome is None else Outcome(outcome),
        }
    )
