"""A connection to Redis on which many requests wait for their replies, each command in its turn."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis

from ptkstore.errors import Unavailable

PATIENCE_SECONDS = 5.0
AGAIN_SECONDS = 0.2
AWAY = "the devices' Redis does not answer; retry later"

Command = tuple[bytes | str | int, ...]


class RedisConnection:
    """One connection, made when it is needed and made anew when it broke.

    Commands of many callers go out as they come, without waiting for earlier replies. Belongs to one event loop.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._wire: _Wire | None = None
        self._connecting: asyncio.Task[_Wire] | None = None
        self._failed_at = float("-inf")

    async def ask(self, *commands: Command) -> list[Any]:
        """Send commands together and return their replies; `Unavailable` if one of them fails, whatever it was."""
        wire = self._wire
        if wire is None or wire.closed:
            wire = await self._connected()
        replies = await wire.ask(hiredis_packed(commands), len(commands))
        if any(isinstance(reply, hiredis.HiredisError) for reply in replies):
            raise Unavailable("the devices' Redis refuses to keep what devices send; retry later")
        return replies

    def close(self) -> None:
        """End the connection; a waiting caller learns that nobody answers."""
        if self._wire is not None:
            self._wire.abort()

    async def _connected(self) -> _Wire:
        """Connect once for all who wait, and not again at once after a failure."""
        if self._connecting is None:
            if time.monotonic() - self._failed_at < AGAIN_SECONDS:
                raise Unavailable(AWAY)
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connect_ended)
        return await asyncio.shield(self._connecting)

    def _connect_ended(self, task: asyncio.Task[_Wire]) -> None:
        self._connecting = None
        if task.cancelled() or task.exception() is not None:
            self._failed_at = time.monotonic()
        else:
            self._wire = task.result()

    async def _connect(self) -> _Wire:
        from redis.connection import parse_url

        where: dict[str, Any] = parse_url(self._url)  # type: ignore[no-untyped-call]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                if "path" in where:
                    _, wire = await loop.create_unix_connection(_Wire, where["path"])
                else:
                    host, port = where.get("host") or "localhost", where.get("port") or 6379
                    tls = _tls(where) if self._url.startswith("rediss") else None
                    _, wire = await loop.create_connection(_Wire, host, port, ssl=tls)
                hello = list(_hello(where))
                if hello:
                    replies = await wire.ask(hiredis_packed(hello), len(hello))
                    if any(isinstance(reply, hiredis.HiredisError) for reply in replies):
                        wire.abort()
                        raise Unavailable(AWAY)
        except (OSError, TimeoutError):
            raise Unavailable(AWAY) from None
        return wire


class _Wire(asyncio.Protocol):
    """Replies come in the order of their commands."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[asyncio.Future[list[Any]], int, float]] = deque()
        self._replies: list[Any] = []
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._loop = asyncio.get_running_loop()
        self._watch = self._loop.call_later(1.0, self._look)

    def ask(self, packed: Sequence[bytes], n_replies: int) -> asyncio.Future[list[Any]]:
        answered: asyncio.Future[list[Any]] = self._loop.create_future()
        if self.closed:
            answered.set_exception(Unavailable(AWAY))
            return answered
        self._waiting.append((answered, n_replies, self._loop.time()))
        self._transport.writelines(packed)
        return answered

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while self._waiting:
            answered, wanted, _ = self._waiting[0]
            while len(self._replies) < wanted:
                try:
                    reply = self._reader.gets()
                except hiredis.ProtocolError:
                    self.abort()
                    return
                if reply is False:
                    return
                self._replies.append(reply)
            self._waiting.popleft()
            replies, self._replies = self._replies, []
            if not answered.done():
                answered.set_result(replies)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._watch.cancel()
        while self._waiting:
            answered, _, _ = self._waiting.popleft()
            if not answered.done():
                answered.set_exception(Unavailable(AWAY))

    def abort(self) -> None:
        self.closed = True
        self._transport.abort()

    def _look(self) -> None:
        """Give up a server that has not answered for long."""
        if self._waiting and self._loop.time() - self._waiting[0][2] > PATIENCE_SECONDS:
            self.abort()
        else:
            self._watch = self._loop.call_later(1.0, self._look)


def hiredis_packed(commands: Sequence[Command]) -> list[bytes]:
    """Return commands as they are sent."""
    return [hiredis.pack_command(command) for command in commands]  # type: ignore[arg-type]


def _hello(where: dict[str, Any]) -> Sequence[Command]:
    hello: list[Command] = []
    if password := where.get("password"):
        hello.append(("AUTH", *([where["username"]] if where.get("username") else []), password))
    if database := where.get("db"):
        hello.append(("SELECT", int(database)))
    return hello


def _tls(where: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=where.get("ssl_ca_certs"))
    if certificate := where.get("ssl_certfile"):
        context.load_cert_chain(certificate, where.get("ssl_keyfile"))
    return context
