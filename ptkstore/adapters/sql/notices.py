"""Words left for teams in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, insert, select

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.subscriptions import parts
from ptkstore.ports.catalog import Notice


class SqlNotices:
    """The notice table, which only grows. Its numbers count the words of all teams, so none leaves this room."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, notice: Notice) -> None:
        """Leave word."""
        self._connection.execute(
            insert(t.notices).values(at=notice.at, team=notice.team, subject=notice.subject, code=notice.code)
        )

    def find(
        self, team: str | None, since: datetime | None, skip: int, limit: int | None, *, newest: bool
    ) -> Sequence[Notice]:
        """In order of arrival, or the newest first."""
        number = t.notices.c.number
        query = _of(team).order_by(number.desc() if newest else number).offset(skip).limit(limit)
        if since is not None:
            query = query.where(t.notices.c.at >= since)
        return self._read(query)

    def about(self, team: str, subjects: Iterable[str]) -> Sequence[Notice]:
        """Of each part of the subjects, in order of arrival."""
        return [
            notice
            for some in parts(subjects)
            for notice in self._read(
                _of(team).where(t.notices.c.subject.in_(some)).order_by(t.notices.c.number)
            )
        ]

    def _read(self, query: Select[Any]) -> list[Notice]:
        return [Notice(r.at, r.team, r.subject, r.code) for r in self._connection.execute(query)]


def _of(team: str | None) -> Select[Any]:
    query = select(t.notices)
    return query if team is None else query.where(t.notices.c.team == team)
