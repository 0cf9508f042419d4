"""Subscribe an endpoint to a PTK's new states."""

from __future__ import annotations

import base64
import secrets
from dataclasses import replace

from ptkstore.domain.jobs import JobKind, JobState, Outcome, cursor, job_id
from ptkstore.domain.subscriptions import Subscription
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.messages import Messenger
from ptkstore.ports.world import Clock


def subscribe_to_ptk(
    ptk_id: str,
    endpoint: str,
    *,
    team: str = "",
    begin: Begin,
    clock: Clock,
    keys: KeyStore,
    messenger: Messenger,
) -> tuple[Subscription, str]:
    """Tell `endpoint` of every version flipped from now on; returns the signing secret this once.

    Raises
    ------
    InvalidRequest
        The endpoint is no allowed URL.
    UnknownName
        No such PTK.
    """
    messenger.check_endpoint(endpoint)
    subscription = Subscription(f"sub_{secrets.token_hex(8)}", ptk_id, endpoint, team)
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    with begin() as uow:
        stream = uow.ptks.get(ptk_id).stream
    keys.put_secret(subscription.id, secret)
    with begin() as uow:
        flipped = uow.jobs.lock(job_id(JobKind.FLIP, ptk_id)).position
        uow.subscriptions.add(subscription)
        start = cursor(JobKind.NOTIFY, stream, ptk_id, clock.now(), subscription_id=subscription.id)
        uow.jobs.add(replace(start, position=flipped))
        uow.commit()
    return subscription, secret


def unsubscribe(subscription_id: str, *, begin: Begin) -> None:
    """End a subscription; a message on its way may still arrive."""
    with begin() as uow:
        uow.subscriptions.get(subscription_id)
        job = uow.jobs.lock(job_id(JobKind.NOTIFY, subscription_id))
        uow.jobs.save(replace(job, state=JobState.ENDED, outcome=Outcome.WITHDRAWN))
        uow.subscriptions.remove(subscription_id)
        uow.commit()


def notify_new_ptk_state(ptk_id: str, *, begin: Begin, clock: Clock) -> int:
    """Send the newest version once more to every subscriber that has heard of all; returns how many will be told."""
    told = 0
    with begin() as uow:
        uow.ptks.get(ptk_id)
        newest = uow.jobs.lock(job_id(JobKind.FLIP, ptk_id)).position
        for subscription in uow.subscriptions.of(ptk_id):
            job = uow.jobs.lock(job_id(JobKind.NOTIFY, subscription.id))
            if newest and job.state is JobState.IDLE and job.position == newest:
                uow.jobs.save(replace(job, position=newest - 1))
                uow.jobs.wake(job.id, clock.now())
                told += 1
        uow.commit()
    return told
