"""Teams, tokens, grants and the audit trail."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import JSONResponse

from ptkstore.api.requests.access import WhoAsks
from ptkstore.api.requests.idempotency import IdempotencyKey, created
from ptkstore.api.requests.pages import NUMBER_DIGITS, Cursor, Limit, cursor_at, number_in, page_of
from ptkstore.api.requests.routers import Resource
from ptkstore.domain.identity import Action, Grant, Role, Token
from ptkstore.wire.base import Name, Page
from ptkstore.wire.base import TokenId as Id
from ptkstore.wire.identity import (
    AuditOut,
    GrantIn,
    GrantOut,
    IdentityOut,
    Issued,
    NameOrEvery,
    RotateIn,
    StreamRoleName,
    TeamIn,
    TeamOut,
    TokenIn,
    TokenOut,
)

resource = Resource("identity")
TokenId = Annotated[Id, Path(description="the token's id: what follows `ptk_` in its prefix")]
OfTeam = Annotated[Name | None, Query(description="of this team alone")]


@resource.route("GET", "/identity", Action.IDENTITY_READ, response_model=IdentityOut)
def show_identity(caller: WhoAsks) -> dict[str, Any]:
    """Show who asks: the team of the token and the roles it may act in."""
    who = caller.principal
    return {"team": who.team, "token_id": who.token_id, "scopes": [r.value for r in Role if r in who.scopes]}


@resource.route("POST", "/teams", Action.TEAM_CREATE, status=201, response_model=TeamOut)
def create_team(body: TeamIn, caller: WhoAsks, key: IdempotencyKey = None) -> JSONResponse:
    """Create a team; one that exists is left as it is."""
    caller.about("team", body.name)

    def act() -> TeamOut:
        caller.identity.create_team(body.name)
        return TeamOut(name=body.name)

    return created(caller, key, "create_team", body, act)


@resource.route("GET", "/teams", Action.TEAM_LIST, response_model=Page[TeamOut])
def list_teams(caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100) -> dict[str, Any]:
    """List teams."""
    return page_of(caller.identity.teams(), str, lambda name: {"name": name}, cursor, limit)


@resource.route("POST", "/tokens", Action.TOKEN_ISSUE, status=201, problems=(404,), response_model=Issued)
def issue_token(body: TokenIn, caller: WhoAsks, key: IdempotencyKey = None) -> JSONResponse:
    """Issue a token to a team; its text is shown this once."""
    caller.about("team", body.team)

    def act() -> Issued:
        token, text = caller.identity.issue_token(
            body.team, map(Role, body.scopes), label=body.label, life=timedelta(days=body.days)
        )
        caller.about("token", token.id)
        return Issued(token=text, **_token(token))

    return created(caller, key, "issue_token", body, act, secret="token")


@resource.route("GET", "/tokens", Action.TOKEN_LIST, problems=(404,), response_model=Page[TokenOut])
def list_tokens(
    caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100, team: OfTeam = None
) -> dict[str, Any]:
    """List tokens, without their secrets."""
    return page_of(caller.identity.tokens(team), lambda token: token.id, _token, cursor, limit)


@resource.route("POST", "/tokens/{token_id}/rotate", Action.TOKEN_ROTATE, status=201, response_model=Issued)
def rotate_token(
    token_id: TokenId, body: RotateIn, caller: WhoAsks, key: IdempotencyKey = None
) -> JSONResponse:
    """Put a new token in the place of one; both hold for the overlap."""

    def act() -> Issued:
        token, text = caller.identity.rotate_token(token_id, timedelta(hours=body.overlap_hours))
        return Issued(token=text, **_token(token))

    return created(caller, key, f"rotate_token {token_id}", body, act, secret="token")


@resource.route("DELETE", "/tokens/{token_id}", Action.TOKEN_REVOKE, status=204)
def revoke_token(token_id: TokenId, caller: WhoAsks) -> None:
    """Revoke a token, from the next request on."""
    caller.identity.revoke_token(token_id)


@resource.route("POST", "/grants", Action.GRANT_ADD, status=201, problems=(404,), response_model=GrantOut)
def grant_role(body: GrantIn, caller: WhoAsks, key: IdempotencyKey = None) -> JSONResponse:
    """Give a team a role on a stream.

    `*` stands for every stream, and for every team where the role is the consumer's. The team that owns a stream has
    all roles on it.
    """
    caller.about("grant", f"{body.team}/{body.stream}/{body.role}")
    grant = Grant(body.team, body.stream, Role(body.role))

    def act() -> GrantOut:
        caller.identity.grant(grant)
        return GrantOut(team=body.team, stream=body.stream, role=body.role)

    return created(caller, key, "grant_role", body, act)


@resource.route("GET", "/grants", Action.GRANT_LIST, problems=(404,), response_model=Page[GrantOut])
def list_grants(
    caller: WhoAsks,
    cursor: Cursor = None,
    limit: Limit = 100,
    team: OfTeam = None,
    stream: Annotated[Name | None, Query(description="on this stream alone")] = None,
) -> dict[str, Any]:
    """List grants, with those for every team or stream."""
    grants = caller.identity.grants(team, stream)
    return page_of(
        grants,
        lambda g: f"{g.team}/{g.stream}/{g.role}",
        lambda g: {"team": g.team, "stream": g.stream, "role": g.role.value},
        cursor,
        limit,
    )


@resource.route("DELETE", "/grants", Action.GRANT_REMOVE, status=204, problems=(404,))
def withdraw_role(
    caller: WhoAsks,
    team: Annotated[NameOrEvery, Query()],
    stream: Annotated[NameOrEvery, Query()],
    role: Annotated[StreamRoleName, Query()],
) -> None:
    """Take a role away, from the next request on."""
    caller.about("grant", f"{team}/{stream}/{role}")
    caller.identity.withdraw(Grant(team, stream, Role(role)))


@resource.route("GET", "/audit-log", Action.AUDIT_READ, problems=(404,), response_model=Page[AuditOut])
def read_audit_log(
    caller: WhoAsks,
    cursor: Cursor = None,
    limit: Limit = 100,
    team: OfTeam = None,
    after: Annotated[
        int, Query(ge=0, lt=10**NUMBER_DIGITS, description="lines after the one of this number")
    ] = 0,
) -> dict[str, Any]:
    """Read who did what, when, to what, with which outcome.

    Oldest first. It has ids and fixed codes, never a row, a value or a count.
    """
    entries = caller.identity.audit_log(
        max(after, number_in(cursor)), limit, team=team, knows_teams=caller.principal.administers
    )
    return {
        "items": [{**asdict(entry), "at": entry.at.isoformat()} for entry in entries],
        "next_cursor": cursor_at(str(entries[-1].number)) if len(entries) == limit else None,
    }


def _token(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "prefix": token.prefix,
        "team": token.team,
        "label": token.label,
        "scopes": [role.value for role in Role if role in token.scopes],
        "created_at": token.created_at.isoformat(),
        "expires_at": token.expires_at.isoformat(),
        "revoked_at": None if token.revoked_at is None else token.revoked_at.isoformat(),
    }
