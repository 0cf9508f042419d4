"""How many large bodies are in memory at once, and how many of them one team's may be."""

from __future__ import annotations

import asyncio
from asyncio import Semaphore
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from anyio import from_thread
from starlette.requests import ClientDisconnect, Request

from ptkstore.api.problems import Interrupted
from ptkstore.domain.identity import Principal
from ptkstore.errors import TooManyRequests, Unavailable

WAIT_SECONDS = 20.0


class Place:
    """What one request holds of the places, until it ends or gives it back."""

    def __init__(self, working: Semaphore, busy: str) -> None:
        self._working, self._busy = working, busy
        self._held: list[Callable[[], None]] = []

    async def take(self, places: Semaphore) -> None:
        """Hold one more."""
        await places.acquire()
        self._held.append(places.release)

    async def work(self) -> None:
        """Wait a while for a place to work on what was read, and hold it too; `Unavailable` if none becomes free."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self.take(self._working)
        except TimeoutError:
            raise Unavailable(self._busy) from None

    def leave(self) -> None:
        """Give all of it back, to wait for something that has bounds of its own; repeatable."""
        while self._held:
            self._held.pop()()


class Slots:
    """How many large bodies may be read, and how many worked on, at once.

    Whoever sends slowly holds a place for long. So a team has half of those to read, and each of its tokens half of
    that: beyond it only its own callers wait.

    Parameters
    ----------
    working : int
        How many are worked on; four times as many are read.
    busy : str
        What is told to whom there was no room for.
    """

    def __init__(self, working: int, busy: str) -> None:
        self._reading, self._working = Semaphore(4 * working), Semaphore(working)
        self._of_team, self._of_token = 2 * working, working
        self._shares: WeakValueDictionary[str, Semaphore] = WeakValueDictionary()
        self._busy = busy

    @asynccontextmanager
    async def reading(self, principal: Principal) -> AsyncIterator[Place]:
        """Wait a while for a place to read a body, and hold it.

        Raises
        ------
        TooManyRequests
            The caller, or its team, held its share all the while.
        Unavailable
            All held all places.
        """
        place = Place(self._working, self._busy)
        refusal: Exception = TooManyRequests(
            f"of such bodies {self._of_token} at once are taken here from a token, {self._of_team} from a team"
        )
        try:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await place.take(self._share(principal.token_id, self._of_token))
                    await place.take(self._share(f"/{principal.team}", self._of_team))
                    refusal = Unavailable(self._busy)
                    await place.take(self._reading)
            except TimeoutError:
                raise refusal from None
            yield place
        finally:
            place.leave()

    def _share(self, name: str, places: int) -> Semaphore:
        """The places of a token or team, kept while anybody holds or awaits one."""
        return self._shares.setdefault(name, Semaphore(places))


async def body_of(request: Request) -> bytes:
    """All of a body, which the request keeps; `Interrupted` if its sender leaves before the end."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise Interrupted(400, "the body ended early") from None


def leave_place(request: Request) -> None:
    """Give back what the request holds, if it holds a place, from the thread that works on it."""
    place: Place | None = getattr(request.state, "place", None)
    if place is not None:
        from_thread.run_sync(place.leave)
