"""Team code: losses of rows that the team's own code says, brought into a range that noise is made for."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Bools, Floats
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.risks.base import RowRisk
from ptklib.tables import n_rows
from ptklib.team import TeamCode


class TeamRisk(RowRisk):
    """The losses of team code as far as they are known without its code: their range.

    A subclass computes them where the code is run.

    Parameters
    ----------
    estimator : TeamCode
        With `row_losses`.

    Raises
    ------
    InvalidParameterError
        It has none.

    Notes
    -----
    :Guarantee: asserted. That a row's loss depends on that row and the state alone is the word of the code's owner.
    """

    def __init__(self, estimator: TeamCode) -> None:
        self.largest = estimator.largest_loss()

    def examples(self, table: Any) -> Bools:
        """Return that all rows count: which do not is for the code to say, by a loss of 0."""
        return np.ones(n_rows(table), dtype=np.bool_)

    def losses(self, state: Any, table: Any) -> Floats:
        """Raise: the code is not here."""
        raise InvalidParameterError("the losses of team code are computed by its code, which is not run here")


def clipped_losses(losses: npt.ArrayLike, largest: float) -> Floats:
    """Return losses that code nobody trusts has said, each clipped to [0, largest] and divided by it.

    Parameters
    ----------
    losses : array-like of shape (n_rows,)
        Any numbers. One that is not finite becomes the largest loss.
    largest : float
        B of Sage (SOSP'19): positive and public.

    Returns
    -------
    ndarray of shape (n_rows,), float64
        Each in [0, 1], whatever the numbers are: a row adds to a sum at most 1, and takes nothing off.
    """
    values = np.asarray(losses, dtype=np.float64)
    sound = np.where(np.isfinite(values), values, largest)
    return np.clip(np.clip(sound, 0.0, largest) / largest, 0.0, 1.0)
