"""The knowledge of a process about a PTK that devices train, so that a draw or put asks no catalog."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ptkstore.application.devices.epochs import Beginning, read_epoch
from ptkstore.ports.devices import DevicePtk, Epoch, Instances, ReadDevicePtk

if TYPE_CHECKING:
    from ptklib.draw_discard.instances import Instances as Weights
    from ptklib.draw_discard.instances import RecentRanges

REFUSED_RATE = 1e-6
"""Share of honest reports that are refused at most."""

PUTS_LEAST, PUTS_MAX = 2**7, 2**14
PUTS_MARGIN = 4
"""That holds until a model is read anew if no more reports are put meanwhile than so many times those of the time
before, and at least and at most so many. The more reports there may be, the wider is the range around the instances
that honest reports are within, and the more poison is taken for one."""

RANGES_KEPT = 60
"""And how many refreshes ago a report may have been drawn."""

SpamTest = Literal["length", "range", "norm"]
"""A test that a report failed; counted, and told to nobody who sends."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as a process serves it for about a second.

    Parameters
    ----------
    ptk_id, stream : str
    epoch : str
        Its id.
    k, n_bytes : int
        Number of instances, and bytes of each.
    digest : str
        Of the specification.
    document : bytes
        The specification for devices, JSON.
    honest : RecentRanges
        Around the instances of now and of a while ago.
    puts : int
        Reports of the epoch that were put before it was read.
    """

    ptk_id: str
    stream: str
    epoch: str
    k: int
    n_bytes: int
    digest: str
    document: bytes
    honest: RecentRanges
    puts: int

    def failed_test(self, report: bytes, *, older: bool = True) -> SpamTest | None:
        """Return which test a report fails; None if it may be an honest one.

        Without the `older` ranges it takes a sixtieth of the time, and refuses some that they admit.
        """
        import numpy as np

        from ptklib.draw_discard.specification import WEIGHT_MAX

        if len(report) != self.n_bytes:
            return "length"
        weights = np.frombuffer(report, dtype="<i4")
        if (weights < -WEIGHT_MAX).any():
            return "range"
        return self.honest.refusal(weights, older=older)


def read_served(
    ptk_id: str,
    before: ServedModel | None = None,
    *,
    read_ptk: ReadDevicePtk,
    instances: Instances,
    start: Beginning,
) -> ServedModel:
    """Read what is served of a PTK from now on; `UnknownName` if devices do not train it.

    Parameters
    ----------
    ptk_id : str
    before : ServedModel or None
        The models that were served until now: reports that were drawn then are taken for a while.
    read_ptk : callable
        Reads the PTK afresh.
    instances : Instances
    start : callable
        Makes the instances that a new epoch begins with.
    """

    def read(ptk: DevicePtk, epoch: Epoch) -> tuple[int, Weights]:
        return instances.puts(ptk_id, epoch.id), instances.all(ptk_id, epoch.id, shape=ptk.shape)

    ptk, epoch, found = read_epoch(ptk_id, read, read_ptk=read_ptk, instances=instances, start=start)
    return _served(ptk, epoch, *found, before)


def puts_allowed_for(lately: int) -> int:
    """Return for how many puts to come a range is made, when so many were put in the time before: a power of two."""
    most = min(PUTS_MAX, max(PUTS_LEAST, PUTS_MARGIN * lately))
    return 1 << (most - 1).bit_length()


def _served(
    ptk: DevicePtk, epoch: Epoch, puts: int, weights: Weights, before: ServedModel | None
) -> ServedModel:
    from ptklib.draw_discard.instances import HonestRange, RecentRanges

    specification = ptk.specification
    if before is not None and before.epoch == epoch.id:
        ranges, lately = before.honest, puts - before.puts
    else:
        ranges, lately = RecentRanges(RANGES_KEPT), 0
    ranges.add(HonestRange.of(specification, weights, REFUSED_RATE, n_puts=puts_allowed_for(lately)))
    return ServedModel(
        ptk_id=ptk.ptk_id,
        stream=ptk.stream,
        epoch=epoch.id,
        k=specification.k,
        n_bytes=4 * specification.n_weights,
        digest=specification.digest,
        document=_document(ptk).encode(),
        honest=ranges,
        puts=puts,
    )


def _document(ptk: DevicePtk) -> str:
    return json.dumps(
        {
            "specification": ptk.specification.text,  # clients hash it as it comes
            "digest": ptk.specification.digest,
            "stream": ptk.stream,
            "ptk": ptk.ptk_id,
            "window": {"number": ptk.window, "ends": ptk.window_ends.isoformat()},
            "limits": {
                "report_epsilon": ptk.report_epsilon,
                "reports_per_window": ptk.reports_per_window,
                "reports_in_all": ptk.reports_in_all,
            },
        }
    )
