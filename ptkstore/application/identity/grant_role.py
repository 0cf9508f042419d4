"""Give a team a role on a stream, or take it away."""

from __future__ import annotations

from ptkstore.domain.identity import EVERY, Grant
from ptkstore.ports.catalog import Begin


def grant_role(grant: Grant, *, begin: Begin) -> None:
    """Give a role; repeating it changes nothing."""
    with begin() as uow:
        if grant.stream != EVERY:
            uow.streams.get(grant.stream)
        uow.identities.add_grant(grant)
        uow.commit()


def withdraw_role(grant: Grant, *, begin: Begin) -> None:
    """Take a role away, from the next request on.

    Raises
    ------
    UnknownName
        It was not given.
    """
    with begin() as uow:
        uow.identities.remove_grant(grant)
        uow.commit()
