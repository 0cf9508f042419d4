"""The epoch of a PTK: the one that goes on, or a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ptkstore.ports.devices import DevicePtk, Epoch, Instances, ReadDevicePtk

if TYPE_CHECKING:
    from ptklib.draw_discard.instances import Instances as Weights

Start = Callable[[DevicePtk], "Weights"]
"""Makes the instances that an epoch begins with."""


def epoch_of(
    ptk_id: str, *, read_ptk: ReadDevicePtk, instances: Instances, start: Start
) -> tuple[DevicePtk, Epoch]:
    """Return a PTK and its epoch, begun if there is none of its specification.

    The catalog is read after the epoch: who finds that a specification was replaced never brings it back.
    """
    seen = instances.epoch(ptk_id)
    ptk = read_ptk(ptk_id)
    digest = ptk.specification.digest
    if seen is not None and seen.specification == digest:
        return ptk, seen
    begun = instances.begin(ptk_id, digest, start(ptk), replaces=seen)
    return (ptk, begun) if begun.specification == digest else (read_ptk(ptk_id), begun)
