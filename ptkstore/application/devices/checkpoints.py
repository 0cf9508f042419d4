"""Checkpoints of instances, from which an epoch begins after Redis lost them."""

from __future__ import annotations

import hashlib
import secrets

from ptkstore.domain.streams.report_counts import REPORTS_STEP
from ptkstore.errors import CorruptObject, UnknownName, WindowGone
from ptkstore.ports.devices import Counted, DevicePtk, Instances, ReadDevicePtk
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Checkpoints

_DIGEST_CHARACTERS = 64
_COUNT_BYTES = 8
_SWEPT_EVERY = 720  # passes, an hour: it looks at all spent tickets
_EPOCH_CHARACTERS, _RANDOM_BYTES = 8, 4  # of a checkpoint's name: it begins as the id of its epoch


class CheckpointWriter:
    """Writes the instances of PTKs down, each only if they changed since this process did so last.

    Every checkpoint has a key of its own, and the key of the one before is destroyed: whoever kept older files can read
    none of them. Any number of processes may write. The key of the last file is destroyed by nobody, but for a process
    that stood still for long as it wrote: the next one to write finds that out.
    """

    def __init__(
        self, read_ptk: ReadDevicePtk, instances: Instances, checkpoints: Checkpoints, keys: KeyStore
    ) -> None:
        self._read_ptk, self._instances = read_ptk, instances
        self._checkpoints, self._keys = checkpoints, keys
        self._written: dict[str, bytes] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._swept: dict[str, tuple[str, int]] = {}

    def write(self, ptk_id: str) -> None:
        """Write the instances of a PTK down, and destroy the keys of its checkpoints that were overwritten.

        Nothing is written of an epoch that is over, and nothing but k rows of n_weights: the last checkpoint stays.
        """
        epoch = self._instances.epoch(ptk_id)
        if epoch is None:
            return
        try:
            found = self._instances.counted(ptk_id, epoch.id)
            ptk = self._read_ptk(ptk_id)
        except UnknownName:  # over since
            return
        if epoch.begun_for != ptk.begun_for or found.instances.shape != ptk.shape:
            return
        packed = found.instances.astype("<i4").tobytes()
        content = epoch.begun_for.encode() + packed + found.reports.to_bytes(_COUNT_BYTES, "little")
        seen = hashlib.sha256(epoch.id.encode() + content).digest()
        of_epoch = epoch.id[:_EPOCH_CHARACTERS]
        listed = self._names(ptk_id)
        last = self._checkpoints.newest(ptk_id)  # after keys were listed: no later one is among them
        if self._written.get(ptk_id) != seen or last not in listed or not last.startswith(of_epoch):
            before, last = last, of_epoch + secrets.token_hex(_RANDOM_BYTES)
            key = self._keys.make_checkpoint_key(ptk_id, last)
            self._checkpoints.write(ptk_id, last, content, key)
            self._written[ptk_id] = seen
            if before in listed:
                self._keys.destroy_checkpoint(ptk_id, before)
        since_before = listed & self._listed.get(ptk_id, frozenset())  # others are being written, perhaps
        for name in since_before - {last}:
            self._keys.destroy_checkpoint(ptk_id, name)
        self._listed[ptk_id] = listed
        swept, passes = self._swept.get(ptk_id, ("", 0))
        if swept != epoch.id or passes >= _SWEPT_EVERY:
            self._instances.forget_older(ptk_id)
            passes = 0
        self._swept[ptk_id] = (epoch.id, passes + 1)

    def forget(self, ptk_id: str) -> None:
        """Destroy the keys of a PTK's checkpoints, and forget its instances; repeatable."""
        self._instances.forget(ptk_id)
        for name in self._names(ptk_id):
            self._keys.destroy_checkpoint(ptk_id, name)
        self._checkpoints.delete(ptk_id)
        self._written.pop(ptk_id, None)

    def _names(self, ptk_id: str) -> frozenset[str]:
        return frozenset(name for of, name in self._keys.checkpoints() if of == ptk_id)


def start_of(ptk: DevicePtk, *, checkpoints: Checkpoints, keys: KeyStore) -> Counted:
    """Return what an epoch of a PTK begins with: the last checkpoint, else fresh instances around the last version.

    A checkpoint of an epoch that began for something else is not used. Any other one, also one that cannot be read,
    says that instances were lost if no epoch is running. The noise of fresh instances moves their mean as `start_puts`
    reports do. Reports count from the last version on, back to a checkpoint that is older, too. A version rounds its
    number down, so they count from the number farthest from the checkpoint that it may have had.
    """
    from ptklib.draw_discard.instances import start_instances, start_puts

    begin = ptk.start()
    before, content = begin.reports or 0, _read(ptk, checkpoints, keys)
    is_lost = content is not None and content[:_DIGEST_CHARACTERS] in (b"", ptk.begun_for.encode())
    if content and is_lost and (kept := _kept(ptk, content)) is not None:
        reports = before + max(kept.reports - before, before + REPORTS_STEP - 1 - kept.reports)
        return Counted(kept.instances, reports, is_lost)
    fresh = start_instances(ptk.specification, begin.weights)
    return Counted(fresh, before + start_puts(ptk.specification), is_lost)


def _read(ptk: DevicePtk, checkpoints: Checkpoints, keys: KeyStore) -> bytes | None:
    """Return the content of a PTK's checkpoint, nothing of one that cannot be read; None if there is none."""
    name = checkpoints.newest(ptk.ptk_id)
    if (ptk.ptk_id, name) not in keys.checkpoints() or name is None:
        return None
    try:
        return checkpoints.read(ptk.ptk_id, name, keys.checkpoint_key(ptk.ptk_id, name))
    except (CorruptObject, WindowGone):
        return b""


def _kept(ptk: DevicePtk, content: bytes) -> Counted | None:
    """Return the instances of a checkpoint; None if it has others than this PTK's."""
    import numpy as np

    end = _DIGEST_CHARACTERS + 4 * ptk.shape[0] * ptk.shape[1]
    if len(content) not in (end, end + _COUNT_BYTES):
        return None
    packed = np.frombuffer(content[_DIGEST_CHARACTERS:end], dtype="<i4").astype(np.int32)
    reports = int.from_bytes(content[end:], "little")  # an older program wrote none
    return Counted(packed.reshape(ptk.shape), reports)
