"""Turns to compute: threads that compute at once only slow each other down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread

AT_ONCE = 2
LONG_SECONDS = 0.01
_Made = TypeVar("_Made")


class CpuLimiter:
    """Few requests are worked on at once, each in a thread; whatever takes long lets the next one begin.

    One interpreter computes one thing at a time, and threads that hand it to and fro cost more than their work. What
    takes long mostly waits for another part, so it goes on beside those that come after it, and a part that does not
    answer holds nobody up before the threads of the process are used up.
    """

    def __init__(self, at_once: int = AT_ONCE, long_seconds: float = LONG_SECONDS) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._long_seconds = long_seconds

    async def run(self, work: Callable[[], _Made]) -> _Made:
        """Run `work` in a thread, once few enough others compute."""
        await self._places.acquire()
        turn = _Permit(self._places, self._long_seconds)
        try:
            return await to_thread.run_sync(work)
        finally:
            turn.end()


class _Permit:
    """A place, until the work ends or has taken long while there was a thread for the next."""

    def __init__(self, places: asyncio.Semaphore, seconds: float) -> None:
        self._places: asyncio.Semaphore | None = places
        self._seconds = seconds
        self._threads = to_thread.current_default_thread_limiter()
        self._wait()

    def end(self) -> None:
        self._timer.cancel()
        places, self._places = self._places, None
        if places is not None:
            places.release()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._pass_on)

    def _pass_on(self) -> None:
        if self._threads.available_tokens > 0:
            self.end()
        else:
            self._wait()
