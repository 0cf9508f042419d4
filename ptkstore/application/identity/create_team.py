"""Make a team known, so that tokens and grants can be for it."""

from __future__ import annotations

from ptkstore.domain.names import checked_name
from ptkstore.ports.catalog import Begin
from ptkstore.ports.runtime import Clock


def create_team(team: str, *, begin: Begin, clock: Clock) -> None:
    """Create a team; one that exists does not change."""
    checked_name("team", team)
    with begin() as uow:
        uow.identities.add_team(team, clock.now())
        uow.commit()
