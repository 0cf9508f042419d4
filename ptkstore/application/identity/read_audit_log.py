"""Read the audit trail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ptkstore.application.identity.known_teams import check_team
from ptkstore.domain.audit import AuditEntry, TrailFilter
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Read

MOST_LINES = 1_000
LOOKED_THROUGH = 200_000
"""Lines that one question for the newest reads at most."""


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


@dataclass(frozen=True, slots=True)
class NewestLines:
    """Lines of the trail, the newest first. Those below the number `older` are not read yet; None if there are none."""

    lines: Sequence[AuditEntry]
    older: int | None


def read_newest_lines(
    asked: TrailFilter, below: int | None = None, limit: int = 100, *, begin: Read
) -> NewestLines:
    """Read the newest lines that are asked for, among at most `LOOKED_THROUGH` lines below a number.

    No index has all that may be asked for, so a question whose answer is far back would read the whole trail.

    Parameters
    ----------
    below : int, optional
        Where the page before ended, its `older`; the end of the trail by default.
    """
    if not 1 <= limit <= MOST_LINES:
        raise InvalidRequest(f"between 1 and {MOST_LINES} lines are read at once")
    with begin() as uow:
        end = uow.audit.last_number() + 1
        stop = end if below is None else max(1, min(below, end))
        numbers = range(max(1, stop - LOOKED_THROUGH), stop)
        lines = uow.audit.newest(numbers, limit, asked)
    older = lines[-1].number if len(lines) == limit else numbers.start
    return NewestLines(lines, older if older > 1 else None)


def read_acts_on(
    subject: str, actions: Iterable[str], limit: int = 100, *, begin: Read
) -> Sequence[AuditEntry]:
    """Read the newest lines of some actions on a subject such as `stream/taxi`, the newest first."""
    if not 1 <= limit <= MOST_LINES:
        raise InvalidRequest(f"between 1 and {MOST_LINES} lines are read at once")
    with begin() as uow:
        return uow.audit.about(subject, actions, limit)
