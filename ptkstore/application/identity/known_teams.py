"""The teams that a store knows: those that were created, and the owners of what there is."""

from __future__ import annotations

from ptkstore.domain.audit import LOCAL
from ptkstore.domain.names import team_of
from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import CatalogView


def known_teams(uow: CatalogView) -> tuple[str, ...]:
    """Return the teams by name. In a home a team may own streams and PTKs without having been created."""
    owners = {stream.team for stream in uow.streams.all()} | {team_of(one.ptk_id) for one in uow.ptks.find()}
    return tuple(sorted({*uow.identities.teams(), *owners}))


def check_team(team: str, uow: CatalogView) -> None:
    """Raise `UnknownName` unless the store knows the team; for callers who may know which teams there are.

    `LOCAL` is known: acts in a home are recorded under it.
    """
    if team == LOCAL or team in uow.identities.teams() or uow.ptks.find(team=team):
        return
    if all(stream.team != team for stream in uow.streams.all()):
        raise UnknownName("team", team)
