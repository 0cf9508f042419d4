"""The catalog's part about who may do what, and who did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ptkstore.domain.audit import AuditEntry, TrailFilter
from ptkstore.domain.identity import Grant, Token


class IdentitiesView(Protocol):
    """Teams, their tokens and their grants, for reading."""

    def teams(self) -> tuple[str, ...]:
        """Return the teams by name."""

    def token(self, token_id: str) -> Token | None:
        """Return the token of this id; None if there is none."""

    def tokens(self, team: str | None = None) -> tuple[Token, ...]:
        """Return the tokens by age, then id."""

    def grants(self, team: str | None = None, stream: str | None = None) -> tuple[Grant, ...]:
        """Return the grants of a team, or on a stream, those for every one included; sorted."""


class Identities(IdentitiesView, Protocol):
    """Teams, their tokens and their grants."""

    def add_team(self, team: str, at: datetime) -> None:
        """Create a team; one that exists does not change."""

    def add_token(self, token: Token) -> None:
        """Record a token; `UnknownName` if there is no such team."""

    def lock_token(self, token_id: str) -> Token:
        """Read a token that nobody else changes until the transaction ends; `UnknownName` if there is none."""

    def replace_token(self, token: Token) -> None:
        """Write expiry and revocation of a token."""

    def add_grant(self, grant: Grant) -> None:
        """Give a role; repeating it changes nothing."""

    def remove_grant(self, grant: Grant) -> None:
        """Take a role away; `UnknownName` if it was not given."""


class AuditLogView(Protocol):
    """The append-only trail, for reading."""

    def after(self, number: int, limit: int, *, team: str | None = None) -> Sequence[AuditEntry]:
        """Return the next lines after a place; a `started` only where its end is missing."""

    def last_number(self) -> int:
        """Return the number of the newest line, 0 if there is none."""

    def newest(self, numbers: range, limit: int, asked: TrailFilter) -> Sequence[AuditEntry]:
        """Return the newest lines among these numbers that are asked for, the newest first.

        A `started` is among them only where its end is missing.
        """

    def about(self, subject: str, actions: Iterable[str], limit: int) -> Sequence[AuditEntry]:
        """Return the newest lines of these actions on a subject, the newest first.

        A `started` is among them only where its end is missing.
        """


class AuditLog(AuditLogView, Protocol):
    """The append-only trail."""

    def append(self, entry: AuditEntry) -> None:
        """Write one line."""


AT_WORK, LOST = 0, -1


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request with an idempotency key.

    `asked` is the SHA-256 of what was asked for. `status` is that of HTTP, `AT_WORK` until the first request ends, or
    `LOST` if nobody knows its outcome. `content` may not have a secret or a count of rows.
    """

    team: str
    key: str
    asked: str
    at: datetime
    status: int = AT_WORK
    content: str = ""


class Answers(Protocol):
    """Stored answers, per team and idempotency key."""

    def claim(self, answer: Answer, *, stale_before: datetime, expired_before: datetime) -> Answer | None:
        """Take a key that is free, or `AT_WORK` since before `stale_before`; else return what is stored under it.

        Answers older than `expired_before` are forgotten.
        """

    def keep(self, answer: Answer) -> None:
        """Store the answer of a key that was claimed."""

    def drop(self, team: str, key: str) -> None:
        """Free a key whose request failed."""
