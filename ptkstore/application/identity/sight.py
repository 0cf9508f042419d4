"""The part of the whole store that a reader may see, for reads that are about everything."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.domain.identity import Action, Principal, Target, allows, sees
from ptkstore.ports.catalog import CatalogView

_STREAM_PARTS = {
    "budgets": Action.BUDGET_READ,
    "exposures": Action.EXPOSURE_READ,
    "states": Action.STATE_READ,
}


@dataclass(frozen=True, slots=True)
class Sight:
    """The streams of which a reader may see something, and the team whose messages it reads.

    Attributes
    ----------
    streams, budgets, exposures, states : frozenset of str or None
        The streams that it may see, and those whose budgets, exposure or versions it may read. None means all.
    team : str or None
        The team whose trainings, notices and subscriptions it reads; None means all teams.
    context : str or None
        The team in whose context it sees which PTKs wait; None means all contexts.
    reads_notices, reads_subscriptions : bool
        Whether it may read these at all.
    """

    streams: frozenset[str] | None = None
    budgets: frozenset[str] | None = None
    exposures: frozenset[str] | None = None
    states: frozenset[str] | None = None
    team: str | None = None
    context: str | None = None
    reads_notices: bool = True
    reads_subscriptions: bool = True


EVERYTHING = Sight()
"""What is seen in the home of a store."""


def sight_of(principal: Principal, uow: CatalogView) -> Sight:
    """Return what the holder of a token may see, by the same rules as each single request."""
    grants = uow.identities.grants(team=principal.team)
    targets = [Target(stream.name, stream.team) for stream in uow.streams.all()]
    readable = {
        part: frozenset(str(one.stream) for one in targets if allows(action, principal, one, grants))
        for part, action in _STREAM_PARTS.items()
    }
    return Sight(
        streams=frozenset(str(one.stream) for one in targets if sees(principal, one, grants)),
        **readable,
        team=None if principal.administers else principal.team,
        context=principal.team,
        reads_notices=allows(Action.NOTICE_LIST, principal, Target(), grants),
        reads_subscriptions=allows(Action.SUBSCRIPTION_LIST, principal, Target(), grants),
    )
