"""The draws and puts of devices, in Redis: no lock, no script, and nothing that says which instance a ticket drew."""

from __future__ import annotations

import secrets

from ptkstore.adapters.devices.connection import RedisConnection
from ptkstore.adapters.devices.keys import counts_key, epoch_key, instances_key, ticket_key
from ptkstore.domain.streams.report_counts import TAKEN
from ptkstore.domain.tickets import Refusal

_DRAWN, _PUT = b"drawn", b"put"


class RedisReports:
    """`Reports`: a draw and a put are a command each, on one random field of a hash.

    A spent ticket is a key of its own, set only if it is not there, or only if it is. Each write is followed by the
    question whether the epoch is still running. Commands of one connection are done in order. So a put that finds the
    epoch over can take back what it wrote to instances that were forgotten.
    """

    def __init__(self, url: str) -> None:
        self._redis = RedisConnection(url)

    async def draw(self, ptk_id: str, epoch: str, k: int, mark: bytes, seconds: int) -> bytes | Refusal:
        fresh, instance, now = await self._redis.ask(
            ("SET", ticket_key(mark), _DRAWN, "NX", "EX", seconds),
            ("HGET", instances_key(ptk_id, epoch), secrets.randbelow(k)),
            ("GET", epoch_key(ptk_id)),
        )
        if instance is None or not _goes_on(now, epoch):
            return Refusal.EPOCH_OVER
        return Refusal.USED if fresh is None else bytes(instance)

    async def may_put(self, ptk_id: str, epoch: str, mark: bytes) -> Refusal | None:
        """Return why a ticket could not be spent on a put now."""
        before, now = await self._redis.ask(("GET", ticket_key(mark)), ("GET", epoch_key(ptk_id)))
        return _refusal(before, now, epoch)

    async def spend(self, ptk_id: str, epoch: str, mark: bytes) -> Refusal | None:
        """Spend a ticket on a put."""
        before, now = await self._redis.ask(
            ("SET", ticket_key(mark), _PUT, "XX", "KEEPTTL", "GET"), ("GET", epoch_key(ptk_id))
        )
        return _refusal(before, now, epoch)

    async def put(self, ptk_id: str, epoch: str, k: int, report: bytes) -> Refusal | None:
        """Write a report over an instance."""
        key, counts = instances_key(ptk_id, epoch), counts_key(ptk_id, epoch)
        *_, now = await self._redis.ask(
            ("HSET", key, secrets.randbelow(k), report),
            ("HINCRBY", counts, TAKEN, 1),
            ("GET", epoch_key(ptk_id)),
        )
        if _goes_on(now, epoch):
            return None
        await self._redis.ask(("UNLINK", key, counts))
        return Refusal.EPOCH_OVER

    async def count_refused(self, ptk_id: str, epoch: str, reason: str) -> None:
        """Count a report that was refused, while its epoch is running."""
        counts = counts_key(ptk_id, epoch)
        _, now = await self._redis.ask(("HINCRBY", counts, reason, 1), ("GET", epoch_key(ptk_id)))
        if not _goes_on(now, epoch):
            await self._redis.ask(("UNLINK", counts))

    def close(self) -> None:
        """Give the connection back."""
        self._redis.close()


def _goes_on(said: bytes | None, epoch: str) -> bool:
    return said is not None and said.startswith(epoch.encode() + b" ")


def _refusal(before: bytes | None, now: bytes | None, epoch: str) -> Refusal | None:
    """Why nothing may be put with a ticket of this state."""
    if not _goes_on(now, epoch):
        return Refusal.EPOCH_OVER
    if before is None:
        return Refusal.NOT_DRAWN
    return None if before == _DRAWN else Refusal.USED
