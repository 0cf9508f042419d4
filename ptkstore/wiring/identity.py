"""Use cases of identity, bound to the adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from ptkstore.application.identity import (
    answer_once,
    authorize,
    create_team,
    grant_role,
    issue_token,
    known_teams,
    read_audit_log,
    record_action,
    revoke_token,
    rotate_token,
    sight,
)
from ptkstore.application.identity.authorize import Named
from ptkstore.domain.audit import AuditEntry, TrailFilter
from ptkstore.domain.identity import EVERY, Action, Grant, Principal, Role, Token
from ptkstore.ports.identity import Answer
from ptkstore.wiring.adapters import Adapters


class Identity:
    """Permissions and the record of acts; reads are those of `IdentityReads`."""

    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters

    def create_team(self, team: str) -> None:
        create_team.create_team(team, begin=self._adapters.begin, clock=self._adapters.clock)

    def teams(self) -> tuple[str, ...]:
        with self._adapters.read() as uow:
            return uow.identities.teams()

    def issue_token(
        self,
        team: str,
        scopes: Iterable[Role],
        *,
        label: str = "",
        life: timedelta = issue_token.USUAL_LIFE,
    ) -> tuple[Token, str]:
        return issue_token.issue_token(
            team, scopes, label=label, life=life, begin=self._adapters.begin, clock=self._adapters.clock
        )

    def rotate_token(
        self, token_id: str, overlap: timedelta = rotate_token.USUAL_OVERLAP
    ) -> tuple[Token, str]:
        return rotate_token.rotate_token(
            token_id, overlap, begin=self._adapters.begin, clock=self._adapters.clock
        )

    def revoke_token(self, token_id: str) -> None:
        revoke_token.revoke_token(token_id, begin=self._adapters.begin, clock=self._adapters.clock)

    def tokens(self, team: str | None = None) -> tuple[Token, ...]:
        """Return the tokens of a team, or of all; `UnknownName` if there is no such team."""
        with self._adapters.read() as uow:
            if team is not None:
                known_teams.check_team(team, uow)
            return uow.identities.tokens(team)

    def grant(self, grant: Grant) -> None:
        """Give a team a role on a stream."""
        grant_role.grant_role(grant, begin=self._adapters.begin)

    def withdraw(self, grant: Grant) -> None:
        """Take a role away."""
        grant_role.withdraw_role(grant, begin=self._adapters.begin)

    def grants(self, team: str | None = None, stream: str | None = None) -> tuple[Grant, ...]:
        """Return the grants of a team, or on a stream; `UnknownName` if there is no such team or stream."""
        with self._adapters.read() as uow:
            if team not in (None, EVERY):
                known_teams.check_team(team, uow)
            if stream not in (None, EVERY):
                uow.streams.get(stream)
            return uow.identities.grants(team, stream)

    def identify(self, text: str | None) -> Principal:
        return authorize.identify(text, begin=self._adapters.read, clock=self._adapters.clock)

    def principal(self, token_id: str) -> Principal:
        """Return the principal of a token, without its text."""
        return authorize.holder_of(token_id, begin=self._adapters.read, clock=self._adapters.clock)

    def authorize(self, text: str | None, action: Action, named: Named | None) -> Principal:
        return authorize.authorize(text, action, named, begin=self._adapters.read, clock=self._adapters.clock)

    def permit(self, principal: Principal, action: Action, *named: Named) -> None:
        """Raise `NotAllowed` unless the roles allow an action on all that a request names."""
        with self._adapters.read() as uow:
            for name in named or (None,):  # without a name the roles are still looked at
                authorize.permit(principal, action, name, uow)

    def allowed(
        self, principal: Principal, actions: Iterable[Action], named: Named | None = None
    ) -> frozenset[Action]:
        """Return those of the actions that the roles allow on what a request names, or on the store."""
        with self._adapters.read() as uow:
            return authorize.allowed(principal, actions, named, uow)

    def acts_on(self, subject: str, actions: Iterable[str], limit: int) -> Sequence[AuditEntry]:
        """Return the newest lines of the audit trail of some actions on a subject."""
        return read_audit_log.read_acts_on(subject, actions, limit, begin=self._adapters.read)

    def newest_acts(self, asked: TrailFilter, below: int | None, limit: int) -> read_audit_log.NewestLines:
        """Return the newest lines of the audit trail that are asked for, below a number."""
        return read_audit_log.read_newest_lines(asked, below, limit, begin=self._adapters.read)

    def visible_streams(self, principal: Principal) -> frozenset[str]:
        with self._adapters.read() as uow:
            return authorize.visible_streams(principal, uow)

    def streams_for(self, principal: Principal, action: Action) -> frozenset[str]:
        with self._adapters.read() as uow:
            return authorize.streams_for(principal, action, uow)

    def sight(self, principal: Principal) -> sight.Sight:
        """Return what the principal may see of the whole store."""
        with self._adapters.read() as uow:
            return sight.sight_of(principal, uow)

    def recorded(
        self, action: Action, subject: str, request_id: str, principal: Principal | None
    ) -> AbstractContextManager[record_action.Recorded]:
        return record_action.recorded(
            action, subject, request_id, principal, begin=self._adapters.begin, clock=self._adapters.clock
        )

    def record(
        self, action: Action, subject: str, request_id: str, principal: Principal | None, outcome: str
    ) -> None:
        record_action.record(
            action,
            subject,
            request_id,
            principal,
            outcome,
            begin=self._adapters.begin,
            clock=self._adapters.clock,
        )

    def known_teams(self) -> tuple[str, ...]:
        """Return teams that were created or own something."""
        with self._adapters.read() as uow:
            return known_teams.known_teams(uow)

    def audit_log(
        self, after: int = 0, limit: int = 100, *, team: str | None = None, knows_teams: bool = True
    ) -> Sequence[AuditEntry]:
        return read_audit_log.read_audit_log(
            after, limit, team=team, knows_teams=knows_teams, begin=self._adapters.read
        )

    def answer_once(
        self,
        team: str,
        key: str,
        requested: object,
        act: Callable[[], tuple[int, str]],
        *,
        repeatable: bool = True,
    ) -> tuple[Answer, bool]:
        return answer_once.answer_once(
            team,
            key,
            requested,
            act,
            repeatable=repeatable,
            begin=self._adapters.begin,
            clock=self._adapters.clock,
        )
