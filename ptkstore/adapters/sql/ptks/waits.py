"""Waits and allowances in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import delete, insert, select

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, parts, row_of
from ptkstore.domain.scheduling.shares import Share
from ptkstore.domain.scheduling.waits import Wait


class SqlWaits(CatalogPart):
    """When PTKs began to wait, and what they were allowed since."""

    def of(self, stream: str) -> Mapping[str, Wait]:
        """Return the last wait of each PTK of a stream."""
        query = select(t.waits).where(t.waits.c.stream == stream).order_by(t.waits.c.ptk_id)
        return {row.ptk_id: Wait(**row._mapping) for row in self._connection.execute(query)}

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
