"""Many messages at once, from an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import math
import queue
import resource
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakValueDictionary

import httpx
from ssrfguard import Policy, Target
from ssrfguard.httpx import AsyncClient

from ptkstore.adapters.webhooks.attempts import FAILURES, failure_of, post
from ptkstore.adapters.webhooks.destinations import Answer, Destination, unreachable
from ptkstore.adapters.webhooks.messenger import HttpMessenger
from ptkstore.application.operations.essential_thread import EssentialThread
from ptkstore.ports.messages import (
    FAILED,
    LEASE_UNSURE,
    WITHDRAWN,
    Message,
    NotDelivered,
    NotTried,
    Tried,
)

MOST_WAITING = 512  # messages that were handed over and are not slow
QUICK = 64  # calls at once that nobody has waited for long
SLOW = 800  # calls at once that take longer than this:
SLOW_AFTER_SECONDS = 0.5
PER_HOST = 32
HOST_WAIT_SECONDS = 2.0  # for a place at a host that has all of its own taken and answers nobody
ADDRESSES_FRESH_SECONDS = 30.0
HOSTS_KEPT = 256
LOOKUPS_AT_ONCE = 200
LOOKUPS_PER_TEAM = 50  # a lookup that hangs keeps its place, also when its message is given up
_WANTED_FILES = 4096
_ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=5.0)


@dataclass
class _Line:
    """The addresses that one lookup gave and policy permits, and connections to them that nobody uses now."""

    destination: Destination
    until: float
    idle: list[AsyncClient] = field(default_factory=list)


@dataclass
class _Host:
    """One scheme, host and port."""

    target: Target
    policy: Policy
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PER_HOST))
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    line: _Line | None = None
    visitors: int = 0
    answered_at: float = field(default_factory=time.monotonic)


@dataclass
class _Sending:
    """A message that was handed over. Once it is begun, `until` means nothing any more."""

    until: float
    begun: bool = False
    task: asyncio.Task[Tried] | None = None


class HttpCourier:
    """Sends messages as `HttpMessenger` does, many at once, over connections that are kept for a moment.

    A connection leads to an address that was checked after its lookup; names are looked up again after
    `ADDRESSES_FRESH_SECONDS`. A call that takes long gives its place to others and continues beside them. A host has
    so many places and no more: endpoints that hang delay messages to their own host only.
    """

    def __init__(
        self, messenger: HttpMessenger, *, quick: int = QUICK, slow: int = SLOW, waiting: int = MOST_WAITING
    ) -> None:
        """`quick`, `slow`, `waiting`: see the constants."""
        self._messenger = messenger
        self.most_slow, self._most_waiting = _slow_calls(slow), waiting
        self._ended: queue.SimpleQueue[tuple[str, Tried]] = queue.SimpleQueue()
        self._count, self._ending = threading.Lock(), threading.Lock()
        self._n_waiting = 0
        self.n_slow = 0  # only the loop counts these
        self._hosts: OrderedDict[tuple[str, str, int], _Host] = OrderedDict()
        self._sendings: dict[str, _Sending] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.loop = asyncio.new_event_loop()
        self.quick = asyncio.Semaphore(quick)
        self._lookups = asyncio.Semaphore(LOOKUPS_AT_ONCE)
        self._lookups_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._thread = EssentialThread(self.loop.run_forever, "courier")
        self._thread.start()

    @property
    def room(self) -> int:
        """How many more messages it takes now."""
        with self._count:
            return max(0, self._most_waiting - self._n_waiting)

    def hand_over(self, messages: Sequence[Message], until: float = math.inf) -> None:
        """Begin to send; comes back at once. A message that is not begun by then, on the monotonic clock, never is."""
        if messages:
            self.counted(len(messages))
            self.loop.call_soon_threadsafe(self._begin, messages, until)

    def keep(self, keys: Iterable[str], until: float) -> None:
        """Let messages that were handed over under these keys begin until then."""
        self.loop.call_soon_threadsafe(self._keep, tuple(keys), until)

    def collect(self, within_seconds: float, enough: int) -> Sequence[tuple[str, Tried]]:
        """Return keys and outcomes of what has ended since; wait at most so long for enough of them."""
        ended: list[tuple[str, Tried]] = []
        until = time.monotonic() + within_seconds
        with suppress(queue.Empty):
            while len(ended) < enough:
                left = until - time.monotonic()
                ended.append(self._ended.get(timeout=left) if left > 0 else self._ended.get_nowait())
        return ended

    def withdraw(self) -> None:
        """Begin nothing that is not begun; running calls continue."""
        self.loop.call_soon_threadsafe(self._withdraw)

    def close(self) -> None:
        """Break off what is on its way. Everything that was handed over has an outcome then."""
        with self._ending:  # a relay that leaves and its service may do so at once
            if self._thread.is_alive():
                asyncio.run_coroutine_threadsafe(self._end(), self.loop).result()
                self.loop.call_soon_threadsafe(self.loop.stop)
                self._thread.join()
                self.loop.close()

    # in the loop

    def _begin(self, messages: Sequence[Message], until: float) -> None:
        for message in messages:
            sending = self._sendings[message.key] = _Sending(until)
            sending.task = self.loop.create_task(self._deliver(message, sending))
            sending.task.add_done_callback(partial(self._done, message.key))

    def _done(self, key: str, task: asyncio.Task[Tried]) -> None:
        self._sendings.pop(key, None)
        tried: Tried
        if task.cancelled():
            tried = NotTried(WITHDRAWN)
        else:
            tried = task.result() if task.exception() is None else NotDelivered(FAILED)
        self._ended.put((key, tried))

    def _keep(self, keys: Iterable[str], until: float) -> None:
        for key in keys:
            if key in self._sendings:
                self._sendings[key].until = until

    def _withdraw(self) -> None:
        for sending in self._sendings.values():
            if sending.task is not None and not sending.begun:
                sending.task.cancel()

    async def _deliver(self, message: Message, sending: _Sending) -> Tried:
        place = _Place(self)
        try:
            host = self._host(message.endpoint)
            host.visitors += 1
            try:
                if not await _enters(host):
                    return NotTried()
                try:
                    await place.take()
                    async with asyncio.timeout(self._messenger.timeout_seconds):
                        return await self._post(host, message, sending)
                finally:
                    host.places.release()
            finally:
                host.visitors -= 1
        except TimeoutError as late:
            known = late if sending.begun else unreachable("timeout")
            return failure_of(known, self._messenger.timeout_seconds)
        except FAILURES as failed:
            return failure_of(failed, self._messenger.timeout_seconds)
        finally:
            place.give_back()

    async def _post(self, host: _Host, message: Message, sending: _Sending) -> Tried:
        line = await self._line(host, message.team)
        if time.monotonic() >= sending.until:
            return NotTried(LEASE_UNSURE)
        sending.begun = True
        client = line.idle.pop() if line.idle else self._messenger.client(line.destination, _ONE_CONNECTION)
        try:
            outcome = await post(client, message)
            host.answered_at = time.monotonic()
            return outcome
        finally:
            if line is host.line:
                line.idle.append(client)
            else:
                self._retire([client])

    def _host(self, endpoint: str) -> _Host:
        target, policy = self._messenger.destinations.check_form(endpoint)
        name = (target.scheme, target.host, target.port)
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(target, policy)
            self._forget_hosts()
        self._hosts.move_to_end(name)
        return host

    def _forget_hosts(self) -> None:
        """Close what was used least recently, as far as nobody is there."""
        for name in list(self._hosts)[: len(self._hosts) - HOSTS_KEPT]:
            host = self._hosts[name]
            if not host.visitors:
                del self._hosts[name]
                if host.line is not None:
                    self._retire(host.line.idle)

    async def _line(self, host: _Host, team: str) -> _Line:
        async with host.looking:
            if host.line is None or host.line.until <= time.monotonic():
                old, host.line = host.line, None
                if old is not None:
                    self._retire(old.idle)
                answers = await self._look_up(host.target, team)
                destination = self._messenger.destinations.checked(host.target, host.policy, answers)
                host.line = _Line(destination, time.monotonic() + ADDRESSES_FRESH_SECONDS)
            return host.line

    async def _look_up(self, target: Target, team: str) -> tuple[Answer, ...]:
        """One lookup; a thread that hangs keeps its place among the lookups, and its caller continues without it."""
        share = self._lookups_of.setdefault(team, asyncio.Semaphore(LOOKUPS_PER_TEAM))
        await share.acquire()
        try:
            await self._lookups.acquire()
        except BaseException:
            share.release()
            raise
        looked_up: asyncio.Future[tuple[Answer, ...]] = self.loop.create_future()

        def answer(answers: tuple[Answer, ...]) -> None:
            self._lookups.release()
            share.release()
            if not looked_up.done():
                looked_up.set_result(answers)

        def answered(answers: tuple[Answer, ...]) -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                self.loop.call_soon_threadsafe(answer, answers)

        self._messenger.destinations.look_up(target, answered)
        return await looked_up

    def _retire(self, clients: Iterable[AsyncClient]) -> None:
        """Close connections that nobody uses any more."""
        for client in clients:
            task = self.loop.create_task(client.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _end(self) -> None:
        tasks = [sending.task for sending in self._sendings.values() if sending.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for host in self._hosts.values():
            if host.line is not None:
                self._retire(host.line.idle)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def counted(self, change: int) -> None:
        """Count so many more messages as waiting or in quick places."""
        with self._count:
            self._n_waiting += change


async def _enters(host: _Host) -> bool:
    """Wait for a place at the host; False if all are taken and it answers nobody."""
    while True:
        try:
            async with asyncio.timeout(HOST_WAIT_SECONDS):
                await host.places.acquire()
        except TimeoutError:
            if time.monotonic() - host.answered_at >= HOST_WAIT_SECONDS:
                return False
        else:
            return True


class _Place:
    """The place of a message: waiting, in a quick place or in a slow one."""

    def __init__(self, courier: HttpCourier) -> None:
        self._courier = courier
        self._timer: asyncio.TimerHandle | None = None
        self._slow = False

    async def take(self) -> None:
        """Wait for a quick place."""
        await self._courier.quick.acquire()
        self._watch()

    def give_back(self) -> None:
        """Forget a message that is gone, wherever it was."""
        if self._slow:
            self._courier.n_slow -= 1
            return
        self._courier.counted(-1)
        if self._timer is not None:
            self._timer.cancel()
            self._courier.quick.release()

    def _watch(self) -> None:
        self._timer = self._courier.loop.call_later(SLOW_AFTER_SECONDS, self._slow_down)

    def _slow_down(self) -> None:
        if self._courier.n_slow >= self._courier.most_slow:
            self._watch()
            return
        self._slow = True
        self._courier.n_slow += 1
        self._courier.quick.release()
        self._courier.counted(-1)


def _slow_calls(wanted: int) -> int:
    """As many as there may be open files, with as many again left for everything else."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < _WANTED_FILES:
        soft = _WANTED_FILES if hard == unlimited else min(hard, _WANTED_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == unlimited else max(1, min(wanted, soft // 2))
