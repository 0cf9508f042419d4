"""The audit trail and stored answers in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, delete, exists, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql.identity import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, given, row_of
from ptkstore.domain.audit import STARTED, AuditEntry, TrailFilter
from ptkstore.errors import Conflict
from ptkstore.ports.identity import AT_WORK, Answer

_END = t.audit.alias()
_ENDED = exists().where(and_(_END.c.request_id == t.audit.c.request_id, _END.c.outcome != STARTED))
_ENDS = select(t.audit).where(or_(t.audit.c.outcome != STARTED, ~_ENDED))


class SqlAuditLog(CatalogPart):
    """The append-only trail."""

    def append(self, entry: AuditEntry) -> None:
        """Write one line."""
        self._connection.execute(insert(t.audit).values(row_of(t.audit, entry)))

    def after(self, number: int, limit: int, *, team: str | None = None) -> Sequence[AuditEntry]:
        """Return the next lines after a place; a `started` only where its end is missing."""
        query = _ENDS.where(t.audit.c.number > number).where(*given(t.audit, team=team))
        return self._entries(query.order_by(t.audit.c.number).limit(limit))

    def last_number(self) -> int:
        """Return the number of the newest line, 0 if there is none."""
        return self._connection.execute(select(func.max(t.audit.c.number))).scalar_one() or 0

    def newest(self, numbers: range, limit: int, asked: TrailFilter) -> Sequence[AuditEntry]:
        """Return the newest lines among these numbers; a `started` only where its end is missing."""
        query = _ENDS.where(t.audit.c.number >= numbers.start, t.audit.c.number < numbers.stop)
        query = query.where(*given(t.audit, action=asked.action, team=asked.team))
        if asked.since is not None:
            query = query.where(t.audit.c.at >= asked.since)
        if asked.until is not None:
            query = query.where(t.audit.c.at < asked.until)
        return self._entries(query.order_by(t.audit.c.number.desc()).limit(limit))

    def about(self, subject: str, actions: Iterable[str], limit: int) -> Sequence[AuditEntry]:
        """Return the newest lines of these actions on a subject; a `started` only where its end is missing."""
        query = _ENDS.where(t.audit.c.subject == subject, t.audit.c.action.in_(tuple(actions)))
        return self._entries(query.order_by(t.audit.c.number.desc()).limit(limit))

    def _entries(self, query: Select[Any]) -> list[AuditEntry]:
        return [AuditEntry(**row) for row in self._connection.execute(query).mappings()]


class SqlAnswers(CatalogPart):
    """Stored answers, per team and idempotency key."""

    def claim(self, answer: Answer, *, stale_before: datetime, expired_before: datetime) -> Answer | None:
        """Take a key that is free, or `AT_WORK` since before `stale_before`; else return what is known of it."""
        self._connection.execute(delete(t.answers).where(t.answers.c.at < expired_before))
        self._connection.execute(
            delete(t.answers).where(
                *_is(answer.team, answer.key), t.answers.c.status == AT_WORK, t.answers.c.at < stale_before
            )
        )
        query = select(t.answers).where(*_is(answer.team, answer.key)).with_for_update()
        row = self._connection.execute(query).mappings().one_or_none()
        if row is not None:
            return Answer(**row)
        try:
            begun = replace(answer, status=AT_WORK, content="")
            self._connection.execute(insert(t.answers).values(row_of(t.answers, begun)))
        except IntegrityError:
            raise Conflict("a request with this idempotency key has begun just now") from None
        return None

    def keep(self, answer: Answer) -> None:
        """Store the answer of a key that was claimed."""
        self._connection.execute(
            update(t.answers)
            .where(*_is(answer.team, answer.key))
            .values(status=answer.status, content=answer.content)
        )

    def drop(self, team: str, key: str) -> None:
        """Free a key whose request failed."""
        self._connection.execute(delete(t.answers).where(*_is(team, key)))


def _is(team: str, key: str) -> tuple[Any, ...]:
    return t.answers.c.team == team, t.answers.c.key == key
