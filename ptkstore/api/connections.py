"""Connections that wait for nobody for ever: neither for a request nor for the answer to be taken."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN_SECONDS = 10.0
TAKEN_WITHIN_SECONDS = 30.0


class TimeoutProtocol(H11Protocol):
    """uvicorn's, with the two bounds that it lacks.

    A request's line and headers come within `HEAD_WITHIN_SECONDS`, from the connection's start or from their first
    byte. Once more of an answer waits than the system takes, the client reads most of it within
    `TAKEN_WITHIN_SECONDS`, or the connection is cut.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._head: asyncio.TimerHandle | None = None
        self._taken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
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

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._head = _stopped(self._head)
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(HEAD_WITHIN_SECONDS, self._cut)

    def _cut(self) -> None:
        self._head, self._taken = _stopped(self._head), _stopped(self._taken)
        self.transport.abort()


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Nothing in place of a timer, which will not go off."""
    if timer is not None:
        timer.cancel()
    return None
