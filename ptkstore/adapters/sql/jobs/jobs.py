"""Jobs in SQL: claims, leases and fences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.jobs.claimable import (
    CLAIMABLE,
    IS_CLAIMABLE,
    at,
    is_refused_average,
    is_unfinished,
    leased,
    of_kind,
    oldest_window,
)
from ptkstore.adapters.sql.jobs.shares import SqlShares
from ptkstore.adapters.sql.statements import CatalogPart, given, parts, row_of, try_insert
from ptkstore.domain.jobs import DELIVERIES, Job, JobKind, JobState, Outcome
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.errors import LeaseLost
from ptkstore.ports.jobs import UnfinishedJob
from ptkstore.ports.tracing import carried

LIVE = (JobState.READY, JobState.OPENED)
_OF_WINDOWS = (
    JobKind.PREPARE,
    JobKind.ALLOCATE,
    JobKind.PARTIAL,
    JobKind.COMPARE,
    JobKind.EXPIRE,
)  # no version is theirs
_WRITTEN = ("state", "outcome", "position", "failures", "due_at", "attempt")
_LOOKS = 50  # jobs of which a worker takes the first it gets
_CLAIM = select(t.jobs).where(t.jobs.c.id == bindparam("job_id"), IS_CLAIMABLE)
_CLAIM_LOCKED = _CLAIM.with_for_update(skip_locked=True)
_CLAIMABLE = select(t.jobs.c.id).where(CLAIMABLE).limit(1)
_LEASED = select(t.jobs.c.id).where(leased(t.jobs)).limit(1)


class SqlJobs(CatalogPart):
    """The job table; a claim raises the fence, and every later write must carry it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._shares = SqlShares(connection)
        self.due = self._shares.due

    def add(self, *jobs: Job) -> None:
        """Create jobs; one that exists does not change."""
        ids = (job.id for job in jobs)
        stored = {row.id for row in self._rows_with(select(t.jobs.c.id), t.jobs.c.id, ids)}
        new = [job for job in jobs if job.id not in stored]
        if not new:
            return
        if not try_insert(self._connection, insert(t.jobs), list(map(_values, new))) and len(new) > 1:
            for job in new:
                self.add(job)

    def get(self, job_id: str) -> Job:
        """Read a job; `UnknownName` if there is none."""
        return job_of(self._one(select(t.jobs).where(t.jobs.c.id == job_id), "job", job_id))

    def kinds(self, job_ids: Iterable[str]) -> Mapping[str, JobKind]:
        """Return the kind of each of these that exists."""
        rows = self._rows_with(select(t.jobs.c.id, t.jobs.c.kind), t.jobs.c.id, job_ids)
        return {row.id: JobKind(row.kind) for row in rows}

    def lock(self, job_id: str) -> Job:
        """Read a job and hold its row until the transaction ends."""
        return job_of(self._one(_locked(job_id), "job", job_id))

    def claim(self, job_id: str, now: datetime, lease: timedelta) -> Job | None:
        """Take a job that may be worked on now; None if it may not, or if somebody else is taking it."""
        which = {**at(now), "job_id": job_id}
        if self._connection.execute(_CLAIM_LOCKED, which).one_or_none() is None:
            return None
        # PostgreSQL sees the row it locks as it is now, and other rows as they were when the statement began.
        row = self._connection.execute(_CLAIM, which).one_or_none()
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
        if job.kind not in DELIVERIES:
            self._shares.take_turn(job.share)
        return job

    def claim_fairest(self, now: datetime, lease: timedelta, slots: int) -> Job | None:
        """Take the first job of `due` that nobody else is taking, and that leaves a slot free of team code."""
        for job_id in self._shares.due(now, _LOOKS, deliveries=False, slots=slots):
            if self._shares.has_room_for(job_id, now, slots):  # others claim at the same time
                job = self.claim(job_id, now, lease)
                if job is not None:
                    return job
        return None

    def held(self, job: Job) -> Job:
        """Lock the job and return it, if `job` still carries its newest fence."""
        row = self._connection.execute(_locked(job.id)).one_or_none()
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

    def begin_again(self, job: Job, due_at: datetime) -> None:
        """Make a locked job that has ended ready, as if it had never been tried; how it ended still counts."""
        self._count_removed(job.kind, str(job.outcome), 1)
        self._write(
            replace(job, state=JobState.READY, outcome=None, failures=0, attempt=0, due_at=due_at),
            lease_until=None,
        )

    def wake(self, job_id: str, due_at: datetime) -> None:
        """Make an idle cursor ready. Locks any row, idle or not, so that a finishing worker looks again."""
        row = self._connection.execute(_locked(job_id)).one_or_none()
        if row is not None and row.state == JobState.IDLE:
            values = {"state": JobState.READY, "due_at": due_at, "attempt": 0, "trace": carried()}
            self._connection.execute(update(t.jobs).where(t.jobs.c.id == job_id).values(**values))

    def busy(self, now: datetime, until: datetime) -> bool:
        """Tell whether a job is being worked on, or could be claimed by `until`."""
        looks = ((_LEASED, at(now)), (_CLAIMABLE, at(until)))
        return any(self._connection.execute(query, times).first() is not None for query, times in looks)

    def of_window(self, window: WindowId, kind: JobKind) -> tuple[Job, ...]:
        """Return all jobs of one kind for a window, alone or with others, locked in one order."""
        query = (
            select(t.jobs)
            .where(
                t.jobs.c.stream == window.stream,
                t.jobs.c.kind == kind,
                t.jobs.c.window_index >= window.index,
                oldest_window(t.jobs) <= window.index,
            )
            .order_by(t.jobs.c.id)
            .with_for_update()
        )
        return tuple(map(job_of, self._connection.execute(query)))

    def refused_drafts(self, stream: str | None = None) -> frozenset[str]:
        """Name the drafts whose validation has ended without a version."""
        ended = given(t.jobs, stream=stream, kind=JobKind.VALIDATE, state=JobState.ENDED)
        query = select(t.jobs.c.draft_id).where(*ended, t.jobs.c.outcome != Outcome.PUBLISHED)
        return frozenset(self._connection.execute(query).scalars())

    def needless_partials(self, window: WindowId) -> tuple[Job, ...]:
        """Return the partials with this newest window that have ended and whose training has ended."""
        training = t.jobs.alias("training")
        has_ended = exists().where(training.c.id == t.jobs.c.reservation, training.c.state == JobState.ENDED)
        partial = {"kind": JobKind.PARTIAL, "window_index": window.index, "state": JobState.ENDED}
        query = select(t.jobs).where(*given(t.jobs, stream=window.stream, **partial), has_ended)
        return tuple(map(job_of, self._connection.execute(query.order_by(t.jobs.c.id))))

    def find(
        self, *, stream: str | None = None, ptk_id: str | None = None, state: JobState | None = None
    ) -> tuple[Job, ...]:
        """Find jobs by id, for reading."""
        query = select(t.jobs).where(*given(t.jobs, stream=stream, ptk_id=ptk_id, state=state))
        return tuple(map(job_of, self._connection.execute(query.order_by(t.jobs.c.id))))

    def comparisons(self, stream: str) -> tuple[Job, ...]:
        """Return the comparisons on windows of a stream."""
        query = select(t.jobs).where(*given(t.jobs, stream=stream, kind=JobKind.COMPARE))
        return tuple(map(job_of, self._connection.execute(query.order_by(t.jobs.c.id))))

    def unfinished(self, stream: str, kinds: Iterable[JobKind], lo: int, hi: int) -> frozenset[int]:
        """Tell which of the windows `lo` to `hi - 1` have a job of these kinds that has not ended."""
        newest, oldest = t.jobs.c.window_index, oldest_window(t.jobs)
        query = select(oldest, newest).where(
            is_unfinished(t.jobs),  # no cursor is of a window
            t.jobs.c.stream == stream,
            t.jobs.c.kind.in_(tuple(kinds)),
            newest >= lo,
            oldest < hi,
        )
        spans = self._connection.execute(query.distinct()).all()
        return frozenset(one for first, last in spans for one in range(max(first, lo), min(last + 1, hi)))

    def unfinished_jobs(
        self, kinds: Iterable[JobKind], streams: Iterable[str] | None, limit: int
    ) -> tuple[UnfinishedJob, ...]:
        """Return so many unfinished jobs of these kinds, with the closing of their newest windows."""
        jobs, windows = t.jobs.c, t.windows.c
        of_window = and_(windows.stream == jobs.stream, windows.index == jobs.window_index)
        query = (
            select(
                jobs.kind, jobs.stream, jobs.window_index, jobs.ptk_id, jobs.lease_until, windows.closed_at
            )
            .select_from(t.jobs.outerjoin(t.windows, of_window))
            .where(is_unfinished(t.jobs), of_kind(t.jobs, *kinds))
            .order_by(jobs.lease_until.is_(None), jobs.stream, jobs.window_index, jobs.id)
            .limit(limit)
        )
        if streams is not None:
            query = query.where(jobs.stream.in_(tuple(streams)))
        return tuple(UnfinishedJob(JobKind(row[0]), *row[1:]) for row in self._connection.execute(query))

    def prepared(self, stream: str, lo: int, hi: int) -> frozenset[int]:
        """Tell which of these windows have, or had, a job that prepares them."""
        window = t.jobs.c.window_index
        query = select(window).where(
            t.jobs.c.stream == stream, t.jobs.c.kind == JobKind.PREPARE, window >= lo, window < hi
        )
        return frozenset(map(int, self._connection.execute(query).scalars()))

    def remove_ended(self, before: WindowId) -> None:
        """Remove what has ended of expired windows before this one and nobody reads again; it still counts as ended."""
        job, window = t.jobs.c, t.windows.c
        old = (
            job.stream == before.stream,
            job.kind.in_(_OF_WINDOWS),
            job.window_index < before.index,
            job.state == JobState.ENDED,
            exists().where(
                window.stream == job.stream,
                window.index == job.window_index,
                window.state == WindowState.EXPIRED,
            ),
        )
        counted = select(job.kind, job.outcome, func.count()).where(*old).group_by(job.kind, job.outcome)
        for kind, outcome, n in sorted(self._connection.execute(counted).all(), key=str):
            self._count_removed(kind, str(outcome), int(n))
        self._connection.execute(delete(t.jobs).where(*old))

    def _count_removed(self, kind: str, outcome: str, n: int) -> None:
        this = (t.removed_jobs.c.kind == kind, t.removed_jobs.c.outcome == outcome)
        more = update(t.removed_jobs).where(*this).values(count=t.removed_jobs.c["count"] + n)
        if self._connection.execute(more).rowcount:
            return
        first = insert(t.removed_jobs).values(kind=kind, outcome=outcome, count=n)
        if not try_insert(self._connection, first):
            self._connection.execute(more)

    def many(self, job_ids: Iterable[str]) -> Mapping[str, Job]:
        """Return each of these that exists, by its id."""
        return {row.id: job_of(row) for row in self._rows_with(select(t.jobs), t.jobs.c.id, job_ids)}

    def trainings_since(self, starts: Mapping[str, int]) -> tuple[Job, ...]:
        """Return the trainings of some PTKs, each from a newest window on."""
        found: list[Job] = []
        for some in parts(starts, 100):
            of_each = [
                and_(t.jobs.c.ptk_id == ptk_id, t.jobs.c.window_index >= starts[ptk_id]) for ptk_id in some
            ]
            query = select(t.jobs).where(t.jobs.c.kind == JobKind.TRAIN, or_(*of_each))
            found += map(job_of, self._connection.execute(query.order_by(t.jobs.c.id)))
        return tuple(found)

    def trainings(
        self,
        ptk_id: str,
        *,
        start: int = 0,
        look: int = 1,
        limit: int | None = None,
        newest: bool = False,
    ) -> tuple[Job, ...]:
        """Return a PTK's trainings, by window and look.

        Parameters
        ----------
        start, look, limit, newest
            Their start, their number, and their order.
        """
        window, looks = t.jobs.c.window_index, t.jobs.c.look
        query = (
            select(t.jobs)
            .where(
                t.jobs.c.ptk_id == ptk_id,
                t.jobs.c.kind.in_((JobKind.TRAIN, JobKind.AVERAGE)),
                window >= start,
            )
            .where(or_(window > start, looks >= look))
            .order_by(*((window.desc(), looks.desc()) if newest else (window, looks)))
            .limit(limit)
        )
        return tuple(map(job_of, self._connection.execute(query)))

    def refused_average(self, ptk_id: str) -> int | None:
        """Return the newest window of which a PTK's average was refused."""
        newest = select(func.max(t.jobs.c.window_index)).where(
            t.jobs.c.ptk_id == ptk_id, is_refused_average(t.jobs)
        )
        window: int | None = self._connection.execute(newest).scalar_one()
        return window

    def placed(self) -> Mapping[str, int]:
        """Return the newest version of each PTK that is in the lake."""
        query = select(t.jobs.c.ptk_id, t.jobs.c.position).where(t.jobs.c.kind == JobKind.PLACE)
        return {row.ptk_id: row.position for row in self._connection.execute(query)}

    def _write(self, job: Job, *, lease_until: datetime | None) -> None:
        done = self._connection.execute(
            update(t.jobs)
            .where(t.jobs.c.id == job.id, t.jobs.c.fence == job.fence)
            .values({name: getattr(job, name) for name in _WRITTEN} | {"lease_until": lease_until})
        )
        if done.rowcount != 1:
            raise LeaseLost(f"job {job.id} is in other hands")


def _values(job: Job) -> dict[str, Any]:
    return row_of(t.jobs, job, trace=job.trace or carried())


def _locked(job_id: str) -> Select[Any]:
    return select(t.jobs).where(t.jobs.c.id == job_id).with_for_update()


def job_of(row: Row[Any]) -> Job:
    """Read the job of a row."""
    values = dict(row._mapping)
    del values["share"]  # follows from the others
    outcome = values["outcome"]
    return Job(
        **{
            **values,
            "kind": JobKind(values["kind"]),
            "state": JobState(values["state"]),
            "outcome": None if outcome is None else Outcome(outcome),
        }
    )
