"""Words left for teams in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, insert, select

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, given, parts, row_of
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.notices import Notice


class SqlNotices(CatalogPart):
    """The notice table, which only grows. Its numbers count the words of all teams, so none leaves this room."""

    def add(self, notice: Notice) -> None:
        """Leave word for a team."""
        self._connection.execute(insert(t.notices).values(row_of(t.notices, notice)))

    def find(
        self,
        team: str | None = None,
        *,
        since: datetime | None = None,
        skip: int = 0,
        limit: int | None = None,
        newest: bool = False,
    ) -> Sequence[Notice]:
        """Read the words left for a team or for all.

        Parameters
        ----------
        team, since
            Only those for this team, and only those since then.
        skip, limit, newest
            A page of them, in order of arrival or the newest first.
        """
        number = t.notices.c.number
        query = _of(team).order_by(number.desc() if newest else number).offset(skip).limit(limit)
        if since is not None:
            query = query.where(t.notices.c.at >= since)
        return self._read(query)

    def about(
        self,
        team: str,
        ptk_id: str,
        *,
        stream: str | None = None,
        windows: Iterable[int] | None = None,
        run: JobKind | None = None,
    ) -> Sequence[Notice]:
        """Read the words about a PTK.

        Parameters
        ----------
        team, ptk_id, stream, windows, run
            As in `CatalogView.notices_about`.
        """
        notice = t.notices.c
        query = _of(team).where(
            notice.ptk_id == ptk_id, notice.stream == stream, notice.run == (run and run.value)
        )
        query = query.order_by(notice.number)
        if windows is None:
            return self._read(query.where(notice.window_index.is_(None)))
        return [
            one for some in parts(windows) for one in self._read(query.where(notice.window_index.in_(some)))
        ]

    def _read(self, query: Select[Any]) -> list[Notice]:
        return [
            Notice(**{**row, "run": row["run"] and JobKind(row["run"])})
            for row in self._connection.execute(query).mappings()
        ]


def _of(team: str | None) -> Select[Any]:
    columns = (column for column in t.notices.c if column is not t.notices.c.number)
    return select(*columns).where(*given(t.notices, team=team))
