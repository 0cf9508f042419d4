"""Tell one subscriber of the next version."""

from __future__ import annotations

from dataclasses import replace

from ptkstore.domain.identity import STREAM_ROLES, Action, Principal, Target, allows
from ptkstore.domain.jobs import Job, JobKind, JobState, backoff, job_id
from ptkstore.domain.names import team_of
from ptkstore.domain.snapshots import canonical_json
from ptkstore.domain.subscriptions import (
    FIRST_RETRY,
    GIVE_UP_AFTER_ATTEMPTS,
    LONGEST_RETRY,
    Subscription,
    event_of,
    message_id,
)
from ptkstore.ports.catalog import Begin, Notice, UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.messages import Delivered, Messenger, NotDelivered
from ptkstore.ports.objects import Lake
from ptkstore.ports.world import Clock, Steps

NO_ROLE = "not-allowed"


def deliver_event(
    job: Job, *, begin: Begin, clock: Clock, keys: KeyStore, lake: Lake, messenger: Messenger, steps: Steps
) -> None:
    """Make one attempt; the cursor moves only once the endpoint took the message, so order and at-least-once hold.

    After the last attempt the version becomes a dead letter, its owner is told, and later ones pass. While the
    subscriber's team has no role that may subscribe, versions become dead letters at once, and nothing is sent.
    """
    ptk_id, subscription_id = str(job.ptk_id), str(job.subscription_id)
    with begin() as uow:
        subscription = uow.subscriptions.get(subscription_id)
        version = uow.versions.get(ptk_id, job.position + 1)
        may_hear = _may_hear(uow, subscription)
    body = canonical_json(
        event_of(version, lake.manifest_url(ptk_id, version.number), version.elected_at)
    ).encode()
    secret = keys.secret(subscription_id)
    result: Delivered | NotDelivered = NotDelivered(NO_ROLE)
    if may_hear:
        result = messenger.send(subscription.endpoint, message_id(subscription, version.number), body, secret)
        steps.reached("sent", job.id)
    with begin() as uow:
        held = uow.jobs.held(job)
        now = clock.now()
        if may_hear and not isinstance(result, Delivered) and held.attempt < GIVE_UP_AFTER_ATTEMPTS:
            wait = backoff(held.attempt, first=FIRST_RETRY, most=LONGEST_RETRY)
            uow.jobs.save(replace(held, state=JobState.READY, due_at=now + wait))
            uow.commit()
            return
        if not isinstance(result, Delivered):
            uow.subscriptions.add_dead_letter(subscription_id, version.number, result.code, now)
            team = team_of(ptk_id)
            uow.notify_owner(
                Notice(now, team, f"{ptk_id} v{version.number} to {subscription_id}", "dead-letter")
            )
        flipped = uow.jobs.get(job_id(JobKind.FLIP, ptk_id)).position
        state = JobState.READY if flipped > version.number else JobState.IDLE
        uow.jobs.save(replace(held, position=version.number, state=state, attempt=0))
        uow.commit()
    steps.reached("notified", job.id)


def _may_hear(uow: UnitOfWork, subscription: Subscription) -> bool:
    """Whether the team could still subscribe; whoever subscribed in the store's home has no team."""
    if not subscription.team:
        return True
    stream = uow.streams.get(uow.ptks.stream_of(subscription.ptk_id))
    team = Principal(subscription.team, "", STREAM_ROLES)
    grants = uow.identities.grants(team=subscription.team)
    target = Target(stream.name, stream.team, subscription.team)
    return allows(Action.SUBSCRIPTION_CREATE, team, target, grants)
