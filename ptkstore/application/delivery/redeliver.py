"""Send dead letters again; disable a subscription, and enable it again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ptkstore.application.delivery.deliveries import stop_delivering
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, cursor, job_id
from ptkstore.domain.subscriptions import ON_REQUEST, Subscription
from ptkstore.errors import Refused, UnknownName
from ptkstore.ports.catalog import Begin, UnitOfWork
from ptkstore.ports.runtime import Clock


def redeliver(
    subscription_id: str,
    number: int | None = None,
    since: datetime | None = None,
    *,
    begin: Begin,
    clock: Clock,
) -> int:
    """Have dead letters sent again, marked and under the ids they had; returns how many are waiting for it.

    The dead letter of one version, or all since a time, or all. Repeating the request changes nothing. One that fails
    for as long as a first delivery may is a dead letter again.

    Parameters
    ----------
    number : int, optional
        A version; `since` chooses by when they became dead letters.

    Raises
    ------
    UnknownName
        No such subscription; or that version is no dead letter of it.
    Refused
        The subscription is disabled.
    """
    with begin() as uow:
        subscription = uow.subscriptions.get(subscription_id)
        if subscription.disabled_at is not None:
            raise Refused(f"subscription {subscription_id} is disabled; enable it first")
        waiting = _ask(uow, subscription, clock.now(), number, since)
        if number is not None and not waiting:
            hint = "see: ptk deliveries; a version that is still tried, or waits, is no dead letter"
            raise UnknownName("dead letter", f"{subscription_id} v{number}", hint)
        uow.commit()
    return waiting


def disable_subscription(subscription_id: str, *, begin: Begin, clock: Clock) -> None:
    """Send nothing to a subscription until it is enabled again; versions wait. Repeating it changes nothing."""
    with begin() as uow:
        stop_delivering(subscription_id, Outcome.DISABLED, uow)
        subscription = uow.subscriptions.get(subscription_id)
        if subscription.disabled_at is None:
            stopped = replace(subscription, disabled_at=clock.now(), disabled_code=ON_REQUEST)
            uow.subscriptions.save([stopped])
        uow.commit()


def enable_subscription(
    subscription_id: str, *, redelivering: bool = True, begin: Begin, clock: Clock
) -> Subscription:
    """Send to a disabled subscription again, from the version on where it stopped; its dead letters too, if wished.

    Repeating the request changes nothing.
    """
    with begin() as uow:
        now = clock.now()
        subscription = uow.subscriptions.get(subscription_id)
        job, again = _lock(uow, subscription, now)
        subscription = uow.subscriptions.get(subscription_id)  # as it is now that nobody else changes it
        if subscription.disabled_at is not None:
            subscription = subscription.enabled()
            uow.subscriptions.save([subscription])
            flipped = uow.jobs.get(job_id(JobKind.FLIP, subscription.ptk_id)).position
            state = JobState.READY if flipped > job.position else JobState.IDLE
            uow.jobs.save(replace(job, state=state, outcome=None, due_at=now, attempt=0))
            waits = any(one.asked_at is not None for one in uow.subscriptions.dead_letters(subscription_id))
            state = JobState.READY if waits else JobState.IDLE
            uow.jobs.save(replace(again, state=state, outcome=None, due_at=now, attempt=0))
        if redelivering:
            _ask(uow, subscription, now)
        uow.commit()
    return subscription


def _ask(
    uow: UnitOfWork,
    subscription: Subscription,
    now: datetime,
    number: int | None = None,
    since: datetime | None = None,
) -> int:
    _lock(uow, subscription, now)
    waiting = uow.subscriptions.ask_for(subscription.id, now, number=number, since=since)
    if waiting:
        uow.jobs.wake(job_id(JobKind.REDELIVER, subscription.id), now)
    return waiting


def _lock(uow: UnitOfWork, subscription: Subscription, now: datetime) -> tuple[Job, Job]:
    """The jobs that tell it of new versions and of old ones, locked in the order in which deliveries lock theirs."""
    notify = uow.jobs.lock(job_id(JobKind.NOTIFY, subscription.id))
    stream = uow.ptks.stream_of(subscription.ptk_id)
    made = cursor(JobKind.REDELIVER, stream, subscription.ptk_id, now, subscription_id=subscription.id)
    uow.jobs.add(made)
    return notify, uow.jobs.lock(made.id)
