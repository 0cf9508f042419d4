"""How many large bodies are in memory at once, how many are worked on, and how many of them one team's may be."""

from __future__ import annotations

import asyncio
from asyncio import Semaphore
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from anyio import from_thread
from starlette.requests import ClientDisconnect, Request

from ptkstore.api.problems import Interrupted
from ptkstore.domain.identity import Principal
from ptkstore.errors import TooManyRequests, Unavailable

WAIT_SECONDS = 20.0


class Place:
    """The places of one request, until it ends or gives them back."""

    def __init__(self, slots: BodySlots, team: str) -> None:
        self._slots, self._team = slots, team
        self._held: list[Callable[[], None]] = []

    async def work(self) -> None:
        """Wait a while for a place to work on what was read, and hold it too; refuses as `BodySlots.reading` does."""
        await self.take(self._slots.to_work(self._team))

    async def take(self, wanted: Sequence[tuple[Semaphore, Exception]]) -> None:
        """Hold one more of each, in this order, or end with the refusal of the one that was waited for in vain."""
        refusal = wanted[0][1]
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                for places, error in wanted:
                    refusal = error
                    await places.acquire()
                    self._held.append(places.release)
        except TimeoutError:
            raise refusal from None

    def leave(self) -> None:
        """Give all of it back, to wait for something that has bounds of its own; repeatable."""
        while self._held:
            self._held.pop()()


class BodySlots:
    """How many large bodies may be read, and how many worked on, at once.

    A slow sender, or slow work, takes up a place for long, even beyond the time in which it is answered. So a team has
    half of the places of each kind, and each of its tokens half of that to read. Beyond it only its own callers wait.

    Parameters
    ----------
    reading, working : int
        How many are read, and how many of them worked on; at least four, and two.
    busy : str
        The message for callers for whom there is no room.
    """

    def __init__(self, reading: int, working: int, busy: str) -> None:
        self._reading, self._working = Semaphore(reading), Semaphore(working)
        self._of_token, self._of_team, self._worked_on = reading // 4, reading // 2, working // 2
        self._shares: WeakValueDictionary[tuple[str, str], Semaphore] = WeakValueDictionary()
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
        token, team = principal.token_id, principal.team
        refusal = TooManyRequests(
            f"of such bodies {self._of_token} at once are taken here from a token, {self._of_team} from a team"
        )
        place = Place(self, team)
        try:
            await place.take(
                (
                    (self._share("token", token, self._of_token), refusal),
                    (self._share("team", team, self._of_team), refusal),
                    (self._reading, Unavailable(self._busy)),
                )
            )
            yield place
        finally:
            place.leave()

    def to_work(self, team: str) -> Sequence[tuple[Semaphore, Exception]]:
        """Return what a team needs for work on one more body, each with the refusal if it does not become free."""
        refusal = TooManyRequests(f"of such bodies {self._worked_on} at once are worked on here for a team")
        share = self._share("at work", team, self._worked_on)
        return (share, refusal), (self._working, Unavailable(self._busy))

    def _share(self, kind: str, name: str, places: int) -> Semaphore:
        """The places of a token or team, kept while anybody holds or awaits one."""
        return self._shares.setdefault((kind, name), Semaphore(places))


async def body_of(request: Request) -> bytes:
    """Read all of a body, which the request keeps; `Interrupted` if its sender leaves before the end."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise Interrupted(400, "the body ended early") from None


def leave_place(request: Request) -> None:
    """Give back what the request holds, if it holds a place, from the thread that works on it."""
    place: Place | None = getattr(request.state, "place", None)
    if place is not None:
        from_thread.run_sync(place.leave)
