"""Tells open event streams of new versions: one look at the catalog for all of them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from anyio import to_thread

from ptkstore.api.limits import Limits
from ptkstore.api.metrics import Metrics
from ptkstore.domain.subscriptions import EVENT_TYPE, event_of
from ptkstore.errors import PtkStoreError, Unavailable
from ptkstore.wiring import Service

RETRY_MILLISECONDS = 2_000


class EventFeed:
    """Knows the newest version online of every PTK that somebody listens to."""

    def __init__(self, service: Service, limits: Limits, metrics: Metrics) -> None:
        self._service, self._limits, self._metrics = service, limits, metrics
        self._heads: dict[str, int] = {}
        self._listening: Counter[str] = Counter()
        self._teams: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None
        self._closing = False

    @asynccontextmanager
    async def place(self, team: str, ptk_id: str) -> AsyncIterator[None]:
        """Hold one of the places for event streams; `Unavailable` if there is none left."""
        if self._teams.total() >= self._limits.event_streams or (
            self._teams[team] >= self._limits.event_streams_per_team
        ):
            raise Unavailable("as many event streams are open as there may be; retry later")
        self._teams[team] += 1
        self._listening[ptk_id] += 1
        self._metrics.event_streams.inc()
        try:
            yield
        finally:
            self._metrics.event_streams.dec()
            self._teams[team] -= 1
            self._listening[ptk_id] -= 1
            if not self._listening[ptk_id]:
                del self._listening[ptk_id]
                self._heads.pop(ptk_id, None)

    async def events(self, ptk_id: str, after: int | None, still: Callable[[], None]) -> AsyncIterator[bytes]:
        """Server-sent events of the versions after `after`, by default of those to come.

        `still` raises once the listener may hear no more.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.event_stream_life
        head = await self._look_at(ptk_id)
        last = head if after is None else min(after, head)
        yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
        while not self._closing and loop.time() < until:
            while last < (head := max(head, self._heads.get(ptk_id, 0))):
                if not await _holds(still):
                    return
                last += 1
                yield await to_thread.run_sync(self._event, ptk_id, last)
            if not await self._news_of(ptk_id, last):
                if not await _holds(still):
                    return
                yield b": still here\n\n"

    async def close(self) -> None:
        """End all streams."""
        self._closing = True
        if self._looking is not None:
            self._looking.cancel()
        async with self._changed:
            self._changed.notify_all()

    async def _news_of(self, ptk_id: str, last: int) -> bool:
        """Wait for a newer version, until the next heartbeat."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(self._limits.event_heartbeat), self._changed:
                await self._changed.wait_for(lambda: self._closing or self._heads.get(ptk_id, 0) > last)
        except TimeoutError:
            return False
        return True

    async def _look(self) -> None:
        while self._listening:
            await asyncio.sleep(self._limits.event_poll)
            try:
                heads = await to_thread.run_sync(self._service.online_versions, tuple(self._listening))
            except PtkStoreError:
                continue  # the catalog comes back, and so do we
            if any(number > self._heads.get(ptk_id, 0) for ptk_id, number in heads.items()):
                async with self._changed:
                    self._heads.update(heads)
                    self._changed.notify_all()

    async def _look_at(self, ptk_id: str) -> int:
        heads = await to_thread.run_sync(self._service.online_versions, (ptk_id,))
        self._heads[ptk_id] = max(heads.get(ptk_id, 0), self._heads.get(ptk_id, 0))
        return self._heads[ptk_id]

    def _event(self, ptk_id: str, number: int) -> bytes:
        version = self._service.version(ptk_id, number)
        url = self._service.manifests.manifest_url(ptk_id, number)
        data: Any = event_of(version, url)
        return f"id: {number}\nevent: {EVENT_TYPE}\ndata: {json.dumps(data)}\n\n".encode()


async def _holds(still: Callable[[], None]) -> bool:
    try:
        await to_thread.run_sync(still)
    except PtkStoreError:
        return False
    return True
