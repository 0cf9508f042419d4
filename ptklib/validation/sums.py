"""Noisy sums of losses that a caller computed, for a validator."""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import PrivacyLoss
from ptklib.profiling.estimates import LossEstimate
from ptklib.profiling.estimation import draw_mass, mass_plan
from ptklib.scalars import finite_number


@dataclass(frozen=True, slots=True)
class LossSums:
    """Release the noisy sums of losses of a model on rows that it was not trained on.

    Parameters
    ----------
    epsilon : float
        Budget of one `run`.
    loss_bound : float
        The largest loss B, public. The validator needs the same.

    Notes
    -----
    :Guarantee: epsilon-DP per call of `run`; `LossEstimate` is all that leaves.
    :Unit: the privacy unit of one loss. A unit of several rows gives the mean of their clipped losses.
    :Neighbours: add or remove one unit.
    :Mechanism: discrete Laplace on the sums of losses and of what is missing to B, in parts of B.
    :Sensitivity: L1, 1: each loss is clipped to [0, B] before it is added. Clipping a sum would bound nothing.

    The guarantee is about rows, so the loss of a unit may depend on its own rows and on released numbers alone.
    """

    epsilon: Any
    loss_bound: Any = 1.0

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `run`, before any data are read.

        Raises
        ------
        InvalidParameterError
            When epsilon or the bound cannot be used.
        """
        self._bound()
        return mass_plan(self.epsilon).loss

    def run(self, losses: npt.ArrayLike) -> LossEstimate:
        """Return the noisy sums, in parts of `loss_bound`.

        Parameters
        ----------
        losses : array-like of shape (n_units,)
            One loss of each privacy unit; not a number counts as the largest.
        """
        bound, plan = self._bound(), mass_plan(self.epsilon)
        return draw_mass(plan, losses, bound)

    def _bound(self) -> float:
        bound = finite_number(self.loss_bound, "loss_bound", InvalidParameterError)
        if bound <= 0:
            raise InvalidParameterError("loss_bound must be positive")
        return bound
