"""Waits and allowances in SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import delete, false, insert, or_, select

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, parts, row_of
from ptkstore.domain.scheduling.shares import Share
from ptkstore.domain.scheduling.waits import MOST_ENDED, EndedWait, Wait


class SqlWaits(CatalogPart):
    """When PTKs began to wait, and what they were allowed since."""

    def of(self, stream: str) -> Mapping[str, Wait]:
        """Return the last wait of each PTK of a stream."""
        query = select(t.waits).where(t.waits.c.stream == stream).order_by(t.waits.c.ptk_id)
        return {row.ptk_id: Wait(**row._mapping) for row in self._connection.execute(query)}

    def last(self, ptk_id: str) -> Wait | None:
        """Return the last wait of a PTK."""
        row = self._connection.execute(select(t.waits).where(t.waits.c.ptk_id == ptk_id)).first()
        return None if row is None else Wait(**row._mapping)

    def ended(
        self, stream: str, limit: int | None = None, teams: Collection[str] | None = None
    ) -> tuple[EndedWait, ...]:
        """Return waits of a stream that ended, those that began last first."""
        one = t.ended_waits.c
        query = select(one.ptk_id, one.stream, one.since, one.until, one.how).where(one.stream == stream)
        if teams is not None:
            query = query.where(
                or_(false(), *(one.ptk_id.startswith(f"{team}.", autoescape=True) for team in teams))
            )
        newest = query.order_by(one.since.desc(), one.ptk_id.desc()).limit(limit)
        return tuple(EndedWait(*row) for row in self._connection.execute(newest))

    def allowed(self, stream: str) -> tuple[Share, ...]:
        """Return the allowances of a stream."""
        share = t.allowances.c
        query = select(share.ptk_id, share.block, share.nano, share.delta_atto, share.coordinate)
        found = query.where(share.stream == stream).order_by(share.ptk_id, share.block)
        return tuple(Share(*row) for row in self._connection.execute(found))

    def begin(self, wait: Wait) -> None:
        """Write a wait in the place of the last one."""
        self.end(wait.ptk_id)
        self._connection.execute(insert(t.waits).values(row_of(t.waits, wait)))

    def end(self, ptk_id: str) -> None:
        """Remove the wait of a PTK and its allowances."""
        self._connection.execute(delete(t.waits).where(t.waits.c.ptk_id == ptk_id))
        self._connection.execute(delete(t.allowances).where(t.allowances.c.ptk_id == ptk_id))

    def keep(self, ended: EndedWait) -> None:
        """Write the end of a wait once, and remove the oldest of its PTK beyond those that are kept."""
        mine = t.ended_waits.c.ptk_id == ended.ptk_id
        kept = set(self._connection.scalars(select(t.ended_waits.c.since).where(mine)))
        if ended.since in kept:
            return
        self._connection.execute(insert(t.ended_waits).values(row_of(t.ended_waits, ended, how=ended.end)))
        for since in sorted({*kept, ended.since})[:-MOST_ENDED]:
            self._connection.execute(delete(t.ended_waits).where(mine, t.ended_waits.c.since == since))

    def allow(self, stream: str, shares: Iterable[Share]) -> None:
        """Write the allowances that differ from those of before; most stay as they are."""
        before, after = (
            {(one.ptk_id, one.block): one for one in many} for many in (self.allowed(stream), shares)
        )
        gone: dict[str, list[int]] = {}
        for key, share in before.items():
            if after.get(key) != share:
                gone.setdefault(share.ptk_id, []).append(share.block)
        for ptk_id, blocks in gone.items():
            for some in parts(blocks):
                these = (t.allowances.c.stream == stream, t.allowances.c.ptk_id == ptk_id)
                self._connection.execute(delete(t.allowances).where(*these, t.allowances.c.block.in_(some)))
        new = [
            row_of(t.allowances, share, stream=stream)
            for key, share in after.items()
            if before.get(key) != share
        ]
        if new:
            self._connection.execute(insert(t.allowances), new)
