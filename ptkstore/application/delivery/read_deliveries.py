"""How far subscribers have heard, how their endpoints answer, what they missed, and each attempt of late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ptkstore.domain.jobs import DELIVERIES, JobKind, JobState, job_id
from ptkstore.domain.subscriptions import ATTEMPTS_EXPIRE_AFTER, Attempt, DeadLetter, Subscription
from ptkstore.ports.catalog import CatalogView, Read
from ptkstore.ports.runtime import Clock


@dataclass(frozen=True, slots=True)
class NextAttempt:
    """The next attempt at a version, or the one under way; it is made at `at`, or soon where that is past.

    `attempt` counts the attempts at this version since it was due; `redelivered`: it is a dead letter.
    """

    version: int
    attempt: int
    at: datetime
    redelivered: bool


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """A subscription, the last version it was told of or that became a dead letter, and how many are dead letters.

    The rest is there only where one subscription is asked for: the dead letters themselves, all or those of a page,
    how many versions are online that it has not heard of, and the next attempts: at the first of these versions and
    at a dead letter.
    """

    subscription: Subscription
    heard_of_version: int
    missed: int
    dead_letters: tuple[DeadLetter, ...] = ()
    waiting_versions: int = 0
    next_attempts: tuple[NextAttempt, ...] = ()


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
        waiting, attempts = _waiting(uow, subscription, position)
        return DeliveryState(subscription, position, missed, letters, waiting, attempts)


def attempts_of(
    subscription_id: str, *, before: int | None = None, limit: int | None = None, begin: Read, clock: Clock
) -> tuple[Attempt, ...]:
    """Read the attempts of a subscription that are kept, the newest first: all before a sequence number, or so many."""
    with begin() as uow:
        uow.subscriptions.get(subscription_id)
        since = clock.now() - ATTEMPTS_EXPIRE_AFTER
        return uow.subscriptions.attempts(subscription_id, since, before=before, limit=limit)


def _waiting(
    uow: CatalogView, subscription: Subscription, position: int
) -> tuple[int, tuple[NextAttempt, ...]]:
    """Count the versions that wait, and return the attempts that its jobs make next."""
    name = subscription.id
    flip = job_id(JobKind.FLIP, subscription.ptk_id)
    jobs = uow.jobs.many([flip, *(job_id(kind, name) for kind in DELIVERIES)])
    waiting = max(0, jobs[flip].position - position) if flip in jobs else 0
    attempts = []
    for job in (one for one in jobs.values() if one.kind in DELIVERIES and one.state is JobState.READY):
        redelivers = job.kind is JobKind.REDELIVER
        if redelivers:
            asked = [one.number for one in uow.subscriptions.dead_letters(name) if one.asked_at is not None]
        else:
            asked = [position + 1] if waiting else []
        if asked:
            number = job.attempt + (job.lease_until is None)  # a claim has counted the attempt that it makes
            attempts.append(NextAttempt(asked[0], number, job.due_at, redelivers))
    return waiting, tuple(sorted(attempts, key=lambda one: one.redelivered))
