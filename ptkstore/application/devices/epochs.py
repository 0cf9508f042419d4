"""The epoch of a PTK: the one that goes on, or a new one."""

from __future__ import annotations

from collections.abc import Callable

from ptkstore.ports.devices import Counted, DevicePtk, Epoch, Instances, ReadDevicePtk

Beginning = Callable[[DevicePtk], Counted]
"""Makes the instances that an epoch begins with."""


def epoch_of(
    ptk_id: str, *, read_ptk: ReadDevicePtk, instances: Instances, start: Beginning
) -> tuple[DevicePtk, Epoch]:
    """Return a PTK and its epoch, begun if there is none of its specification, or if an average of it was refused.

    The catalog is read after the epoch: who finds that a specification was replaced never brings it back.
    """
    seen = instances.epoch(ptk_id)
    ptk = read_ptk(ptk_id)
    if seen is not None and seen.begun_for == ptk.begun_for:
        return ptk, seen
    begun = begin_epoch(ptk, seen, instances=instances, start=start)
    return (ptk, begun) if begun.begun_for == ptk.begun_for else (read_ptk(ptk_id), begun)


def begin_epoch(ptk: DevicePtk, replaces: Epoch | None, *, instances: Instances, start: Beginning) -> Epoch:
    """Begin an epoch in place of the one that was seen; return the one that there is then."""
    begun = start(ptk)
    return instances.begin(ptk.ptk_id, ptk.begun_for, begun.instances, puts=begun.puts, replaces=replaces)
