"""Heartbeats and operators' numbers in SQL: a fixed number of queries, however many subscribers there are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, and_, case, delete, func, insert, select, update

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.jobs.claimable import CLAIMABLE, at, leased
from ptkstore.adapters.sql.statements import CatalogPart
from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.ports.operations import JobNumbers, Numbers, Outbox

_REMEMBERED = timedelta(days=1)
_PLACES = {JobKind.PLACE: "lake", JobKind.FLIP: "online"}


class SqlOperations(CatalogPart):
    """Heartbeats, and numbers of jobs, deliveries and versions."""

    def saw(self, role: str, instance: str, now: datetime) -> None:
        """Note that a process of this role lives; those that did long ago are forgotten."""
        mine = (t.processes.c.role == role, t.processes.c.instance == instance)
        if not self._connection.execute(update(t.processes).where(*mine).values(seen_at=now)).rowcount:
            self._connection.execute(insert(t.processes).values(role=role, instance=instance, seen_at=now))
            self._connection.execute(delete(t.processes).where(t.processes.c.seen_at < now - _REMEMBERED))

    def last_seen(self, since: datetime) -> Mapping[str, tuple[int, datetime]]:
        """Count the processes seen since then and tell the last time that any was, by role."""
        alive = func.sum(case((t.processes.c.seen_at >= since, 1), else_=0))
        last = func.max(t.processes.c.seen_at)
        query = select(t.processes.c.role, alive, last).group_by(t.processes.c.role)
        return {role: (int(n), at) for role, n, at in self._connection.execute(query)}

    def numbers(self, now: datetime) -> Numbers:
        """Tell what waits and how late it is."""
        return Numbers(self._jobs(now), self._ended(), self._outbox(), self._versions())

    def _jobs(self, now: datetime) -> dict[str, JobNumbers]:
        job = t.jobs.c
        waiting = {kind.value: JobNumbers() for kind in JobKind}
        ready = select(job.kind, func.count(), func.min(job.due_at)).where(CLAIMABLE)
        for kind, n, oldest in self._connection.execute(ready.group_by(job.kind), at(now)):
            waiting[kind] = JobNumbers(int(n), oldest)
        for kind, n in self._connection.execute(_counted(job.kind, leased(t.jobs)), at(now)):
            waiting[kind] = replace(waiting[kind], running=int(n))
        return waiting

    def _ended(self) -> dict[tuple[str, str], int]:
        job = t.jobs.c
        query = select(job.kind, job.outcome, func.count()).where(job.state == JobState.ENDED)
        rows = self._connection.execute(query.group_by(job.kind, job.outcome))
        counts = Counter({(kind, str(outcome)): int(n) for kind, outcome, n in rows})
        removed = t.removed_jobs.c
        for kind, outcome, n in self._connection.execute(
            select(removed.kind, removed.outcome, removed["count"])
        ):
            counts[kind, outcome] += int(n)
        return dict(counts)

    def _outbox(self) -> dict[str, Outbox]:
        """By PTK. A delivery is late since its version was elected: retries move the job's own due time."""
        notify, flip, version = t.jobs.alias("notify"), t.jobs.alias("flip"), t.versions
        subscription, letter = t.subscriptions.c, t.dead_letters.c
        outboxes: defaultdict[str, Outbox] = defaultdict(Outbox)
        late = (
            select(
                notify.c.ptk_id, func.sum(flip.c.position - notify.c.position), func.min(version.c.elected_at)
            )
            .join(flip, and_(flip.c.kind == JobKind.FLIP, flip.c.ptk_id == notify.c.ptk_id))
            .join(
                version,
                and_(version.c.ptk_id == notify.c.ptk_id, version.c.number == notify.c.position + 1),
            )
            .join(t.subscriptions, subscription.id == notify.c.subscription_id)
            .where(
                notify.c.kind == JobKind.NOTIFY,
                notify.c.position < flip.c.position,
                subscription.disabled_at.is_(None),
            )
            .group_by(notify.c.ptk_id)
        )
        for ptk_id, behind, oldest in self._connection.execute(late):
            outboxes[ptk_id] = Outbox(int(behind), oldest)
        counts = {
            "dead_letters": _counted(subscription.ptk_id).join(
                t.dead_letters, letter.subscription_id == subscription.id
            ),
            "failing": _counted(
                subscription.ptk_id, and_(subscription.failures > 0, subscription.disabled_at.is_(None))
            ),
            "disabled": _counted(subscription.ptk_id, subscription.disabled_at.is_not(None)),
        }
        for name, query in counts.items():
            for ptk_id, n in self._connection.execute(query):
                outboxes[ptk_id] = _with(outboxes[ptk_id], name, int(n))
        return dict(outboxes)

    def _versions(self) -> dict[tuple[str, str], int]:
        job = t.jobs.c
        query = select(job.ptk_id, job.kind, job.position).where(job.kind.in_(list(_PLACES)))
        query = query.join(t.ptks, t.ptks.c.ptk_id == job.ptk_id).where(t.ptks.c.active == 1)
        return {
            (ptk_id, _PLACES[JobKind(kind)]): int(position)
            for ptk_id, kind, position in self._connection.execute(query)
        }


def _with(outbox: Outbox, name: str, n: int) -> Outbox:
    values: dict[str, Any] = {name: n}
    return replace(outbox, **values)


def _counted(column: Any, *where: Any) -> Select[Any]:
    return select(column, func.count()).where(*where).group_by(column)
