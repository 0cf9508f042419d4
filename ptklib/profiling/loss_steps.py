"""Losses in whole steps: they are clipped and rounded one by one before they are added, so that sums are exact."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Ints
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.estimates import UNITS


def loss_steps(losses: npt.ArrayLike, loss_bound: float = 1.0) -> Ints:
    """Return each loss in steps of a `UNITS`-th of `loss_bound`.

    Parameters
    ----------
    losses : array-like of shape (n_units,)
        One loss of each privacy unit, clipped to [0, `loss_bound`]. Not a number counts as the largest.
    """
    values = np.asarray(losses, dtype=np.float64)
    if values.ndim != 1:
        raise InvalidParameterError("losses must be a vector, with one loss of each privacy unit")
    parts = values / loss_bound
    sound = np.clip(np.where(np.isnan(parts), 1.0, parts), 0.0, 1.0)
    return np.asarray(np.rint(sound * UNITS), dtype=np.int64)
