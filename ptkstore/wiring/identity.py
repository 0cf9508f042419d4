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
    read_audit_log,
    record_action,
    revoke_token,
    rotate_token,
)
from ptkstore.application.identity.authorize import Named
from ptkstore.domain.audit import AuditEntry
from ptkstore.domain.identity import Action, Grant, Principal, Role, Token
from ptkstore.ports.catalog import Begin, Read
from ptkstore.ports.identity import Answer
from ptkstore.ports.runtime import Clock
from ptkstore.wiring.adapters import Adapters


class Identity:
    """Who may do what, and who did; on the adapters of one process."""

    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters

    @property
    def _begin(self) -> Begin:
        return self._adapters.begin

    @property
    def _read(self) -> Read:
        return self._adapters.read

    @property
    def _clock(self) -> Clock:
        return self._adapters.clock

    def create_team(self, team: str) -> None:
        """See `application.identity.create_team`."""
        create_team.create_team(team, begin=self._begin, clock=self._clock)

    def teams(self) -> tuple[str, ...]:
        """All teams."""
        with self._read() as uow:
            return uow.identities.teams()

    def issue_token(
        self,
        team: str,
        scopes: Iterable[Role],
        *,
        label: str = "",
        life: timedelta = issue_token.USUAL_LIFE,
    ) -> tuple[Token, str]:
        """See `application.identity.issue_token`."""
        return issue_token.issue_token(
            team, scopes, label=label, life=life, begin=self._begin, clock=self._clock
        )

    def rotate_token(
        self, token_id: str, overlap: timedelta = rotate_token.USUAL_OVERLAP
    ) -> tuple[Token, str]:
        """See `application.identity.rotate_token`."""
        return rotate_token.rotate_token(token_id, overlap, begin=self._begin, clock=self._clock)

    def revoke_token(self, token_id: str) -> None:
        """See `application.identity.revoke_token`."""
        revoke_token.revoke_token(token_id, begin=self._begin, clock=self._clock)

    def tokens(self, team: str | None = None) -> tuple[Token, ...]:
        """Tokens without their secrets."""
        with self._read() as uow:
            return uow.identities.tokens(team)

    def grant(self, grant: Grant) -> None:
        """See `application.identity.grant_role`."""
        grant_role.grant_role(grant, begin=self._begin)

    def withdraw(self, grant: Grant) -> None:
        """See `application.identity.grant_role`."""
        grant_role.withdraw_role(grant, begin=self._begin)

    def grants(self, team: str | None = None, stream: str | None = None) -> tuple[Grant, ...]:
        """Roles that were given."""
        with self._read() as uow:
            return uow.identities.grants(team, stream)

    def identify(self, text: str | None) -> Principal:
        """See `application.identity.authorize`."""
        return authorize.identify(text, begin=self._read, clock=self._clock)

    def principal(self, token_id: str) -> Principal:
        """See `application.identity.authorize.holder_of`."""
        return authorize.holder_of(token_id, begin=self._read, clock=self._clock)

    def authorize(self, text: str | None, action: Action, named: Named | None) -> Principal:
        """See `application.identity.authorize`."""
        return authorize.authorize(text, action, named, begin=self._read, clock=self._clock)

    def permit(self, principal: Principal, action: Action, *named: Named) -> None:
        """See `application.identity.authorize`; for all that a request names."""
        with self._read() as uow:
            for one in named or (None,):  # without a name the roles are still looked at
                authorize.permit(principal, action, one, uow)

    def visible_streams(self, principal: Principal) -> frozenset[str]:
        """See `application.identity.authorize`."""
        with self._read() as uow:
            return authorize.visible_streams(principal, uow)

    def streams_for(self, principal: Principal, action: Action) -> frozenset[str]:
        """See `application.identity.authorize`."""
        with self._read() as uow:
            return authorize.streams_for(principal, action, uow)

    def recorded(
        self, action: Action, subject: str, request_id: str, principal: Principal | None
    ) -> AbstractContextManager[record_action.Recorded]:
        """See `application.identity.record_action`."""
        return record_action.recorded(
            action, subject, request_id, principal, begin=self._begin, clock=self._clock
        )

    def record(
        self, action: Action, subject: str, request_id: str, principal: Principal | None, outcome: str
    ) -> None:
        """See `application.identity.record_action`."""
        record_action.record(
            action, subject, request_id, principal, outcome, begin=self._begin, clock=self._clock
        )

    def audit_log(self, after: int = 0, limit: int = 100, *, team: str | None = None) -> Sequence[AuditEntry]:
        """See `application.identity.read_audit_log`."""
        return read_audit_log.read_audit_log(after, limit, team=team, begin=self._read)

    def answer_once(
        self,
        team: str,
        key: str,
        requested: object,
        act: Callable[[], tuple[int, str]],
        *,
        repeatable: bool = True,
    ) -> tuple[Answer, bool]:
        """See `application.identity.answer_once`."""
        return answer_once.answer_once(
            team, key, requested, act, repeatable=repeatable, begin=self._begin, clock=self._clock
        )
