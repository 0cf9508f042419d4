"""The audit trail and stored answers in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, exists, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql.identity import tables as t
from ptkstore.domain.audit import STARTED, AuditEntry
from ptkstore.errors import Conflict
from ptkstore.ports.identity import Answer


class SqlAuditLog:
    """The append-only trail."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, entry: AuditEntry) -> None:
        """Write one line."""
        self._connection.execute(
            insert(t.audit).values(
                at=entry.at,
                request_id=entry.request_id,
                team=entry.team,
                token_id=entry.token_id,
                action=entry.action,
                subject=entry.subject,
                outcome=entry.outcome,
            )
        )

    def after(self, number: int, limit: int, *, team: str | None = None) -> Sequence[AuditEntry]:
        """The next lines after a place; a `started` only where its end is missing."""
        end = t.audit.alias()
        ended = exists().where(and_(end.c.request_id == t.audit.c.request_id, end.c.outcome != STARTED))
        query = (
            select(t.audit)
            .where(t.audit.c.number > number, or_(t.audit.c.outcome != STARTED, ~ended))
            .order_by(t.audit.c.number)
            .limit(limit)
        )
        if team is not None:
            query = query.where(t.audit.c.team == team)
        return [
            AuditEntry(r.at, r.request_id, r.team, r.token_id, r.action, r.subject, r.outcome, r.number)
            for r in self._connection.execute(query)
        ]


class SqlAnswers:
    """Stored answers, per team and idempotency key."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def claim(self, answer: Answer, *, stale_before: datetime, expired_before: datetime) -> Answer | None:
        """Take a key that is free, or was left at work before `stale_before`; else what is known of it."""
        self._connection.execute(delete(t.answers).where(t.answers.c.at < expired_before))
        self._connection.execute(
            delete(t.answers).where(
                *_is(answer.team, answer.key), t.answers.c.status == 0, t.answers.c.at < stale_before
            )
        )
        query = select(t.answers).where(*_is(answer.team, answer.key)).with_for_update()
        row = self._connection.execute(query).one_or_none()
        if row is not None:
            return Answer(row.team, row.key, row.asked, row.at, row.status, row.content)
        try:
            self._connection.execute(
                insert(t.answers).values(
                    team=answer.team,
                    key=answer.key,
                    asked=answer.asked,
                    at=answer.at,
                    status=0,
                    content="",
                )
            )
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
