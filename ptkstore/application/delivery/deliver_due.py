"""Deliver all that is due, many messages at once, and write many outcomes in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta

from ptkstore.application.delivery.deliveries import Outgoing, outgoing, settle, write
from ptkstore.domain.subscriptions import ATTEMPTS_EXPIRE_AFTER
from ptkstore.ports.catalog import Begin, Read
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.messages import (
    LEASE_UNSURE,
    STREAM_UNAVAILABLE,
    Courier,
    EventStreams,
    ManifestAddresses,
    Message,
    NotDelivered,
    NotTried,
    Tried,
)
from ptkstore.ports.runtime import Clock, Steps
from ptkstore.ports.tracing import Traces

CLAIMED_AT_ONCE = 250
WRITTEN_AT_ONCE = 200
COLLECT_SECONDS = 0.1  # while leaving: how long outcomes wait to be written down
EXPIRED_AT_ONCE = 5_000  # attempts in the histories of subscriptions
EXPIRE_EVERY_SECONDS = 600.0
RETRIED_PART = 4  # one in so many of those that are claimed at once has failed before, at most


@dataclass(frozen=True, slots=True)
class Sending:
    """The ports that sign, address and take messages."""

    keys: KeyStore
    manifests: ManifestAddresses
    courier: Courier
    streams: EventStreams


@dataclass(frozen=True, slots=True)
class Watching:
    """The observers of the work; `say` logs for the administrator what happened, to which job, and a fixed code."""

    steps: Steps
    traces: Traces
    say: Callable[[str, str, str], None]


class DueDeliveries:
    """The relay's part of notifying: claims due jobs, hands messages over, writes down how each ended.

    Any number may run beside each other. A job that is killed in between is claimed again when its lease ends: a
    message may then come twice, with the same id. No job begins once its lease may have ended: a process that cannot
    write to the catalog for so long no longer knows whose job it is. Jobs that never failed and jobs that did have
    places of their own, so that endpoints which are down delay nobody else.
    """

    def __init__(
        self,
        *,
        begin: Begin,
        read: Read,
        clock: Clock,
        sending: Sending,
        watching: Watching,
        lease: timedelta,
        working: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`working` admits to work on jobs of the present ledger; `read` begins transactions that only read."""
        self._begin, self._read, self._clock = begin, read, clock
        self._keys, self._manifests = sending.keys, sending.manifests
        self._courier, self._streams = sending.courier, sending.streams
        self._steps, self._traces, self._say = watching.steps, watching.traces, watching.say
        self._lease, self._working = lease, working
        self._under_way: dict[str, Outgoing] = {}
        self._ended: list[tuple[Outgoing, Tried]] = []
        self._extended_at = time.monotonic()
        self._cut_off = False
        self._expire_at = self._extended_at

    def pass_once(self, wait_seconds: float) -> int:
        """Write down what has ended, claim more; how many deliveries are under way.

        While some are it waits up to `wait_seconds` for outcomes, so that one transaction writes many down. Raises
        what the catalog raises; nothing is lost then.
        """
        self._collect(wait_seconds if self._under_way else 0.0)
        with self._working():
            self._write_down()
            self._extend()
            self._claim()
            self._write_down()
            self._expire()
        return len(self._under_way)

    def drain(self, within_seconds: float) -> None:
        """Begin nothing more, let running attempts end within this time, and give all others back.

        A message that is broken off may have arrived, and comes again. Raises what the catalog raises: leases end
        later.
        """
        until = time.monotonic() + within_seconds
        self._courier.withdraw()
        while self._under_way and (left := until - time.monotonic()) > 0:
            self._collect(min(left, COLLECT_SECONDS))
            with self._working():
                self._write_down()
                self._extend()
        self._courier.close()
        while self._collect(0.0):
            pass
        with self._working():
            self._write_down()

    def _collect(self, wait_seconds: float) -> int:
        collected = self._courier.collect(wait_seconds, min(WRITTEN_AT_ONCE, len(self._under_way)))
        for key, tried in collected:
            one = self._under_way.pop(key, None)
            if one is not None:
                if not isinstance(tried, NotTried):
                    self._steps.reached("sent", one.job.id)
                self._ended.append((one, tried))
                self._tell(one.job.id, tried)
        return len(collected)

    def _tell(self, job_id: str, tried: Tried) -> None:
        """Tell the administrator what subscribers may not know, and once that a lease was not kept."""
        if isinstance(tried, NotDelivered) and tried.cause is not None:
            self._say("delivery refused", job_id, tried.cause)
        elif tried == NotTried(LEASE_UNSURE) and not self._cut_off:
            self._cut_off = True
            self._say("deliveries not begun", "-", LEASE_UNSURE)

    def _write_down(self) -> None:
        if self._ended:
            settle(self._ended, begin=self._begin, clock=self._clock)
            done, self._ended = self._ended, []
            for one, _ in done:
                with self._traces.job(one.job):
                    self._steps.reached("notified", one.job.id)

    def _extend(self) -> None:
        every = self._lease.total_seconds() / 3
        if self._under_way and time.monotonic() - self._extended_at >= every:
            keys = {one.job.id: key for key, one in self._under_way.items()}
            until = self._lease_from_now()
            with self._begin() as uow:
                jobs = [one.job for one in self._under_way.values()]
                kept = uow.deliveries.extend(jobs, self._clock.now(), self._lease)
                uow.commit()
            self._courier.keep([keys[job.id] for job in kept], until)
            self._extended_at = time.monotonic()
            self._cut_off = False

    def _expire(self) -> None:
        """Forget old attempts, in a transaction of its own now and then."""
        if time.monotonic() < self._expire_at:
            return
        with self._begin() as uow:
            before = self._clock.now() - ATTEMPTS_EXPIRE_AFTER
            expired = uow.subscriptions.expire_attempts(before, EXPIRED_AT_ONCE)
            uow.commit()
        if expired < EXPIRED_AT_ONCE:
            self._expire_at = time.monotonic() + EXPIRE_EVERY_SECONDS

    def _claim(self) -> None:
        fresh = min(self._courier.room, CLAIMED_AT_ONCE)
        if not fresh:
            return
        until = self._lease_from_now()
        with self._begin() as uow:
            jobs = uow.deliveries.claim(
                self._clock.now(), self._lease, fresh=fresh, retried=max(1, fresh // RETRIED_PART)
            )
            if not jobs:
                return
            uow.commit()
        self._cut_off = False
        for job in jobs:
            self._steps.reached("claimed", job.id)
        with self._read() as uow:
            planned = outgoing(jobs, uow, self._manifests)
        messages: list[Message] = []
        sent: dict[str, Outgoing] = {}
        silent = False  # each look at a server of streams that does not answer takes seconds: one is enough
        for one in planned:
            written: Message | Tried
            if one.outcome is not None:
                written = one.outcome
            elif time.monotonic() >= until:
                written = NotTried(LEASE_UNSURE)
            elif silent and one.subscription.stream_key is not None:
                written = NotTried()
            else:
                written = write(one, self._keys, self._streams, self._clock)
                silent |= written == NotDelivered(STREAM_UNAVAILABLE)
            if isinstance(written, Message):
                sent[one.key] = one
                messages.append(written)
            else:
                self._ended.append((one, written))
                self._tell(one.job.id, written)
        self._courier.hand_over(messages, until)
        self._under_way |= sent  # once they are: the lease of what was never handed over has to end

    def _lease_from_now(self) -> float:
        """The moment, on the monotonic clock, up to which a lease that is written from now on is surely valid."""
        return time.monotonic() + self._lease.total_seconds()
