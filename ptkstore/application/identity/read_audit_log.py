"""Read the audit trail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptkstore.application.identity.known_teams import check_team
from ptkstore.domain.audit import AuditEntry
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Read

MOST_LINES = 1_000


def read_audit_log(
    after: int = 0, limit: int = 100, *, team: str | None = None, knows_teams: bool = True, begin: Read
) -> Sequence[AuditEntry]:
    """Read the next lines after the one of number `after`, oldest first; one line per action.

    Raises
    ------
    UnknownName
        There is no such team, and the reader `knows_teams`: to others it is a team without lines.
    """
    if not 1 <= limit <= MOST_LINES or after < 0:
        raise InvalidRequest(f"between 1 and {MOST_LINES} lines are read at once, from a number on")
    with begin() as uow:
        lines = uow.audit.after(after, limit, team=team)
        if team is not None and knows_teams and not lines and not after:
            check_team(team, uow)
        return lines


def read_acts_on(
    subject: str, actions: Iterable[str], limit: int = 100, *, begin: Read
) -> Sequence[AuditEntry]:
    """Read the newest lines of some actions on a subject such as `stream/taxi`, the newest first."""
    if not 1 <= limit <= MOST_LINES:
        raise InvalidRequest(f"between 1 and {MOST_LINES} lines are read at once")
    with begin() as uow:
        return uow.audit.about(subject, actions, limit)
