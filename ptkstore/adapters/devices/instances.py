"""Instances of models in Redis: begun, read and forgotten."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ptkstore.adapters.devices.forgetting import check_forgets
from ptkstore.adapters.devices.keys import (
    PTKS_KEY,
    counts_key,
    epoch_key,
    instances_key,
    keys_of,
    marks_key,
)
from ptkstore.domain.streams.report_counts import TAKEN, Counts, counted_since
from ptkstore.errors import Unavailable, UnknownName
from ptkstore.ports.devices import Counted, Epoch

if TYPE_CHECKING:
    from ptklib.draw_discard.instances import Instances as Weights

PATIENCE_SECONDS = 5.0
_PACKED = np.dtype("<i4")
# Beside the counts of an epoch: reports that what it began with counts for, and whether that was after a loss.
_BEFORE, _AFTER_LOSS = "before", "after-loss"
_OF_AN_EPOCH = (instances_key, counts_key, marks_key)


class RedisInstances:
    """`Instances`, and thus `InstancesView`, in a Redis that forgets what is overwritten."""

    def __init__(self, url: str) -> None:
        self._url = url

    def epoch(self, ptk_id: str) -> Epoch | None:
        """Return the epoch of a PTK."""
        with _answers():
            return _epoch(self._client.get(epoch_key(ptk_id)))

    def all(self, ptk_id: str, epoch: str, *, shape: tuple[int, int] | None = None) -> Weights:
        """Return the k instances of an epoch, all as they were at one moment."""
        with _answers():
            found = self._client.hgetall(instances_key(ptk_id, epoch))
        return _unpacked(found, epoch, shape)

    def counted(self, ptk_id: str, epoch: str) -> Counted:
        """Return the k instances of an epoch, and how many reports were put by that moment."""
        with _answers(), self._client.pipeline() as commands:
            commands.hgetall(instances_key(ptk_id, epoch))
            commands.hgetall(counts_key(ptk_id, epoch))
            found, counted = commands.execute()
        return _counted(_unpacked(found, epoch, None), _counts(counted))

    def read_window(
        self,
        ptk_id: str,
        epoch: str,
        window: int,
        *,
        since: int | None,
        shape: tuple[int, int] | None = None,
    ) -> tuple[Counted, Counts]:
        key = marks_key(ptk_id, epoch)
        with _answers(), self._client.pipeline() as commands:
            commands.hgetall(instances_key(ptk_id, epoch))
            commands.hgetall(counts_key(ptk_id, epoch))
            commands.hgetall(key)
            found, counted, marked = commands.execute()
        now = _counts(counted)
        read = _counted(_unpacked(found, epoch, shape), now)
        now = {outcome: count for outcome, count in now.items() if outcome not in (_BEFORE, _AFTER_LOSS)}
        marks = {int(number): json.loads(text) for number, text in marked.items() if int(number) < window}
        gone = [number for number in marks if since in marks and number < since]
        with _answers():
            self._mark(ptk_id, epoch, window, json.dumps(now), gone)
        return read, counted_since(since, marks, now)

    def _mark(self, ptk_id: str, epoch: str, window: int, now: str, gone: Sequence[int]) -> None:
        """Remember what had been counted when a window was read first, unless a later one was read since."""
        from redis.exceptions import WatchError

        key = marks_key(ptk_id, epoch)
        with self._client.pipeline() as commands:
            commands.watch(key)
            if any(int(number) > window for number in commands.hkeys(key)):
                return
            commands.multi()
            commands.hsetnx(key, str(window), now)  # the first: "at most" holds whoever publishes
            if gone:
                commands.hdel(key, *map(str, gone))
            commands.get(epoch_key(ptk_id))
            try:
                said = _epoch(commands.execute()[-1])
            except WatchError:
                self._mark(ptk_id, epoch, window, now, gone)
                return
            if said is None or said.id != epoch:
                self._client.unlink(key)

    def puts(self, ptk_id: str, epoch: str) -> int:
        """Return how many reports were put since an epoch began."""
        with _answers():
            return int(self._client.hget(counts_key(ptk_id, epoch), TAKEN) or 0)

    def begin(
        self,
        ptk_id: str,
        begun_for: str,
        instances: Weights,
        *,
        reports: int = 0,
        after_loss: bool = False,
        replaces: Epoch | None = None,
    ) -> Epoch:
        from redis.exceptions import WatchError

        key, fresh = epoch_key(ptk_id), Epoch(secrets.token_hex(8), begun_for)
        packed = {str(place): row.astype(_PACKED).tobytes() for place, row in enumerate(instances)}
        with _answers(), self._client.pipeline() as commands:
            commands.watch(key)
            now = _epoch(commands.get(key))
            if now != replaces and now is not None:
                return now
            commands.multi()
            commands.sadd(PTKS_KEY, ptk_id)
            commands.hset(instances_key(ptk_id, fresh.id), mapping=packed)
            if said := {name: n for name, n in ((_BEFORE, reports), (_AFTER_LOSS, int(after_loss))) if n}:
                commands.hset(counts_key(ptk_id, fresh.id), mapping=said)
            commands.set(key, f"{fresh.id} {fresh.begun_for}")
            if now is not None:
                commands.unlink(*(key(ptk_id, now.id) for key in _OF_AN_EPOCH))
            try:
                commands.execute()
            except WatchError:
                return self.begin(
                    ptk_id, begun_for, instances, reports=reports, after_loss=after_loss, replaces=replaces
                )
            return fresh

    def forget(self, ptk_id: str) -> None:
        """End the epoch of a PTK, and forget its instances."""
        with _answers():
            self._client.srem(PTKS_KEY, ptk_id)  # first: one that is begun meanwhile brings it back
            self._client.unlink(epoch_key(ptk_id))
        self.forget_older(ptk_id)

    def forget_older(self, ptk_id: str) -> None:
        """Forget what a put that was on its way, of a process that died, left of epochs that are over."""
        with _answers():
            found = set(self._client.scan_iter(match=keys_of(ptk_id), count=1000))
            now = _epoch(
                self._client.get(epoch_key(ptk_id))
            )  # after: what was found of others is over for ever
            kept = {epoch_key(ptk_id)}
            if now is not None:
                kept |= {key(ptk_id, now.id) for key in _OF_AN_EPOCH}
            if over := found - {key.encode() for key in kept}:
                self._client.unlink(*over)

    def ptk_ids(self) -> frozenset[str]:
        """Name the PTKs of which an epoch was begun, and not forgotten."""
        with _answers():
            return frozenset(one.decode() for one in self._client.smembers(PTKS_KEY))

    def check(self) -> None:
        """Raise `Refused` if the server may keep what is overwritten."""
        with _answers():
            check_forgets(self._client)

    def close(self) -> None:
        """Give connections back."""
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> Any:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return redis.Redis.from_url(
            self._url,
            socket_timeout=PATIENCE_SECONDS,
            socket_connect_timeout=PATIENCE_SECONDS,
            retry=Retry(NoBackoff(), 1),  # a connection of before a restart; whoever calls tries again later
        )


def _counted(instances: Weights, counts: Counts) -> Counted:
    reports = counts.get(TAKEN, 0) + counts.get(_BEFORE, 0)
    return Counted(instances, reports, bool(counts.get(_AFTER_LOSS)))


def _counts(found: Mapping[bytes, bytes]) -> dict[str, int]:
    return {outcome.decode(): int(count) for outcome, count in found.items()}


def _unpacked(found: Mapping[bytes, bytes], epoch: str, shape: tuple[int, int] | None) -> Weights:
    """Return instances by their places; `UnknownName` if one is missing or of another length, or all are."""
    rows = [found.get(b"%d" % place) for place in range(len(found))]
    sizes = {0 if row is None else len(row) for row in rows}
    if len(sizes) != 1 or 0 in sizes or max(sizes) % _PACKED.itemsize:
        raise UnknownName("epoch", epoch)
    if shape not in (None, (len(rows), max(sizes) // _PACKED.itemsize)):
        raise UnknownName("epoch", epoch)
    packed = np.frombuffer(b"".join(row for row in rows if row is not None), dtype=_PACKED)
    return packed.reshape(len(rows), -1).astype(np.int32)


def _epoch(said: bytes | None) -> Epoch | None:
    if said is None:
        return None
    epoch_id, _, begun_for = said.decode().partition(" ")
    return Epoch(epoch_id, begun_for)


@contextmanager
def _answers() -> Iterator[None]:
    """Raise `Unavailable` where Redis does not answer, or refuses."""
    from redis.exceptions import RedisError

    try:
        yield
    except RedisError:
        raise Unavailable("the devices' Redis does not answer; retry later") from None
