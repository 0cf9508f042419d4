"""Teams, tokens, grants and the audit trail."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ptkstore.wire.base import Instant, Name, Wire

RoleName = Literal["producer", "developer", "consumer", "officer", "device-gateway", "administrator"]
StreamRoleName = Literal["producer", "developer", "consumer", "officer", "device-gateway"]
NameOrEvery = Annotated[
    str,
    StringConstraints(pattern=r"^(\*|[a-z][a-z0-9]*(_[a-z0-9]+)*_?)$", max_length=63),
    Field(description="a name, or * for every one"),
]


class TeamIn(Wire, json_schema_extra={"examples": [{"name": "taxi"}]}):
    """A team to create."""

    name: Name


class TeamOut(Wire):
    """A team, which owns streams, PTKs and subscriptions."""

    name: str


class IdentityOut(Wire):
    """Who asks."""

    team: str
    token_id: str
    scopes: list[RoleName]


class TokenIn(
    Wire,
    json_schema_extra={"examples": [{"team": "taxi", "scopes": ["producer"], "label": "nightly upload"}]},
):
    """A token to issue: the roles it may act in, as far as its team has them, and for how long."""

    team: Name
    scopes: Annotated[list[RoleName], Field(min_length=1, max_length=5)]
    label: Annotated[str, StringConstraints(max_length=100)] = ""
    days: Annotated[int, Field(ge=1, le=366)] = 90


class TokenOut(Wire):
    """A token without its secret; `prefix` is how its text begins."""

    id: str
    prefix: str
    team: str
    label: str
    scopes: list[RoleName]
    created_at: Instant
    expires_at: Instant
    revoked_at: Instant | None


class Issued(TokenOut):
    """A new token. `token` is its text, shown this once: an answer replayed has none."""

    token: str | None


class RotateIn(Wire, json_schema_extra={"examples": [{"overlap_hours": 24}]}):
    """The hours for which the old token stays valid beside the new one."""

    overlap_hours: Annotated[float, Field(ge=0, le=30 * 24)] = 24.0


class GrantIn(
    Wire, json_schema_extra={"examples": [{"team": "ads", "stream": "trips", "role": "developer"}]}
):
    """A role of a team on a stream."""

    team: NameOrEvery
    stream: NameOrEvery
    role: StreamRoleName


class GrantOut(Wire):
    """A role that was given."""

    team: str
    stream: str
    role: StreamRoleName


class AuditOut(Wire):
    """One act: by whom, when, on what, and its outcome; `started` if nobody knows how it ended."""

    number: int
    at: Instant
    request_id: str
    team: str
    token_id: str
    action: str
    subject: str
    outcome: str
