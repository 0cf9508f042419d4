"""How far subscribers have heard, how their endpoints answer, what they missed, and each attempt of late."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.domain.subscriptions import ATTEMPTS_EXPIRE_AFTER, Attempt, DeadLetter, Subscription
from ptkstore.ports.catalog import Read
from ptkstore.ports.runtime import Clock


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """A subscription, the last version it was told of or that became a dead letter, and how many are dead letters.

    The dead letters themselves, all or those of a page, are there only where one subscription is asked for.
    """

    subscription: Subscription
    heard_of_version: int
    missed: int
    dead_letters: tuple[DeadLetter, ...] = ()


def subscriptions_of(
    ptk_id: str | None = None,
    team: str | None = None,
    *,
    after: str = "",
    limit: int | None = None,
    begin: Read,
) -> tuple[DeliveryState, ...]:
    """List all subscriptions, or those of a PTK, or of a team, by id: all after an id, or so many.

    Parameters
    ----------
    after : str
        An id; None as `limit` means all that follow.
    """
    with begin() as uow:
        subscriptions = uow.subscriptions.of(ptk_id, team=team, after=after, limit=limit)
        names = [one.id for one in subscriptions]
        missed, positions = uow.subscriptions.missed(names), uow.deliveries.positions(names)
        return tuple(DeliveryState(one, positions[one.id], missed.get(one.id, 0)) for one in subscriptions)


def deliveries_of(
    subscription_id: str, *, after: int = 0, limit: int | None = None, begin: Read
) -> DeliveryState:
    """Read one subscription, with its dead letters after a version: all, or so many."""
    with begin() as uow:
        subscription = uow.subscriptions.get(subscription_id)
        position = uow.deliveries.positions([subscription_id])[subscription_id]
        missed = uow.subscriptions.missed([subscription_id]).get(subscription_id, 0)
        letters = uow.subscriptions.dead_letters(subscription_id, after=after, limit=limit)
        return DeliveryState(subscription, position, missed, letters)


def attempts_of(
    subscription_id: str, *, before: int | None = None, limit: int | None = None, begin: Read, clock: Clock
) -> tuple[Attempt, ...]:
    """Read the attempts of a subscription that are kept, the newest first: all before a sequence number, or so many."""
    with begin() as uow:
        uow.subscriptions.get(subscription_id)
        since = clock.now() - ATTEMPTS_EXPIRE_AFTER
        return uow.subscriptions.attempts(subscription_id, since, before=before, limit=limit)
