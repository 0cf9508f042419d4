"""Deliveries to subscribers: what to send, and what follows from how it ended."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, partial

from ptklib.canonical_json import canonical_json
from ptkstore.domain.audit import LOCAL, SERVICE, AuditEntry
from ptkstore.domain.identity import STREAM_ROLES, Action, Principal, Target, allows
from ptkstore.domain.jobs import DELIVERIES, Job, JobKind, JobState, job_id
from ptkstore.domain.jobs import Outcome as Ended
from ptkstore.domain.names import team_of
from ptkstore.domain.notices import Notice
from ptkstore.domain.subscriptions import (
    GIVE_UP_AFTER_ATTEMPTS,
    NO_ROLE,
    Attempt,
    DeadLetter,
    Subscription,
    event_of,
    message_id,
    retry_wait,
    rounded_duration,
)
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import InvalidRequest, InvariantBroken, Unavailable, UnknownName
from ptkstore.ports.catalog import Begin, CatalogView, UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.messages import (
    BUSY,
    FAILED,
    Delivered,
    EventStreams,
    ManifestAddresses,
    Message,
    NotDelivered,
    NotTried,
    Outcome,
    Tried,
)
from ptkstore.ports.runtime import Clock

NO_SECRET = "no-secret"
_BROKEN = (InvalidRequest, InvariantBroken, LookupError, TypeError, ValueError)
_TRY_AGAIN = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A claimed delivery: its message, or `outcome` where nothing is to be sent. `number` 0: nothing is due."""

    job: Job
    subscription: Subscription
    number: int
    body: bytes = b""
    missed: tuple[int, ...] = ()
    was_dead: bool = False
    outcome: Outcome | None = None

    @property
    def redelivers(self) -> bool:
        """Whether this sends a dead letter again."""
        return self.job.kind is JobKind.REDELIVER

    @property
    def id(self) -> str:
        """The `webhook-id`."""
        return message_id(self.subscription.id, self.number)

    @property
    def key(self) -> str:
        """Names this claim: what is under way from before a lost lease has another."""
        return f"{self.job.id}#{self.job.fence}"


def outgoing(jobs: Sequence[Job], uow: CatalogView, manifests: ManifestAddresses) -> list[Outgoing]:
    """Return the messages of these claimed jobs; a job whose subscription has ended sends nothing, and is omitted."""
    names = [str(job.subscription_id) for job in jobs]
    subscriptions, letters = uow.subscriptions.many(names), uow.subscriptions.dead_letters_of(names)
    hears = cache(partial(may_hear, uow))
    body = cache(partial(_body, cache(uow.versions.get), manifests))
    sendable = []
    for job, name in zip(jobs, names, strict=True):
        subscription = subscriptions.get(name)
        if subscription is None:
            continue
        try:
            sendable.append(_outgoing(job, subscription, letters.get(name, ()), hears, body))
        except _BROKEN:  # this one fails like any attempt, and holds up no other
            sendable.append(Outgoing(job, subscription, job.position + 1, outcome=NotDelivered(FAILED)))
    return sendable


def write(one: Outgoing, keys: KeyStore, streams: EventStreams, clock: Clock) -> Message | Tried:
    """Return the message to sign and send over HTTP, or append an event for a stream here and now.

    Raises nothing. A key store that does not answer now says nothing about the endpoint, and a secret that cannot be
    read fails like an attempt. Neither delays any other message.
    """
    stream = one.subscription.stream_key
    if stream is not None:
        message = Message(one.key, one.subscription.endpoint, one.id, one.body, ())
        return streams.append(stream, message, one.number, redelivered=one.redelivers)
    try:
        signing = keys.secrets_of(one.subscription.id, clock.now())
    except UnknownName:
        return NotDelivered(NO_SECRET)
    except (OSError, Unavailable):
        return NotTried()
    except _BROKEN:
        return NotDelivered(FAILED)
    return Message(one.key, one.subscription.endpoint, one.id, one.body, signing, one.subscription.team)


def settle(ended: Sequence[tuple[Outgoing, Tried]], *, begin: Begin, clock: Clock) -> None:
    """Write the outcome of attempts, all in one transaction; those that another process has by now are skipped.

    Changing dead letters of a subscription, or stopping it, locks all jobs that deliver to it, in one order. So no two
    callers can wait for each other.
    """
    with begin() as uow:
        now = clock.now()
        beside = {one.subscription.id for one, tried in ended if _concerns_letters(one, tried)}
        held = {job.id: job for job in uow.deliveries.held((one.job for one, _ in ended), beside)}
        names = {one.subscription.id for one, _ in ended if one.job.id in held}
        present = dict(uow.subscriptions.many(names))
        standing = dict(present)
        flipped: dict[str, int] = {}
        after: list[Job] = []
        attempts: list[Attempt] = []
        for one, tried in ended:
            job = held.get(one.job.id)
            if job is None or job.fence != one.job.fence or one.subscription.id not in present:
                continue
            if one.number and not isinstance(tried, NotTried):
                stands = _stands(standing[one.subscription.id], tried, now)
                stands = standing[stands.id] = replace(stands, attempts=stands.attempts + 1)
                attempts.append(_attempt(one, stands.attempts, job.attempt, tried, now))
            ptk_id = one.subscription.ptk_id
            if ptk_id not in flipped:
                flipped[ptk_id] = uow.jobs.get(job_id(JobKind.FLIP, ptk_id)).position
            job = _after(job, one, tried, flipped[ptk_id], uow, now)
            if standing[one.subscription.id].disabled_at is not None:
                job = replace(job, state=JobState.ENDED, outcome=Ended.DISABLED, attempt=0)
            after.append(job)
        uow.deliveries.save(after)
        uow.subscriptions.add_attempts(attempts)
        uow.subscriptions.save(s for name, s in standing.items() if s != present[name])
        for name, subscription in standing.items():
            if subscription.disabled_at is not None and present[name].disabled_at is None:
                _disable(subscription, uow, now)
        uow.commit()


def _outgoing(
    job: Job,
    subscription: Subscription,
    letters: Sequence[DeadLetter],
    hears: Callable[[str, str], bool],
    body: Callable[[str, int, tuple[DeadLetter, ...], bool], bytes],
) -> Outgoing:
    redelivers = job.kind is JobKind.REDELIVER
    requested = [letter.number for letter in letters if letter.asked_at is not None]
    if redelivers and not requested:
        return Outgoing(job, subscription, 0, outcome=Delivered())
    number = requested[0] if redelivers else job.position + 1
    if not hears(subscription.team, subscription.ptk_id):
        return Outgoing(job, subscription, number, outcome=NotDelivered(NO_ROLE))
    missed = () if redelivers else tuple(one for one in letters if not one.told and one.number < number)
    message = body(subscription.ptk_id, number, missed, redelivers)
    was_dead = any(letter.number == number for letter in letters)
    return Outgoing(job, subscription, number, message, tuple(one.number for one in missed), was_dead)


def _body(
    version_of: Callable[[str, int], Version],
    manifests: ManifestAddresses,
    ptk_id: str,
    number: int,
    missed: tuple[DeadLetter, ...],
    redelivered: bool,
) -> bytes:
    url = manifests.manifest_url(ptk_id, number)
    event = event_of(version_of(ptk_id, number), url, missed=missed, redelivered=redelivered)
    return canonical_json(event).encode()


def may_hear(uow: CatalogView, team: str, ptk_id: str) -> bool:
    """Tell whether the team could still subscribe; whoever subscribed in the store's home has no team."""
    if not team:
        return True
    stream = uow.streams.get(uow.ptks.stream_of(ptk_id))
    target = Target(stream.name, stream.team, team)
    grants = uow.identities.grants(team=team)
    return allows(Action.SUBSCRIPTION_CREATE, Principal(team, "", STREAM_ROLES), target, grants)


def _concerns_letters(one: Outgoing, tried: Tried) -> bool:
    """Whether an outcome may change dead letters, or stop the subscription."""
    return isinstance(tried, NotDelivered) or one.redelivers or one.was_dead or bool(one.missed)


def _stands(subscription: Subscription, tried: Outcome, now: datetime) -> Subscription:
    """The subscription after an attempt; a team without a role says nothing about its endpoint."""
    if subscription.disabled_at is not None or tried == NotDelivered(NO_ROLE):
        return subscription
    return subscription.after(None if isinstance(tried, Delivered) else tried.code, now)


def _attempt(one: Outgoing, sequence: int, attempt: int, tried: Outcome, now: datetime) -> Attempt:
    """The line of an attempt in the subscription's history."""
    code = None if isinstance(tried, Delivered) else tried.code
    milliseconds = rounded_duration(tried.seconds)
    name = one.subscription.id
    return Attempt(name, sequence, now, one.number, attempt, one.redelivers, code, tried.status, milliseconds)


def _after(job: Job, one: Outgoing, tried: Tried, flipped: int, uow: UnitOfWork, now: datetime) -> Job:
    """The job after an attempt: later again, or on to what is next."""
    if isinstance(tried, NotTried):
        due_at = now + _TRY_AGAIN if tried.code == BUSY else job.due_at
        return replace(job, state=JobState.READY, due_at=due_at, attempt=max(0, job.attempt - 1))
    if isinstance(tried, NotDelivered):
        if job.attempt < GIVE_UP_AFTER_ATTEMPTS and tried.code != NO_ROLE:
            wait = retry_wait(one.id, job.attempt, tried.retry_after)
            return replace(job, state=JobState.READY, due_at=now + wait)
        uow.subscriptions.add_dead_letter(DeadLetter(one.subscription.id, one.number, tried.code, now))
        _notify_owners(uow, one.subscription, "dead-letter", now, version=one.number)
    else:
        if one.was_dead:
            uow.subscriptions.remove_dead_letter(one.subscription.id, one.number)
        if one.missed:
            uow.subscriptions.mark_reported(one.subscription.id, one.missed)
    if one.redelivers:
        left = uow.subscriptions.dead_letters(one.subscription.id)
        more = any(letter.asked_at is not None for letter in left)
        return replace(job, state=JobState.READY if more else JobState.IDLE, attempt=0)
    state = JobState.READY if flipped > one.number else JobState.IDLE
    return replace(job, position=one.number, state=state, attempt=0)


def stop_delivering(subscription_id: str, outcome: Ended, uow: UnitOfWork) -> None:
    """End the jobs that deliver to a subscription; a message on its way may still arrive."""
    for kind in DELIVERIES:
        with suppress(UnknownName):  # nothing was ever redelivered
            job = uow.jobs.lock(job_id(kind, subscription_id))
            if job.state is not JobState.ENDED:
                uow.jobs.save(replace(job, state=JobState.ENDED, outcome=outcome, attempt=0))


def _disable(subscription: Subscription, uow: UnitOfWork, now: datetime) -> None:
    """End what else delivers to it, and tell whoever is concerned."""
    stop_delivering(subscription.id, Ended.DISABLED, uow)
    _notify_owners(uow, subscription, "subscription-disabled", now)
    uow.audit.append(
        AuditEntry(
            at=now,
            request_id=secrets.token_hex(8),
            team=subscription.team or LOCAL,
            token_id=SERVICE,
            action=Action.SUBSCRIPTION_DISABLE.value,
            subject=f"subscription/{subscription.id}",
            outcome=str(subscription.disabled_code),
        )
    )


def _notify_owners(
    uow: UnitOfWork, subscription: Subscription, code: str, now: datetime, *, version: int | None = None
) -> None:
    """Leave word for the PTK's team and the subscriber's."""
    about = Notice(
        now, "", code, ptk_id=subscription.ptk_id, version=version, subscription_id=subscription.id
    )
    for team in sorted({team_of(subscription.ptk_id), subscription.team} - {""}):
        uow.notify_owner(replace(about, team=team))
