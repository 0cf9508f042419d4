"""Models that this process serves, each read anew every second while devices ask for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from anyio import CapacityLimiter, to_thread

from ptkstore.adapters.runtime import code_of, log_code
from ptkstore.application.devices.served_models import ServedModel
from ptkstore.errors import PtkStoreError, Refused, Unavailable, UnknownName

AGAIN_SECONDS = 1.0
KEPT_SECONDS = 10.0  # of a model that cannot be read anew
UNUSED_SECONDS = 60.0


@dataclass(slots=True)
class _Kept:
    model: ServedModel
    read_at: float
    used_at: float
    over: set[str] = field(default_factory=set)
    is_served: bool = True


class ServedModels:
    """A cache of what is served; belongs to one event loop.

    Earlier forms of a model are kept while devices ask for them, also where it is not served. Reports drawn then are
    late, and no spam. Of a PTK that devices do not train any more nothing is kept.

    Parameters
    ----------
    read : callable
        Reads what is served of a PTK in the place of what was served before, in a thread.
    """

    def __init__(self, read: Callable[[str, ServedModel | None], ServedModel]) -> None:
        self._read = read
        self._kept: dict[str, _Kept] = {}
        self._reading: dict[str, asyncio.Task[ServedModel]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._limiter: CapacityLimiter | None = None

    async def get(self, ptk_id: str, epoch: str) -> ServedModel:
        """Return what is served of a PTK, read anew for an epoch that is neither served nor known to be over.

        Raises
        ------
        UnknownName
            When devices do not train it any more.
        Unavailable
            When nobody can tell now.
        """
        kept = self._kept.get(ptk_id)
        if kept is not None:
            kept.used_at = time.monotonic()
            if kept.is_served and (kept.model.epoch == epoch or epoch in kept.over):
                return kept.model
        begun_before = ptk_id in self._reading
        model = await self._read_once(ptk_id)
        if model.epoch != epoch and begun_before:  # before the ticket's epoch, perhaps
            model = await self._read_once(ptk_id)
        if model.epoch != epoch and (kept := self._kept.get(ptk_id)) is not None:
            kept.over.add(epoch)  # for ever: an epoch that is over never comes back
        return model

    def epoch_of(self, ptk_id: str) -> str | None:
        """Return the epoch of a PTK that is served now; None if none is."""
        kept = self._kept.get(ptk_id)
        return kept.model.epoch if kept is not None and kept.is_served else None

    def close(self) -> None:
        """Read nothing any more."""
        if self._refreshing is not None:
            self._refreshing.cancel()

    async def _read_once(self, ptk_id: str) -> ServedModel:
        """Read for all who wait."""
        task = self._reading.get(ptk_id)
        if task is None:
            task = self._reading[ptk_id] = asyncio.create_task(self._reads(ptk_id))
            task.add_done_callback(lambda done: self._read_ended(ptk_id, done))
        try:
            return await asyncio.shield(task)
        except Refused:
            raise Unavailable(
                "devices are served nothing now; the operator finds out why by `ptk up`"
            ) from None

    async def _reads(self, ptk_id: str) -> ServedModel:
        if self._limiter is None:
            self._limiter = CapacityLimiter(1)
        kept = self._kept.get(ptk_id)
        before = None if kept is None else kept.model
        return await to_thread.run_sync(self._read, ptk_id, before, limiter=self._limiter)

    def _read_ended(self, ptk_id: str, task: asyncio.Task[ServedModel]) -> None:
        self._reading.pop(ptk_id, None)
        if task.cancelled():
            return
        now, kept = time.monotonic(), self._kept.get(ptk_id)
        if (error := task.exception()) is None:
            used_at, over = (now, set()) if kept is None else (kept.used_at, kept.over)
            self._kept[ptk_id] = _Kept(task.result(), now, used_at, over)
            if self._refreshing is None:
                self._refreshing = asyncio.create_task(self._refresh())
        elif isinstance(error, UnknownName):
            self._kept.pop(ptk_id, None)
        elif kept is not None and (isinstance(error, Refused) or now - kept.read_at > KEPT_SECONDS):
            kept.is_served = False

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            for ptk_id, kept in list(self._kept.items()):
                if time.monotonic() - kept.used_at > UNUSED_SECONDS:
                    del self._kept[ptk_id]
                    continue
                try:
                    await self._read_once(ptk_id)
                except PtkStoreError as error:
                    log_code("a model is served as it was", ptk_id, code_of(error))
                except Exception as error:  # noqa: BLE001 - the others are read all the same
                    log_code("a model could not be read", ptk_id, code_of(error))
