"""All roles and tokens of the store, for administrators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ptkstore.console.actions.routes import PREFIX as ACTIONS
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import shown_time
from ptkstore.domain.identity import EVERY, Action, Grant, Principal, Role, Token
from ptkstore.domain.names import checked_name
from ptkstore.errors import InvalidRequest

ROLES_SHOWN = 300
TOKENS_SHOWN = 300


class AccessPage(Reads):
    """Who has which role on which stream, and which tokens there are."""

    def access(self, who: Principal, asked: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Show roles and tokens, of all or of one team, on all streams or on one; never a secret.

        Parameters
        ----------
        asked : Mapping
            `team` and `stream` restrict what is shown.
        """
        for action in (Action.GRANT_LIST, Action.TOKEN_LIST):
            self._identity.permit(who, action)
        may = self._identity.allowed(who, (Action.GRANT_ADD, Action.GRANT_REMOVE, Action.AUDIT_READ))
        team, stream = (asked.get(name, [""])[0].strip() for name in ("team", "stream"))
        shown = {"team": team, "stream": stream, "traced": Action.AUDIT_READ in may, "problem": ""}
        shown["add"] = f"{ACTIONS}/grants/add" if Action.GRANT_ADD in may else ""
        try:
            roles = self._roles(team, stream, removable=Action.GRANT_REMOVE in may)
            tokens = self._identity.tokens(team or None)
        except InvalidRequest as error:  # also of an unknown name
            return {**shown, "problem": str(error), "roles": [], "n_roles": 0, "tokens": [], "n_tokens": 0}
        now = self._service.clock.now()
        newest = sorted(tokens, key=lambda one: (one.holds(now), one.created_at, one.id), reverse=True)
        return {
            **shown,
            "roles": roles[:ROLES_SHOWN],
            "n_roles": len(roles),
            "tokens": [_token(one, now) for one in newest[:TOKENS_SHOWN]],
            "n_tokens": len(tokens),
        }

    def _roles(self, team: str, stream: str, *, removable: bool) -> list[dict[str, str]]:
        """Roles by stream, those on every stream first; owners have all roles, and nobody takes those away."""
        for kind, name in (("team", team), ("stream", stream)):
            if name:
                checked_name(kind, name)
        found = [
            (one.stream, 1, one.team, grant_row(one, removable=removable))
            for one in self._identity.grants(team or None, stream or None)
        ]
        found += [
            (one.name, 0, one.team, owner_row(one.team, one.name))
            for one in self._service.streams()
            if team in ("", one.team) and stream in ("", one.name)
        ]
        return [row for *_, row in sorted(found, key=lambda one: (one[0] != EVERY, *one[:3], one[3]["role"]))]


def owner_row(team: str, stream: str) -> dict[str, str]:
    """Return the row of the team that owns a stream."""
    return {"team": team, "role": "all, as the owner", "on": stream, "remove": ""}


def grant_row(grant: Grant, *, removable: bool) -> dict[str, str]:
    """Return the row of a role that was given, with the page that takes it away for who may."""
    said = f"team={grant.team}&stream={grant.stream}&role={grant.role.value}"
    return {
        "team": "every team" if grant.team == EVERY else grant.team,
        "role": grant.role.value,
        "on": "every stream" if grant.stream == EVERY else grant.stream,
        "remove": f"{ACTIONS}/grants/remove?{said}" if removable else "",
    }


def _token(token: Token, now: datetime) -> dict[str, Any]:
    ends = token.expires_at if token.revoked_at is None else min(token.expires_at, token.revoked_at)
    state = "valid until" if token.holds(now) else "expired" if ends == token.expires_at else "revoked"
    return {
        "token": token.prefix,
        "team": token.team,
        "label": token.label,
        "scopes": ", ".join(role.value for role in Role if role in token.scopes),
        "made": token.created_at.isoformat(),
        "holds": token.holds(now),
        "state": f"{state} {shown_time(ends.isoformat())}",
    }
