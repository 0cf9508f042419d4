"""Commands about who may do what, and who did: `ptk team`, `ptk token`, `ptk grant`, `ptk audit-log`.

They work in the store's home, so whoever may read it needs no token; the audit trail calls them `local`. Those that
read work over HTTP, too, by the roles of the token in `PTK_TOKEN`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptkstore.cli.output import (
    AsJson,
    Home,
    HomeOrUrl,
    answers,
    console,
    opened,
    print_json,
    print_rows,
    reading,
)
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import Action, Grant, Role, Token
from ptkstore.domain.near_names import near
from ptkstore.errors import InvalidRequest, UnknownName

if TYPE_CHECKING:
    from ptkstore.sdk.service import IdentityReads
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
def _acting(home: Path | None, action: Action, subject: str, *, make: bool = False) -> Iterator[Identity]:
    """The use cases of identity, with the action recorded; a home that is not there is made only on request."""
    with opened(home, make=make) as store:
        identity = store.service.identity
        with identity.recorded(action, subject, secrets.token_hex(8), None):
            try:
                yield identity
            except UnknownName as error:
                if error.kind == "team" and not error.hint:
                    new = f"create it: ptk team create {error.name}"
                    error.hint = near(error.name, identity.teams(), otherwise=new)
                raise


@contextmanager
def _reading(home: Path | None) -> Iterator[IdentityReads]:
    with reading(home) as store:
        yield store.service.identity


@team_app.command("create")
@answers
def create_team(name: str, home: Home = None, as_json: AsJson = False) -> None:
    """Create a team; one that exists is left as it is."""
    with _acting(home, Action.TEAM_CREATE, subject_of("team", name), make=True) as identity:
        identity.create_team(name)
    if as_json:
        print_json({"team": name})
    else:
        console.print(
            f"team {name} is there; give it a token with: ptk token create --team {name} --scope ROLE"
        )


@team_app.command("list")
@answers
def list_teams(home: HomeOrUrl = None, as_json: AsJson = False) -> None:
    """List teams."""
    with _reading(home) as identity:
        rows = [{"team": name} for name in identity.teams()]
    print_rows(rows, as_json=as_json, title="Teams", nothing="no teams yet; see: ptk team create --help")


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
    days: Annotated[int, typer.Option(min=1, max=366, help="How long it holds.")] = 90,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Issue a token; its text is shown this once."""
    scopes = {*(scope or ()), *((Role.ADMINISTRATOR,) if admin else ())}
    if team is None and not admin:
        raise InvalidRequest("name the team that the token is for, or ask for --admin")
    holder = team or ADMINISTRATORS
    first = team is None  # an administrator's may be what a store begins with; other teams are in one already
    with _acting(home, Action.TOKEN_ISSUE, subject_of("team", holder), make=first) as identity:
        if first:
            identity.create_team(holder)
        token, text = identity.issue_token(holder, scopes, label=label, life=timedelta(days=days))
    _show_new(token, text, as_json=as_json)


@token_app.command("rotate")
@answers
def rotate_token(
    token_id: TokenId,
    overlap_hours: Annotated[float, typer.Option(min=0, help="How long the old one holds beside it.")] = 24.0,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Put a new token in the place of one; its text is shown this once."""
    name = _id(token_id)
    with _acting(home, Action.TOKEN_ROTATE, subject_of("token", name)) as identity:
        token, text = identity.rotate_token(name, timedelta(hours=overlap_hours))
    _show_new(token, text, as_json=as_json)


@token_app.command("revoke")
@answers
def revoke_token(token_id: TokenId, home: Home = None, as_json: AsJson = False) -> None:
    """End a token now."""
    name = _id(token_id)
    with _acting(home, Action.TOKEN_REVOKE, subject_of("token", name)) as identity:
        identity.revoke_token(name)
    if as_json:
        print_json({"token": name, "revoked": True})
    else:
        console.print(f"ptk_{name} opens nothing any more")


@token_app.command("list")
@answers
def list_tokens(team: TeamOption = None, home: HomeOrUrl = None, as_json: AsJson = False) -> None:
    """List tokens, without their secrets."""
    with _reading(home) as identity:
        rows = [_token(token) for token in identity.tokens(team)]
    print_rows(rows, as_json=as_json, title="Tokens", nothing="no tokens yet; see: ptk token create --help")


@grant_app.command("add")
@answers
def add_grant(
    team: TeamOrAll, stream: Stream, role: Role, home: Home = None, as_json: AsJson = False
) -> None:
    """Give a team a role on a stream; the team that owns a stream has all of them."""
    grant = Grant(team, stream, role)
    with _acting(home, Action.GRANT_ADD, subject_of("grant", f"{team}/{stream}/{role.value}")) as identity:
        identity.grant(grant)
    _show_grant(grant, "has", as_json=as_json)


@grant_app.command("remove")
@answers
def remove_grant(
    team: TeamOrAll, stream: Stream, role: Role, home: Home = None, as_json: AsJson = False
) -> None:
    """Take a role away."""
    grant = Grant(team, stream, role)
    with _acting(home, Action.GRANT_REMOVE, subject_of("grant", f"{team}/{stream}/{role.value}")) as identity:
        identity.withdraw(grant)
    _show_grant(grant, "has no longer", as_json=as_json)


@grant_app.command("list")
@answers
def list_grants(
    team: TeamOption = None,
    stream: Annotated[str | None, typer.Option(help="On this stream alone.")] = None,
    home: HomeOrUrl = None,
    as_json: AsJson = False,
) -> None:
    """List roles that were given."""
    with _reading(home) as identity:
        rows = [
            {"team": g.team, "stream": g.stream, "role": g.role.value} for g in identity.grants(team, stream)
        ]
    print_rows(rows, as_json=as_json, title="Grants", nothing="no grants yet; see: ptk grant add --help")


@answers
def audit_log(
    after: Annotated[int, typer.Option(min=0, help="Lines after the one of this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many lines.")] = 100,
    team: TeamOption = None,
    home: HomeOrUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show who did what, when, to what, with which outcome; oldest first."""
    with _reading(home) as identity:
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
            for entry in identity.audit_log(after, limit, team=team)
        ]
    print_rows(rows, as_json=as_json, title="Audit trail", nothing="nothing has been done yet")


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


def _show_new(token: Token, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json({**_token(token), "text": text})
        return
    until = token.expires_at.isoformat(timespec="minutes")
    console.print(f"{token.prefix} of team {token.team} is valid until {until}\nshown this once: {text}")


def _show_grant(grant: Grant, has: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"team": grant.team, "stream": grant.stream, "role": grant.role.value})
    else:
        console.print(f"team {grant.team} {has} the role {grant.role.value} on {grant.stream}")
