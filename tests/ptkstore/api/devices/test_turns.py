"""Whose turn it is at what one does at a time."""

from __future__ import annotations

import asyncio

from ptkstore.api.devices.turns import FairTurns

BUSY, OTHER, THIRD = b"busy", b"other", b"third"


class Queue:
    """Requests that come while a turn is taken, by name; turns are ended one by one."""

    def __init__(self) -> None:
        self.turns, self.had = FairTurns(), list[str]()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.goes_on = asyncio.Event()

    async def _take(self, name: str, gateway: bytes) -> None:
        async with self.turns.turn(gateway):
            self.had.append(name)
            await self.goes_on.wait()

    async def come(self, name: str, gateway: bytes) -> None:
        self.tasks[name] = asyncio.create_task(self._take(name, gateway))
        await asyncio.sleep(0)

    async def end_all(self) -> list[str]:
        self.goes_on.set()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        return self.had


def test_whoever_sends_one_waits_for_one_of_each_other_gateway() -> None:
    async def order() -> list[str]:
        queue = Queue()
        for n in range(5):
            await queue.come(f"busy {n}", BUSY)
        await queue.come("other", OTHER)
        await queue.come("third", THIRD)
        return await queue.end_all()

    had = asyncio.run(order())
    assert had == ["busy 0", "busy 1", "other", "third", "busy 2", "busy 3", "busy 4"]


def test_one_has_it_at_a_time_and_later_ones_find_it_free() -> None:
    async def order() -> list[str]:
        queue = Queue()
        await queue.come("first", BUSY)
        await queue.come("second", BUSY)
        assert queue.had == ["first"]
        await queue.end_all()
        await queue.come("third", OTHER)
        return queue.had

    assert asyncio.run(order()) == ["first", "second", "third"]


def test_a_request_that_is_given_up_keeps_no_turn() -> None:
    async def order() -> list[str]:
        queue = Queue()
        async with queue.turns.turn(OTHER):
            for name in ("waits", "its turn comes", "last"):
                await queue.come(name, BUSY)
            queue.tasks["waits"].cancel()
        queue.tasks["its turn comes"].cancel()
        await asyncio.wait_for(queue.end_all(), 60)
        assert queue.turns._waiting == {}
        assert not queue.turns._is_taken
        return queue.had

    assert asyncio.run(order()) == ["last"]
