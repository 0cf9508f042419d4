"""What can be read of teams, tokens, grants and the audit trail of a store behind the HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from ptkstore.domain.audit import AuditEntry
from ptkstore.domain.identity import Grant, Role, Token
from ptkstore.sdk.remote.transport import Transport, path_of


class RemoteIdentity:
    """`IdentityReads` over HTTP; no secret comes along."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def teams(self) -> tuple[str, ...]:
        return tuple(self._http.pages(path_of("teams"), lambda one: str(one["name"])))

    def tokens(self, team: str | None = None) -> tuple[Token, ...]:
        tokens = self._http.pages(path_of("tokens"), _token_of, {"team": team})
        return tuple(sorted(tokens, key=lambda token: (token.created_at, token.id)))

    def grants(self, team: str | None = None, stream: str | None = None) -> tuple[Grant, ...]:
        grants = self._http.pages(path_of("grants"), _grant_of, {"team": team, "stream": stream})
        return tuple(sorted(grants, key=lambda one: (one.team, one.stream, one.role.value)))

    def audit_log(
        self, after: int = 0, limit: int = 100, *, team: str | None = None
    ) -> tuple[AuditEntry, ...]:
        entries = self._http.pages(path_of("audit-log"), _entry_of, {"after": after, "team": team})
        return tuple(islice(entries, limit))


def _token_of(document: Mapping[str, Any]) -> Token:
    revoked = document["revoked_at"]
    return Token(
        id=document["id"],
        team=document["team"],
        label=document["label"],
        scopes=frozenset(map(Role, document["scopes"])),
        digest="",
        created_at=datetime.fromisoformat(document["created_at"]),
        expires_at=datetime.fromisoformat(document["expires_at"]),
        revoked_at=None if revoked is None else datetime.fromisoformat(revoked),
    )


def _grant_of(document: Mapping[str, Any]) -> Grant:
    return Grant(document["team"], document["stream"], Role(document["role"]))


def _entry_of(document: Mapping[str, Any]) -> AuditEntry:
    return AuditEntry(**{**document, "at": datetime.fromisoformat(document["at"])})
