"""Subscribe an endpoint to a PTK's new states."""

from __future__ import annotations

import base64
import secrets
from dataclasses import replace
from datetime import timedelta

from ptkstore.application.delivery.deliveries import stop_delivering
from ptkstore.domain.jobs import JobKind, JobState, Outcome, cursor, job_id
from ptkstore.domain.subscriptions import (
    LONGEST_OVERLAP,
    USUAL_OVERLAP,
    Subscription,
    message_id,
    stream_name,
)
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Begin, Read
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.messages import EventStreams, Messenger
from ptkstore.ports.runtime import Clock


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

    An endpoint `redis-stream:<name>` is a stream in the service's Redis; nothing there is signed, and its secret is
    empty.

    Raises
    ------
    InvalidRequest
        The endpoint is no allowed URL.
    TooManyRequests
        Many host names of the team are being looked up.
    Unavailable
        Many host names of all teams are being looked up.
    """
    signed = stream_name(endpoint) is None
    if signed:
        messenger.check_endpoint(endpoint, team)
    subscription = Subscription(f"sub_{secrets.token_hex(8)}", ptk_id, endpoint, team)
    with begin() as uow:
        stream = uow.ptks.get(ptk_id).stream
    secret = ""
    if signed:
        secret = new_secret()
        keys.put_secret(subscription.id, secret)
    with begin() as uow:
        flipped = uow.jobs.lock(job_id(JobKind.FLIP, ptk_id)).position
        uow.subscriptions.add(subscription)
        start = cursor(JobKind.NOTIFY, stream, ptk_id, clock.now(), subscription_id=subscription.id)
        uow.jobs.add(replace(start, position=flipped))
        uow.commit()
    return subscription, secret


def unsubscribe(subscription_id: str, *, begin: Begin, keys: KeyStore) -> None:
    """End a subscription; a message on its way may still arrive."""
    with begin() as uow:
        uow.subscriptions.get(subscription_id)
        stop_delivering(subscription_id, Outcome.WITHDRAWN, uow)
        uow.subscriptions.remove(subscription_id)
        uow.commit()
    keys.destroy_secret(subscription_id)


def rotate_secret(
    subscription_id: str,
    overlap: timedelta = USUAL_OVERLAP,
    *,
    begin: Read,
    clock: Clock,
    keys: KeyStore,
) -> str:
    """Make a new signing secret, returned this once; the old one signs too, for `overlap` more.

    Parameters
    ----------
    overlap : timedelta
        At most `LONGEST_OVERLAP`.

    Raises
    ------
    InvalidRequest
        It signs nothing, or the overlap is too long.
    Conflict
        Too many secrets sign already; an overlap of zero ends them all.
    """
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise InvalidRequest(f"two secrets overlap for {LONGEST_OVERLAP.days} days at most")
    with begin() as uow:
        subscription = uow.subscriptions.get(subscription_id)
    if subscription.stream_key is not None:
        raise InvalidRequest("messages to a Redis stream are not signed")
    secret, now = new_secret(), clock.now()
    keys.rotate_secret(subscription_id, secret, now, now + overlap)
    return secret


def new_secret() -> str:
    """Return a signing secret as Standard Webhooks write it."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def notify_new_ptk_state(ptk_id: str, *, begin: Begin, clock: Clock, streams: EventStreams) -> int:
    """Send the newest version once more to every subscriber that has heard of all; returns how many will be told.

    Raises
    ------
    Unavailable
        A subscriber reads a stream that cannot be written to now; nobody will be told.
    """
    notified, forgotten = 0, _forgotten(ptk_id, begin, streams)
    with begin() as uow:
        uow.ptks.get(ptk_id)
        newest = uow.jobs.lock(job_id(JobKind.FLIP, ptk_id)).position
        for subscription in uow.subscriptions.of(ptk_id):
            job = uow.jobs.lock(job_id(JobKind.NOTIFY, subscription.id))
            if newest and job.state is JobState.IDLE and job.position == newest:
                if subscription.stream_key is not None and (subscription.id, newest) not in forgotten:
                    continue  # published or subscribed just now: it has its turn anyway
                uow.jobs.save(replace(job, position=newest - 1))
                uow.jobs.wake(job.id, clock.now())
                notified += 1
        uow.commit()
    return notified


def _forgotten(ptk_id: str, begin: Begin, streams: EventStreams) -> frozenset[tuple[str, int]]:
    """Streams made to forget the version that they hold as newest, before any lock is taken: Redis may be slow.

    One that forgot and is not told again is as it was: nothing is appended by itself.
    """
    with begin() as uow:
        readers = [one for one in uow.subscriptions.of(ptk_id) if one.stream_key is not None]
        newest = uow.jobs.get(job_id(JobKind.FLIP, ptk_id)).position if readers else 0
        jobs = [uow.jobs.get(job_id(JobKind.NOTIFY, one.id)) for one in readers if newest]
    heard = [
        (one.id, one.stream_key)
        for one, job in zip(readers, jobs, strict=False)
        if job.state is JobState.IDLE and job.position == newest and one.stream_key is not None
    ]
    for subscription_id, key in heard:
        streams.forget(key, message_id(subscription_id, newest), newest)
    return frozenset((subscription_id, newest) for subscription_id, _ in heard)
