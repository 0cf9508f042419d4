"""Teams, tokens and grants in SQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, bindparam, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql.identity import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, given, row_of
from ptkstore.domain.identity import EVERY, Grant, Role, Token
from ptkstore.errors import Conflict, UnknownName

# What every request asks: statements that need not be made anew.
_TOKEN = select(t.tokens).where(t.tokens.c.id == bindparam("id"))
_GRANTS = select(t.grants).order_by(t.grants.c.team, t.grants.c.stream, t.grants.c.role)
_GRANTS_OF = _GRANTS.where(or_(t.grants.c.team == bindparam("team"), t.grants.c.team == EVERY))


class SqlIdentities(CatalogPart):
    """Teams, their tokens and their grants."""

    def add_team(self, team: str, at: datetime) -> None:
        """Create a team; one that exists does not change."""
        if self._has_team(team):
            return
        try:
            self._connection.execute(insert(t.teams).values(name=team, at=at))
        except IntegrityError:
            raise Conflict(f"team {team!r} was created by somebody else just now") from None

    def teams(self) -> tuple[str, ...]:
        """Return the teams by name."""
        return tuple(self._connection.execute(select(t.teams.c.name).order_by(t.teams.c.name)).scalars())

    def add_token(self, token: Token) -> None:
        """Record a token; `UnknownName` if there is no such team."""
        if not self._has_team(token.team):
            raise UnknownName("team", token.team)
        scopes = ",".join(role for role in Role if role in token.scopes)
        self._connection.execute(insert(t.tokens).values(row_of(t.tokens, token, scopes=scopes)))

    def token(self, token_id: str) -> Token | None:
        """Return the token of this id; None if there is none."""
        row = self._connection.execute(_TOKEN, {"id": token_id}).one_or_none()
        return None if row is None else _token(row)

    def lock_token(self, token_id: str) -> Token:
        """Read a token and hold its row; `UnknownName` if there is none."""
        query = select(t.tokens).where(t.tokens.c.id == token_id).with_for_update()
        return _token(self._one(query, "token", token_id))

    def replace_token(self, token: Token) -> None:
        """Write expiry and revocation of a token."""
        self._connection.execute(
            update(t.tokens)
            .where(t.tokens.c.id == token.id)
            .values(expires_at=token.expires_at, revoked_at=token.revoked_at)
        )

    def tokens(self, team: str | None = None) -> tuple[Token, ...]:
        """Return the tokens by age, then id."""
        query = select(t.tokens).where(*given(t.tokens, team=team))
        rows = self._connection.execute(query.order_by(t.tokens.c.created_at, t.tokens.c.id))
        return tuple(map(_token, rows))

    def add_grant(self, grant: Grant) -> None:
        """Give a role; repeating it changes nothing."""
        if grant.team != EVERY and not self._has_team(grant.team):
            raise UnknownName("team", grant.team)
        if self._connection.execute(select(t.grants).where(*_is(grant))).one_or_none() is not None:
            return
        try:
            self._connection.execute(insert(t.grants).values(row_of(t.grants, grant)))
        except IntegrityError:
            raise Conflict("this grant was given by somebody else just now") from None

    def remove_grant(self, grant: Grant) -> None:
        """Take a role away; `UnknownName` if it was not given."""
        if not self._connection.execute(delete(t.grants).where(*_is(grant))).rowcount:
            raise UnknownName("grant", f"{grant.team}/{grant.stream}/{grant.role}")

    def grants(self, team: str | None = None, stream: str | None = None) -> tuple[Grant, ...]:
        """Return the grants of a team, or on a stream, those for every one included; sorted."""
        query = _GRANTS if team is None else _GRANTS_OF
        if stream is not None:
            query = query.where(t.grants.c.stream.in_((stream, EVERY)))
        rows = self._connection.execute(query, {} if team is None else {"team": team})
        return tuple(Grant(r.team, r.stream, Role(r.role)) for r in rows)

    def _has_team(self, team: str) -> bool:
        query = select(t.teams.c.name).where(t.teams.c.name == team)
        return self._connection.execute(query).one_or_none() is not None


def _is(grant: Grant) -> tuple[Any, ...]:
    return t.grants.c.team == grant.team, t.grants.c.stream == grant.stream, t.grants.c.role == grant.role


def _token(row: Row[Any]) -> Token:
    return Token(**{**row._mapping, "scopes": frozenset(map(Role, row.scopes.split(",")))})
