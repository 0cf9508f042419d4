"""Connections that wait for nobody for ever: neither for a request nor for the answer to be taken."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_WITHIN_SECONDS = 10.0
TAKEN_WITHIN_SECONDS = 30.0
HEAD_BYTES_MAX = 32 * 1024
DEVICES = (b"POST /v1/device/", b"GET /v1/device/")


class _Timed(asyncio.Protocol):
    """Both protocols add this to uvicorn's protocol, which comes next in the order of methods.

    A request's line and headers come within `HEAD_WITHIN_SECONDS`, from the connection's start or from their first
    byte. Once more of an answer waits than the system takes, the client reads most of it within
    `TAKEN_WITHIN_SECONDS`, or the connection is cut.
    """

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _head: asyncio.TimerHandle | None = None
    _taken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._head, self._taken = _stopped(self._head), _stopped(self._taken)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what came, and look whether a request is whole."""
        super().data_received(data)
        self._watch()

    def pause_writing(self) -> None:
        """Give a client that reads too slowly a while to catch up."""
        super().pause_writing()
        self._taken = self.loop.call_later(TAKEN_WITHIN_SECONDS, self._cut)

    def resume_writing(self) -> None:
        """Stop the clock: the client has read."""
        self._taken = _stopped(self._taken)
        super().resume_writing()

    def _waits_for_head(self) -> bool:
        raise NotImplementedError

    def _watch(self) -> None:
        if not self._waits_for_head():
            self._head = _stopped(self._head)
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(HEAD_WITHIN_SECONDS, self._cut)

    def _cut(self) -> None:
        self._head, self._taken = _stopped(self._head), _stopped(self._taken)
        self.transport.abort()


class TimeoutProtocol(_Timed, H11Protocol):
    """uvicorn's, bounded in time; a connection whose first request is a device's is handed to `DeviceProtocol`."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._made_with = args, more
        self._first = True

    def data_received(self, data: bytes) -> None:
        """Take in what came, or let the protocol of devices do it."""
        if self._first and data.startswith(DEVICES):
            self._hand_over(data)
            return
        self._first = False
        super().data_received(data)

    def _hand_over(self, data: bytes) -> None:
        args, more = self._made_with
        self._head = _stopped(self._head)
        self.connections.discard(self)
        other = DeviceProtocol(*args, **more)
        self.transport.set_protocol(other)
        other.connection_made(self.transport)
        other.data_received(data)

    def _waits_for_head(self) -> bool:
        return self.conn.their_state is h11.IDLE


class DeviceProtocol(_Timed, HttpToolsProtocol):
    """uvicorn's with a parser in C, bounded in time: one in Python takes half of the time of a report.

    A request's line and headers have `HEAD_BYTES_MAX` bytes at most.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._head_bytes = 0
        self._in_head = True

    def data_received(self, data: bytes) -> None:
        """Take in what came, unless a head is too long."""
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX:
            self._cut()

    def on_headers_complete(self) -> None:
        """Begin to work on a request, whose body may follow."""
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect the next request."""
        super().on_message_complete()
        self._in_head = True

    def _waits_for_head(self) -> bool:
        """A head has begun, or none ever did; a connection on which one did, and that is idle, ends by itself."""
        return self._in_head and (self._head_bytes > 0 or self.cycle is None)


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Nothing in place of a timer, which will not go off."""
    if timer is not None:
        timer.cancel()
    return None
