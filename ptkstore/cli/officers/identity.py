"""Commands about who may do what, and who did: `ptk team`, `ptk token`, `ptk grant`, `ptk audit-log`.

They work in the store's home, so whoever may read it needs no token; the audit trail calls them `local`. Those that
read work over HTTP, too, by the roles of the token in `PTK_TOKEN`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptkstore.application.identity.read_audit_log import MOST_LINES
from ptkstore.cli.output import (
    DATES,
    AsJson,
    Done,
    Home,
    Rows,
    answers,
    as_utc,
    in_home,
    opened,
    reads,
)
from ptkstore.domain.audit import AuditEntry, subject_of
from ptkstore.domain.identity import Action, Grant, Role, Token
from ptkstore.domain.near_names import near
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.sdk import Store
from ptkstore.sdk.store import HomeStore

if TYPE_CHECKING:
    from ptkstore.wiring.identity import Identity

ADMINISTRATORS = "administrators"

team_app = typer.Typer(no_args_is_help=True, help="Teams.")
token_app = typer.Typer(no_args_is_help=True, help="Tokens of the HTTP API.")
grant_app = typer.Typer(no_args_is_help=True, help="Roles of teams on streams.")

TeamOption = Annotated[str | None, typer.Option("--team", help="Of this team alone.")]
TokenId = Annotated[str, typer.Argument(help="Its id as ptk token list shows it; never its whole text.")]
Stream = Annotated[str, typer.Argument(help="The stream, or * for all.")]
TeamOrAll = Annotated[str, typer.Argument(help="The team, or * for all, who can be consumers only.")]


@contextmanager
def _acting(store: HomeStore, action: Action, kind: str, name: str) -> Iterator[Identity]:
    """The use cases of identity, with an action on what is named recorded."""
    identity = store.service.identity
    with identity.recorded(action, subject_of(kind, name), secrets.token_hex(8), None):
        try:
            yield identity
        except UnknownName as error:
            if error.kind == "team" and not error.hint:
                new = f"create it: ptk team create {error.name}"
                error.hint = near(error.name, identity.teams(), otherwise=new)
            raise


@team_app.command("create")
@answers
def create_team(name: str, home: Home = None, as_json: AsJson = False) -> None:
    """Create a team; one that exists is left as it is."""
    with opened(home, make=True) as store, _acting(store, Action.TEAM_CREATE, "team", name) as identity:
        identity.create_team(name)
    text = f"team {name} is there; give it a token with: ptk token create --team {name} --scope ROLE"
    Done({"team": name}, text).show(as_json=as_json)


@team_app.command("list")
@reads
def list_teams(store: Store) -> Rows:
    """List teams."""
    rows = [{"team": name} for name in store.service.identity.teams()]
    return Rows(rows, "Teams", "no teams yet; see: ptk team create --help")


@token_app.command("create")
@answers
def create_token(
    team: Annotated[str | None, typer.Option(help="The team it is for.")] = None,
    scope: Annotated[
        list[Role] | None, typer.Option(help="A role it may act in; repeat it for several.")
    ] = None,
    admin: Annotated[
        bool, typer.Option("--admin", help=f"For an administrator, of the team {ADMINISTRATORS} by default.")
    ] = False,
    days: Annotated[int, typer.Option(min=1, max=366, help="How long it is valid.")] = 90,
    label: Annotated[str, typer.Option(help="The purpose of the token.")] = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Issue a token; its text, alone on standard output, is shown this once."""
    scopes = {*(scope or ()), *((Role.ADMINISTRATOR,) if admin else ())}
    if team is None and not admin:
        raise InvalidRequest("name the team that the token is for, or ask for --admin")
    holder = team or ADMINISTRATORS
    first = team is None  # an administrator's may be what a store begins with; other teams are in one already
    with (
        opened(home, make=first) as store,
        _acting(store, Action.TOKEN_ISSUE, "team", holder) as identity,
    ):
        if first:
            identity.create_team(holder)
        token, text = identity.issue_token(holder, scopes, label=label, life=timedelta(days=days))
    _new(token, text).show(as_json=as_json)


@token_app.command("rotate")
@in_home
def rotate_token(
    store: HomeStore,
    token_id: TokenId,
    overlap_hours: Annotated[
        float, typer.Option(min=0, help="How long the old one stays valid beside it.")
    ] = 24.0,
) -> Done:
    """Put a new token in the place of one; its text, alone on standard output, is shown this once."""
    name = _id(token_id)
    with _acting(store, Action.TOKEN_ROTATE, "token", name) as identity:
        return _new(*identity.rotate_token(name, timedelta(hours=overlap_hours)))


@token_app.command("revoke")
@in_home
def revoke_token(store: HomeStore, token_id: TokenId) -> Done:
    """End a token now."""
    name = _id(token_id)
    with _acting(store, Action.TOKEN_REVOKE, "token", name) as identity:
        identity.revoke_token(name)
    return Done({"token": name, "revoked": True}, f"ptk_{name} opens nothing any more")


@token_app.command("list")
@reads
def list_tokens(store: Store, team: TeamOption = None) -> Rows:
    """List tokens, without their secrets."""
    rows = [_token(token) for token in store.service.identity.tokens(team)]
    nothing = "no tokens yet; see: ptk token create --help" if team is None else "this team has no tokens"
    return Rows(rows, "Tokens", nothing)


@grant_app.command("add")
@in_home
def add_grant(store: HomeStore, team: TeamOrAll, stream: Stream, role: Role) -> Done:
    """Give a team a role on a stream; the team that owns a stream has all of them."""
    grant = Grant(team, stream, role)  # refused before it is an action that the trail has
    with _acting(store, Action.GRANT_ADD, "grant", f"{team}/{stream}/{role.value}") as identity:
        identity.grant(grant)
    return Done(_grant(team, stream, role), f"team {team} has the role {role.value} on {stream}")


@grant_app.command("remove")
@in_home
def remove_grant(store: HomeStore, team: TeamOrAll, stream: Stream, role: Role) -> Done:
    """Take a role away."""
    grant = Grant(team, stream, role)
    with _acting(store, Action.GRANT_REMOVE, "grant", f"{team}/{stream}/{role.value}") as identity:
        identity.withdraw(grant)
    return Done(_grant(team, stream, role), f"team {team} has no longer the role {role.value} on {stream}")


@grant_app.command("list")
@reads
def list_grants(
    store: Store,
    team: TeamOption = None,
    stream: Annotated[str | None, typer.Option(help="On this stream alone.")] = None,
) -> Rows:
    """List roles that were given."""
    rows = [_grant(g.team, g.stream, g.role) for g in store.service.identity.grants(team, stream)]
    nothing = "no grants yet; see: ptk grant add --help" if team is stream is None else "no grants match"
    return Rows(rows, "Grants", nothing)


@reads
def audit_log(
    store: Store,
    after: Annotated[int, typer.Option(min=0, help="Lines after the one of this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many lines.")] = 100,
    team: TeamOption = None,
    since: Annotated[
        datetime | None, typer.Option("--from", formats=DATES, help="Lines from this UTC time on.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--to", formats=DATES, help="Lines before this UTC time.")
    ] = None,
) -> Rows:
    """Show who did what, when, to what, with which outcome; oldest first."""
    entries = _lines(store, after, limit, team, (as_utc(since), as_utc(until)))
    rows = [
        {
            "number": entry.number,
            "at": entry.at.isoformat(timespec="seconds"),
            "team": entry.team,
            "token": entry.token_id,
            "action": entry.action,
            "subject": entry.subject,
            "outcome": entry.outcome,
            "request": entry.request_id,
        }
        for entry in entries
    ]
    anything = team is None and not after and since is None and until is None
    nothing = "no actions are on record yet" if anything else "no actions on record match"
    return Rows(rows, "Audit trail", nothing)


def _lines(
    store: Store, after: int, limit: int, team: str | None, period: tuple[datetime | None, datetime | None]
) -> list[AuditEntry]:
    """The lines of a period; the trail is read to its end, as clocks of processes may differ a little."""
    since, until = period
    if since is None and until is None:
        return list(store.service.identity.audit_log(after, limit, team=team))
    found: list[AuditEntry] = []
    while len(found) < limit:
        lines = store.service.identity.audit_log(after, MOST_LINES, team=team)
        found += (one for one in lines if _within(one.at, since, until))
        if len(lines) < MOST_LINES:
            break
        after = lines[-1].number
    return found[:limit]


def _within(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or at >= since) and (until is None or at < until)


def _id(text: str) -> str:
    """A token's id, with or without what its text begins with; never the whole text."""
    name = text.removeprefix("ptk_")
    if "_" in name or len(name) != 16:
        raise InvalidRequest(
            "this is no id of a token. Give what ptk token list shows in its column `token`: ptk_ and 16 characters. "
            "The text that opens the API is longer; it is a secret, so do not type it here"
        )
    return name


def _token(token: Token) -> dict[str, Any]:
    return {
        "token": token.prefix,
        "team": token.team,
        "scopes": ",".join(role for role in Role if role in token.scopes),
        "label": token.label,
        "expires_at": token.expires_at.isoformat(timespec="seconds"),
        "revoked_at": None if token.revoked_at is None else token.revoked_at.isoformat(timespec="seconds"),
    }


def _new(token: Token, text: str) -> Done:
    until = token.expires_at.isoformat(timespec="minutes")
    about = (
        f"This token of team {token.team} is shown this once, and valid until {until}. "
        f"Its id, for ptk token rotate and revoke, is {token.prefix}"
    )
    return Done({**_token(token), "text": text}, text, highlight=False, soft_wrap=True, about=about)


def _grant(team: str, stream: str, role: Role) -> dict[str, Any]:
    return {"team": team, "stream": stream, "role": role.value}
