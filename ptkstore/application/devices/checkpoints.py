"""Checkpoints of instances, from which an epoch begins after Redis lost them."""

from __future__ import annotations

import hashlib

from ptkstore.errors import CorruptObject, UnknownName, WindowGone
from ptkstore.ports.devices import Counted, DevicePtk, Instances
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Checkpoints

_DIGEST_CHARACTERS = 64
_COUNT_BYTES = 8


class CheckpointWriter:
    """Writes the instances of PTKs down, each only if they changed since this process did so last.

    Any number of processes may. A file that a slow one overwrites with an epoch that is over cannot be read, until the
    next one is written.
    """

    def __init__(self, instances: Instances, checkpoints: Checkpoints, keys: KeyStore) -> None:
        self._instances, self._checkpoints, self._keys = instances, checkpoints, keys
        self._written: dict[str, bytes] = {}

    def write(self, ptk_id: str) -> None:
        """Write the instances of a PTK down, and destroy the keys of its epochs that are over."""
        epoch = self._instances.epoch(ptk_id)
        if epoch is None:
            return
        try:
            found = self._instances.counted(ptk_id, epoch.id)
            packed = found.instances.astype("<i4").tobytes()
            content = epoch.begun_for.encode() + packed + found.puts.to_bytes(_COUNT_BYTES, "little")
            seen = hashlib.sha256(epoch.id.encode() + content).digest()
            if self._written.get(ptk_id) != seen:
                key = self._keys.checkpoint_key(ptk_id, epoch.id)
                self._checkpoints.write(ptk_id, epoch.id, content, key)
                self._written[ptk_id] = seen
        except (UnknownName, WindowGone):  # over since
            return
        self._forget_older(ptk_id, epoch.id)

    def forget(self, ptk_id: str) -> None:
        """Destroy the keys of a PTK's checkpoints, and forget its instances; repeatable."""
        self._instances.forget(ptk_id)
        for one, epoch in self._keys.checkpoints():
            if one == ptk_id:
                self._keys.destroy_checkpoint(ptk_id, epoch)
        self._checkpoints.delete(ptk_id)
        self._written.pop(ptk_id, None)

    def _forget_older(self, ptk_id: str, epoch: str) -> None:
        """Destroy keys that were there before this epoch was seen to go on: none of them is a later one's."""
        self._instances.forget_older(ptk_id)
        older = [one for of, one in self._keys.checkpoints() if of == ptk_id and one != epoch]
        now = self._instances.epoch(ptk_id)
        if now is not None and now.id == epoch:
            for one in older:
                self._keys.destroy_checkpoint(ptk_id, one)


def start_of(ptk: DevicePtk, *, checkpoints: Checkpoints, keys: KeyStore) -> Counted:
    """Return what an epoch of a PTK begins with: the last checkpoint, else fresh instances around the last version.

    A checkpoint of an epoch that began for something else is not used. The noise of fresh instances moves their mean as
    `start_puts` reports do. Reports count from the last version on, back to a checkpoint that is older, too.
    """
    from ptklib.draw_discard.instances import start_instances, start_puts

    begin = ptk.start()
    before = begin.reports or 0
    if (kept := _checkpoint(ptk, checkpoints, keys)) is not None:
        return Counted(kept.instances, before + abs(kept.puts - before))
    fresh = start_instances(ptk.specification, begin.weights)
    return Counted(fresh, before + start_puts(ptk.specification))


def _checkpoint(ptk: DevicePtk, checkpoints: Checkpoints, keys: KeyStore) -> Counted | None:
    import numpy as np

    epoch = checkpoints.epoch(ptk.ptk_id)
    if (ptk.ptk_id, epoch) not in keys.checkpoints() or epoch is None:
        return None
    try:
        content = checkpoints.read(ptk.ptk_id, epoch, keys.checkpoint_key(ptk.ptk_id, epoch))
    except (CorruptObject, WindowGone):
        return None
    specification = ptk.specification
    if content[:_DIGEST_CHARACTERS].decode() != ptk.begun_for:
        return None
    shape = (specification.k, specification.n_weights)
    end = _DIGEST_CHARACTERS + 4 * shape[0] * shape[1]
    packed = np.frombuffer(content[_DIGEST_CHARACTERS:end], dtype="<i4").astype(np.int32)
    puts = int.from_bytes(content[end:], "little")  # an older program wrote none
    return Counted(packed.reshape(shape), puts)
