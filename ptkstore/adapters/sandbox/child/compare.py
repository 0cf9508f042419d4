"""The child's work on a profile set: rows and a released state in, one bit of a threshold or a noisy sum out."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.child.rows import unit_rows
from ptkstore.errors import CorruptObject
from ptkstore.ports.keys import Sealer
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import Compared, CompareRequest, NoisyLosses, ReleaseRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def compare(request: CompareRequest, raw: RawZone, sealer: Sealer) -> Compared:
    """Open the profile set, and compare the losses of the state on it with a noisy threshold.

    The secret of the threshold is in the clear inside this process alone.

    Raises
    ------
    CorruptObject
        The secret does not open, or is that of a threshold which cost something else.
    """
    from ptklib.mechanisms.threshold import DrawnThreshold  # loads what noise is drawn with
    from ptklib.significance import LossSignificance

    significance = LossSignificance(request.epsilon)
    key = sealing_key(request)
    if request.sealed is None:
        threshold = DrawnThreshold.draw(significance.comparison, pay=_paid_before)
    else:
        threshold = DrawnThreshold.restore(sealer.open(key, request.sealed, request.name))
        if threshold.comparison != significance.comparison:
            raise CorruptObject("the secret is that of another threshold")
    above = threshold.is_above(significance.ahead(_losses(request, raw), request.line))
    return Compared(above, None if above else sealer.seal(key, threshold.secret(), request.name))


def release(request: ReleaseRequest, raw: RawZone) -> NoisyLosses:
    """Open the profile set, and release the losses of the state on it, added, with noise."""
    from ptklib.significance import LossSignificance  # loads what noise is drawn with

    significance = LossSignificance(request.epsilon)
    return NoisyLosses(significance.release(_losses(request, raw), pay=_paid_before))


def _losses(request: CompareRequest | ReleaseRequest, raw: RawZone) -> npt.NDArray[np.float64]:
    """One loss of each privacy unit. They are private."""
    from ptklib.profiling.evaluation import RowValidation  # loads every family
    from ptklib.profiling.risks import risk_of

    estimator = estimator_from_spec(request.estimator)
    columns = tuple(dict.fromkeys(estimator.input_columns()))
    rows = unit_rows(request.rows, raw, columns, population=1)
    return RowValidation(risk_of(estimator), rows, rows.hashes).losses(
        ReleasedState.from_files(request.state)
    )


def sealing_key(request: CompareRequest) -> bytes:
    """Return one key made of the window's and the threshold's own, so that the end of either ends the secret."""
    (window,) = request.rows
    return hashlib.sha256(b"ptk threshold\0" + window.window_key + request.threshold_key).digest()


def _paid_before(_: object) -> None:
    """The run spent the loss before it asked for the key of the rows."""
