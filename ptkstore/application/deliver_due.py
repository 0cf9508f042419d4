"""Deliver all that is due, many messages at once, and write many outcomes in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

from ptkstore.application.deliver_event import Outgoing, outgoing, settle, write
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.messages import (
    STREAM_UNAVAILABLE,
    Courier,
    EventStreams,
    Message,
    NotDelivered,
    NotTried,
    Tried,
)
from ptkstore.ports.objects import Lake
from ptkstore.ports.tracing import Traces
from ptkstore.ports.world import Clock, Steps

CLAIMED_AT_ONCE = 250
WRITTEN_AT_ONCE = 200
RETRIED_PART = 4  # one in so many of those that are claimed at once has failed before, at most


class DueDeliveries:
    """The relay's part of notifying: claims due jobs, hands messages over, writes down how each ended.

    Any number may run beside each other. What is killed in between is claimed again when its lease ends: a message
    may then come twice, with the same id. Jobs that never failed and jobs that did have places of their own, so that
    endpoints which are down delay nobody else.
    """

    def __init__(
        self,
        *,
        begin: Begin,
        read: Begin,
        clock: Clock,
        keys: KeyStore,
        lake: Lake,
        courier: Courier,
        streams: EventStreams,
        steps: Steps,
        traces: Traces,
        lease: timedelta,
        working: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`working` admits to work on jobs of the present ledger; `read` begins transactions that only read."""
        self._begin, self._read, self._clock, self._keys, self._lake = begin, read, clock, keys, lake
        self._courier, self._streams, self._steps, self._traces = courier, streams, steps, traces
        self._lease, self._working = lease, working
        self._under_way: dict[str, Outgoing] = {}
        self._ended: list[tuple[Outgoing, Tried]] = []
        self._extended_at = time.monotonic()

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
        return len(self._under_way)

    def _collect(self, wait_seconds: float) -> None:
        for key, tried in self._courier.collect(wait_seconds, min(WRITTEN_AT_ONCE, len(self._under_way))):
            one = self._under_way.pop(key, None)
            if one is not None:
                self._steps.reached("sent", key)
                self._ended.append((one, tried))

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
            with self._begin() as uow:
                jobs = [one.job for one in self._under_way.values()]
                uow.deliveries.extend(jobs, self._clock.now(), self._lease)
                uow.commit()
            self._extended_at = time.monotonic()

    def _claim(self) -> None:
        fresh = min(self._courier.room, CLAIMED_AT_ONCE)
        if not fresh:
            return
        with self._begin() as uow:
            jobs = uow.deliveries.claim(
                self._clock.now(), self._lease, fresh=fresh, retried=max(1, fresh // RETRIED_PART)
            )
            if not jobs:
                return
            uow.commit()
        for job in jobs:
            self._steps.reached("claimed", job.id)
        with self._read() as uow:
            planned = outgoing(jobs, uow, self._lake)
        messages: list[Message] = []
        sent: dict[str, Outgoing] = {}
        silent = False  # each look at a server of streams that does not answer takes seconds: one is enough
        for one in planned:
            written: Message | Tried
            if one.outcome is not None:
                written = one.outcome
            elif silent and one.subscription.stream_key is not None:
                written = NotTried()
            else:
                written = write(one, self._keys, self._streams, self._clock)
                silent |= written == NotDelivered(STREAM_UNAVAILABLE)
            if isinstance(written, Message):
                sent[one.job.id] = one
                messages.append(written)
            else:
                self._ended.append((one, written))
        self._courier.hand_over(messages)
        self._under_way |= sent  # once they are: the lease of what was never handed over has to end
