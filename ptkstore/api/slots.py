"""How many large bodies are in memory at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from ptkstore.api.problems import Interrupted
from ptkstore.errors import Unavailable

WAIT_SECONDS = 20.0


class Slots:
    """How many large bodies may be read, and how many worked on, at once.

    Parameters
    ----------
    working : int
        How many are worked on; four times as many are read.
    busy : str
        What is told to whom there was no room for.
    """

    def __init__(self, working: int, busy: str) -> None:
        self._reading, self._working = asyncio.Semaphore(4 * working), asyncio.Semaphore(working)
        self._busy = busy

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Wait a while for a place to read a body, and hold it; `Unavailable` if none becomes free."""
        async with self._one_of(self._reading):
            yield

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The same to work on one."""
        async with self._one_of(self._working):
            yield

    @asynccontextmanager
    async def _one_of(self, places: asyncio.Semaphore) -> AsyncIterator[None]:
        try:
            await asyncio.wait_for(places.acquire(), WAIT_SECONDS)
        except TimeoutError:
            raise Unavailable(self._busy) from None
        try:
            yield
        finally:
            places.release()


async def body_of(request: Request) -> bytes:
    """All of a body, which the request keeps; `Interrupted` if its sender leaves before the end."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise Interrupted(400, "the body ended early") from None
