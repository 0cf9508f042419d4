"""Jobs that deliver, many at once: one statement for many rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import and_, bindparam, case, not_, or_, select, update

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.jobs.claimable import at, has_come, leased
from ptkstore.adapters.sql.jobs.jobs import LIVE, job_of
from ptkstore.adapters.sql.statements import CatalogPart, parts
from ptkstore.domain.jobs import DELIVERIES, Job, JobKind, JobState, job_id
from ptkstore.ports.tracing import carried

_SAVED = ("state", "outcome", "position", "due_at", "attempt")


class SqlDeliveries(CatalogPart):
    """Claims, leases and outcomes of deliveries."""

    def wake(self, ptk_id: str, due_at: datetime) -> None:
        """Make every idle subscriber ready.

        All rows are locked, in the order in which deliveries lock theirs. A delivery that is about to go idle either
        commits before, and is woken, or looks at the versions after this transaction.
        """
        notifies = (t.jobs.c.ptk_id == ptk_id, t.jobs.c.kind == JobKind.NOTIFY)
        self._connection.execute(select(t.jobs.c.id).where(*notifies).order_by(t.jobs.c.id).with_for_update())
        self._connection.execute(
            update(t.jobs)
            .where(*notifies, t.jobs.c.state == JobState.IDLE)
            .values(state=JobState.READY, due_at=due_at, attempt=0, trace=carried())
        )

    def claim(self, now: datetime, lease: timedelta, *, fresh: int, retried: int) -> tuple[Job, ...]:
        """Take due deliveries; those that others are taking are passed over."""
        claimed = [*self._due(now, fresh, tried=False), *self._due(now, retried, tried=True)]
        until = now + lease
        is_new = case((t.jobs.c.lease_until.is_(None), 1), else_=0)
        for ids in parts(job.id for job in claimed):
            self._connection.execute(
                update(t.jobs)
                .where(t.jobs.c.id.in_(ids))
                .values(fence=t.jobs.c.fence + 1, attempt=t.jobs.c.attempt + is_new, lease_until=until)
            )
        return tuple(
            replace(
                job,
                fence=job.fence + 1,
                attempt=job.attempt + (job.lease_until is None),
                lease_until=until,
            )
            for job in claimed
        )

    def extend(self, jobs: Iterable[Job], now: datetime, lease: timedelta) -> tuple[Job, ...]:
        """Keep the leases of those that are still held."""
        until = now + lease
        kept = tuple(
            replace(job, lease_until=until) for job in self.held(jobs) if job.lease_until is not None
        )
        for ids in parts(job.id for job in kept):
            self._connection.execute(update(t.jobs).where(t.jobs.c.id.in_(ids)).values(lease_until=until))
        return kept

    def held(self, jobs: Iterable[Job], beside: Iterable[str] = ()) -> tuple[Job, ...]:
        """Return those that nobody claimed since; all locks are taken in the order of ids."""
        claims = {(job.id, job.fence) for job in jobs}
        names = {name for name, _ in claims}
        others = {job_id(kind, name) for name in beside for kind in DELIVERIES}
        query = select(t.jobs).order_by(t.jobs.c.id).with_for_update()
        locked = list(map(job_of, self._rows_with(query, t.jobs.c.id, names | others)))
        return tuple(job for job in locked if (job.id, job.fence) in claims and job.state in LIVE)

    def positions(self, subscription_ids: Iterable[str]) -> Mapping[str, int]:
        """Return the last version that each of these has done with."""
        ids = (job_id(JobKind.NOTIFY, name) for name in subscription_ids)
        query = select(t.jobs.c.subscription_id, t.jobs.c.position)
        return {row.subscription_id: row.position for row in self._rows_with(query, t.jobs.c.id, ids)}

    def save(self, jobs: Iterable[Job]) -> None:
        """Write what became of held jobs."""
        rows = [
            {"b_id": job.id, "b_fence": job.fence, **{name: getattr(job, name) for name in _SAVED}}
            for job in jobs
        ]
        if rows:
            self._connection.execute(
                update(t.jobs)
                .where(t.jobs.c.id == bindparam("b_id"), t.jobs.c.fence == bindparam("b_fence"))
                .values({name: bindparam(name) for name in _SAVED} | {"lease_until": None}),
                rows,
            )

    def _due(self, now: datetime, limit: int, *, tried: bool) -> list[Job]:
        if limit <= 0:
            return []
        # Its last attempt may be a claim that was lost.
        failed = or_(t.jobs.c.attempt > 1, and_(t.jobs.c.attempt == 1, t.jobs.c.lease_until.is_(None)))
        query = (
            select(t.jobs)
            .where(
                t.jobs.c.kind.in_(DELIVERIES),
                t.jobs.c.state == JobState.READY,
                has_come(t.jobs),
                or_(t.jobs.c.lease_until.is_(None), ~leased(t.jobs)),
                failed if tried else not_(failed),
            )
            .order_by(t.jobs.c.due_at, t.jobs.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        return list(map(job_of, self._connection.execute(query, at(now))))
