"""The epoch of a PTK: the running one, or a new one. Nobody else begins one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ptkstore.errors import Refused, Unavailable, UnknownName
from ptkstore.ports.devices import Counted, DevicePtk, Epoch, Instances, ReadDevicePtk

Beginning = Callable[[DevicePtk], Counted]
"""Makes the instances that an epoch begins with."""

Found = TypeVar("Found")

_TRIES = 3


def epoch_of(
    ptk_id: str, *, read_ptk: ReadDevicePtk, instances: Instances, start: Beginning
) -> tuple[DevicePtk, Epoch]:
    """Return a PTK and its epoch, begun if there is none for what the PTK is now: `DevicePtk.begun_for`.

    The catalog is read after the epoch: who finds that a specification was replaced never brings it back.

    Raises
    ------
    Unavailable
        When others change the PTK at the same time, or the server of instances may keep what is overwritten.
    """
    for _ in range(_TRIES):
        seen = instances.epoch(ptk_id)
        ptk = read_ptk(ptk_id)
        if seen is None or seen.begun_for != ptk.begun_for:
            seen = begin_epoch(ptk, seen, instances=instances, start=start)
        if seen.begun_for == ptk.begun_for:
            return ptk, seen
    raise Unavailable(f"PTK {ptk_id} is being changed; retry later")


def read_epoch(
    ptk_id: str,
    read: Callable[[DevicePtk, Epoch], Found],
    *,
    read_ptk: ReadDevicePtk,
    instances: Instances,
    start: Beginning,
) -> tuple[DevicePtk, Epoch, Found]:
    """Return a PTK, its epoch and what is read of that; it begins anew where reading raises `UnknownName`.

    Raises
    ------
    Unavailable
        As `epoch_of`, and when instances are lost as often as they are begun.
    """
    for _ in range(_TRIES):
        ptk, epoch = epoch_of(ptk_id, read_ptk=read_ptk, instances=instances, start=start)
        try:
            return ptk, epoch, read(ptk, epoch)
        except UnknownName:  # lost, or over since
            begin_epoch(ptk, epoch, instances=instances, start=start)
    raise Unavailable(f"the instances of PTK {ptk_id} were lost a moment ago; retry later")


def begin_epoch(ptk: DevicePtk, replaces: Epoch | None, *, instances: Instances, start: Beginning) -> Epoch:
    """Begin an epoch in place of the one that was seen; return the one that there is then.

    Instances were lost if the one that was seen is for the same, or if none was seen and there is a checkpoint of one.
    """
    try:
        instances.check()
    except Refused:
        raise Unavailable(
            "the devices' Redis may keep what is overwritten; the operator finds out why by `ptk up`"
        ) from None
    begun = start(ptk)
    return instances.begin(
        ptk.ptk_id,
        ptk.begun_for,
        begun.instances,
        reports=begun.reports,
        after_loss=begun.after_loss if replaces is None else replaces.begun_for == ptk.begun_for,
        replaces=replaces,
    )
