"""Read the notices to owners."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ptkstore.application.identity.known_teams import check_team
from ptkstore.domain.identity import Principal
from ptkstore.domain.notices import Notice
from ptkstore.errors import InvalidRequest, NotAllowed
from ptkstore.ports.catalog import Read


def notices_of(
    team: str | None = None,
    *,
    since: datetime | None = None,
    skip: int = 0,
    limit: int | None = None,
    newest: bool = False,
    begin: Read,
) -> Sequence[Notice]:
    """List notices to a team or to all: `limit` of them after the first `skip`, oldest first or newest first.

    A place in this list counts the notices that its reader may see. The catalog's own numbers would tell how many
    others were left meanwhile.

    Parameters
    ----------
    since : datetime, optional
        Older ones are left out, and not skipped either.

    Raises
    ------
    UnknownName
        There is no such team.
    """
    if skip < 0:
        raise InvalidRequest("a list begins at its first notice")
    with begin() as uow:
        notices = uow.notices(team, since=since, skip=skip, limit=limit, newest=newest)
        if team is not None and not notices and not skip:
            check_team(team, uow)
        return notices


def readable_team(principal: Principal, requested_team: str | None) -> str | None:
    """Return whose notices a principal reads: its own team's, an administrator's choice; None means all.

    Raises
    ------
    NotAllowed
        Another team was asked for, whether there is one of that name or not.
    """
    if principal.administers:
        return requested_team
    if requested_team not in (None, principal.team):
        raise NotAllowed("the notices to another team are for administrators")
    return principal.team
