"""The next job: workers are shared between teams, by the slots that each occupies (differences.md F17)."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    select,
    true,
    update,
)

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.jobs.claimable import CLAIMABLE, at, leased, of_kind
from ptkstore.adapters.sql.statements import CatalogPart, planned_once, try_insert
from ptkstore.domain.jobs import DELIVERIES, RUNS, JobKind, slots_for_team_code

_LAST = (JobKind.PROFILE, JobKind.DRIFT, JobKind.EVALUATE)  # they take long, and nobody waits for them
_PUT_OFF: ColumnElement[int] = literal_column(str(2**60))  # in microseconds, which no time reaches


class SqlShares(CatalogPart):
    """The order in which due jobs are taken, and whose turn it was last, as `JobsView` describes it.

    A job's place is the number of slots that its share would hold with it. So a share without a slot comes before one
    that has some, whatever either has waiting. Of shares with equal places that one comes first whose last turn was
    longest ago. Only slots and turns count: how long a job took is private and decides nothing (differences.md F6).
    """

    def due(
        self,
        now: datetime,
        limit: int,
        *,
        deliveries: bool = True,
        slots: int | None = None,
        small: int | None = None,
    ) -> tuple[str, ...]:
        bounds = {"most": limit}
        if small is None:
            room = slots is None or self._room(now, slots)
            query = _due(deliveries=deliveries, team_code=room)
        else:
            bounds["small"] = small
            query = _due(deliveries=False, team_code=False, small=True)
        with planned_once(self._connection):
            return tuple(self._connection.execute(query, {**at(now), **bounds}).scalars().all())

    def has_room_for(self, job_id: str, now: datetime, slots: int) -> bool:
        """Tell whether a slot is free for this job; nobody else sees team code's until the transaction ends."""
        if self._connection.execute(_IS_TEAM_CODE, {"job_id": job_id}).first() is None:
            return True
        row = select(t.meta.c.name).where(t.meta.c.name == t.CLAIMS)
        self._connection.execute(row.with_for_update())
        return self._room(now, slots)

    def take_turn(self, share: str) -> None:
        """Put a share behind all others."""
        newest = select(func.coalesce(func.max(t.turns.c.number), 0) + 1).scalar_subquery()
        moved = update(t.turns).where(t.turns.c.share == share).values(number=newest)
        if not self._connection.execute(moved).rowcount:
            try_insert(self._connection, insert(t.turns).values(share=share, number=newest))

    def _room(self, now: datetime, slots: int) -> bool:
        taken = int(self._connection.execute(_COUNT_TEAM_CODE, at(now)).scalar_one())
        return taken < slots_for_team_code(slots)


_TEAM_CODE = select(t.ptks.c.ptk_id).where(t.ptks.c.own_code == 1)
_RUNS_TEAM_CODE = and_(of_kind(t.jobs, *RUNS), t.jobs.c.ptk_id.in_(_TEAM_CODE))
_IS_TEAM_CODE = select(t.jobs.c.id).where(t.jobs.c.id == bindparam("job_id"), _RUNS_TEAM_CODE)
_COUNT_TEAM_CODE = select(func.count()).select_from(t.jobs).where(leased(t.jobs), _RUNS_TEAM_CODE)


@cache
def _due(*, deliveries: bool, team_code: bool, small: bool = False) -> Select[Any]:
    job = t.jobs.c
    due = job.due_at + case((of_kind(t.jobs, *_LAST), _PUT_OFF), else_=0)
    window = func.coalesce(job.window_index, -1)  # many windows may have closed at once
    # numbers before texts: PostgreSQL sorts such rows in half the time
    query = select(due.label("due"), window.label("window"), job.share, job.id).where(CLAIMABLE)
    if not deliveries:
        query = query.where(~of_kind(t.jobs, *DELIVERIES))
    if not team_code:
        query = query.where(func.coalesce(~_RUNS_TEAM_CODE, true()))
    if small:
        query = query.where(of_kind(t.jobs, JobKind.TRAIN), job.n_rows <= bindparam("small"))
    found = query.subquery("found").c
    place = func.row_number().over(partition_by=found.share, order_by=(found.due, found.window, found.id))
    ready = select(found.due, found.share, found.id, place.label("place")).subquery("ready")
    held = select(job.share, func.count().label("n")).where(leased(t.jobs), ~of_kind(t.jobs, *DELIVERIES))
    held_by = held.group_by(job.share).subquery("held")
    return (
        select(ready.c.id)
        .outerjoin(held_by, held_by.c.share == ready.c.share)
        .outerjoin(t.turns, t.turns.c.share == ready.c.share)
        .where(
            ready.c.place <= bindparam("most")
        )  # behind others of its share it is not among the first either
        .order_by(
            ready.c.place + func.coalesce(held_by.c.n, 0),
            ready.c.due >= _PUT_OFF,
            func.coalesce(t.turns.c.number, 0),
            ready.c.due,
            ready.c.id,
        )
        .limit(bindparam("most"))
    )
