"""How far subscribers have heard, how their endpoints answer, and what they missed."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.domain.subscriptions import DeadLetter, Subscription
from ptkstore.ports.catalog import Begin


@dataclass(frozen=True, slots=True)
class Followed:
    """A subscription, the last version it was told of or that became a dead letter, and how many are dead letters.

    The dead letters themselves are there only where one subscription is asked for.
    """

    subscription: Subscription
    heard_of_version: int
    missed: int
    dead_letters: tuple[DeadLetter, ...] = ()


def subscriptions_of(
    ptk_id: str | None = None, team: str | None = None, *, begin: Begin
) -> tuple[Followed, ...]:
    """All subscriptions, or those of a PTK, or of a team, by id."""
    with begin() as uow:
        found = [one for one in uow.subscriptions.of(ptk_id) if team is None or one.team == team]
        names = [one.id for one in found]
        letters, positions = uow.subscriptions.letters_of(names), uow.deliveries.positions(names)
        return tuple(Followed(one, positions[one.id], len(letters.get(one.id, ()))) for one in found)


def deliveries_of(subscription_id: str, *, begin: Begin) -> Followed:
    """One subscription; `UnknownName` if there is none."""
    with begin() as uow:
        subscription = uow.subscriptions.get(subscription_id)
        position = uow.deliveries.positions([subscription_id])[subscription_id]
        letters = uow.subscriptions.dead_letters(subscription_id)
        return Followed(subscription, position, len(letters), letters)
