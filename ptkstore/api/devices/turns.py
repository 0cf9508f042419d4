"""Turns at what one does at a time: of those who wait, each gateway has one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairTurns:
    """One turn at a time; belongs to one event loop.

    A gateway that waits lets each other gateway have one turn for each of its own, whatever the number of its requests.
    """

    def __init__(self) -> None:
        self._waiting: dict[bytes, deque[asyncio.Future[None]]] = {}  # the next gateway first
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, gateway: bytes) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the end."""
        if self._is_taken:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(gateway, deque()).append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if not mine.cancelled():  # it had come just then
                    self._pass_on()
                raise
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            gateway = next(iter(self._waiting))
            waiting = self._waiting.pop(gateway)
            one = waiting.popleft()
            if waiting:
                self._waiting[gateway] = waiting  # behind all others
            if not one.done():  # else its request was given up
                one.set_result(None)
                return
        self._is_taken = False
