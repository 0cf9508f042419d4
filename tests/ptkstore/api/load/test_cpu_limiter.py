"""Few requests compute at once, and none waits for one that waits."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ptkstore.api.load.cpu_limiter import CpuLimiter

PATIENCE_SECONDS = 60.0
NEVER = 3_600.0


class Busy:
    """Work that lasts until it is let go, and counts how much of it runs."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.running = self.most = 0
        self._count = threading.Lock()

    def __call__(self) -> str:
        with self._count:
            self.running += 1
            self.most = max(self.most, self.running)
        self.begun.release()
        assert self.let_go.wait(PATIENCE_SECONDS)
        with self._count:
            self.running -= 1
        return "done"


async def n_begin(work: Busy, n: int) -> None:
    for _ in range(n):
        assert await asyncio.to_thread(work.begun.acquire, timeout=PATIENCE_SECONDS)


def test_no_more_than_its_places_work_at_once() -> None:
    async def scenario() -> None:
        work, limiter = Busy(), CpuLimiter(2, NEVER)
        asked = [asyncio.create_task(limiter.run(work)) for _ in range(6)]
        await n_begin(work, 2)
        work.let_go.set()
        assert await asyncio.gather(*asked) == ["done"] * 6
        assert work.most == 2

    asyncio.run(asyncio.wait_for(scenario(), 3 * PATIENCE_SECONDS))


def test_what_takes_long_lets_the_next_begin_and_takes_no_place_when_it_ends() -> None:
    async def scenario() -> None:
        slow, limiter = Busy(), CpuLimiter(1, 0.05)
        asked = [asyncio.create_task(limiter.run(slow)) for _ in range(3)]
        await n_begin(slow, 3)  # though none of them has ended
        assert await limiter.run(lambda: "quick") == "quick"
        slow.let_go.set()
        await asyncio.gather(*asked)

        limiter._long_seconds = NEVER
        later = Busy()
        asked = [asyncio.create_task(limiter.run(later)) for _ in range(3)]
        await n_begin(later, 1)
        later.let_go.set()
        await asyncio.gather(*asked)
        assert later.most == 1  # a place was given back once for each that was taken

    asyncio.run(asyncio.wait_for(scenario(), 3 * PATIENCE_SECONDS))


def test_work_that_fails_gives_its_place_back() -> None:
    def fails() -> None:
        raise ValueError("no")

    async def scenario() -> None:
        limiter = CpuLimiter(1, NEVER)
        for _ in range(3):
            with pytest.raises(ValueError, match="no"):
                await limiter.run(fails)
        assert await limiter.run(lambda: 1) == 1

    asyncio.run(asyncio.wait_for(scenario(), 3 * PATIENCE_SECONDS))


def test_who_went_away_before_his_turn_takes_none() -> None:
    async def scenario() -> None:
        first, limiter = Busy(), CpuLimiter(1, NEVER)
        asked = asyncio.create_task(limiter.run(first))
        await n_begin(first, 1)
        begun: list[int] = []
        gone = asyncio.create_task(limiter.run(lambda: begun.append(1)))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        first.let_go.set()
        await asked
        assert await limiter.run(lambda: 2) == 2
        assert begun == []

    asyncio.run(asyncio.wait_for(scenario(), 3 * PATIENCE_SECONDS))
