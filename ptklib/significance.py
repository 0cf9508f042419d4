"""How much a block teaches a model: the clipped losses of its rows, compared or released with noise.

Data that a released model predicts badly teaches the PTK most. The significance of a block is the sum of the
model's losses on it, each clipped to [0, `loss_bound`] and counted in parts of that. So it is between 0 and
the number of privacy units, and one unit moves it by 1 at most (budgeting paper, sections IV-B and VI-A).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ptklib.events import DiscreteLaplace
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms.additive import laplace, laplace_scale
from ptklib.mechanisms.comparisons import Comparison
from ptklib.privacy import PrivacyLoss
from ptklib.profiling.estimates import UNITS
from ptklib.profiling.loss_steps import loss_steps
from ptklib.scalars import finite_number, float_above, positive_fraction

_MOST = 2**62 / UNITS


@dataclass(frozen=True, slots=True)
class LossSignificance:
    """The significance of blocks by the losses of a released model.

    Parameters
    ----------
    epsilon : float or Fraction
        Budget of one noisy threshold, or of one release.
    loss_bound : float
        The largest loss B, public.

    Notes
    -----
    :Guarantee: epsilon-DP for the answers of one noisy threshold of `comparison`, and for each call of `release`.
    :Unit: the privacy unit of one loss. A unit of several rows gives the mean of their losses.
    :Neighbours: add or remove one unit.
    :Sensitivity: 1 clipped loss. All sums grow with one more unit, so comparisons are monotonic.

    The paper compares ``p / (cost)`` with T. Here ``p`` is compared with ``T * cost``, both in clipped losses: the same
    comparison, with noise whose scale in the ratio is that of the sensitivity 1 / cost. Costs are public, so one noisy
    threshold serves queries of different costs. The model must be a released one.
    """

    epsilon: float | Fraction
    loss_bound: float = 1.0

    def __post_init__(self) -> None:
        positive_fraction(self.epsilon, "epsilon")
        if finite_number(self.loss_bound, "loss_bound", InvalidParameterError) <= 0:
            raise InvalidParameterError("loss_bound must be positive")

    @property
    def comparison(self) -> Comparison:
        """How `ahead` is compared with 0."""
        return Comparison(UNITS, self.epsilon, monotonic=True)

    @property
    def loss(self) -> PrivacyLoss:
        """What `release` costs."""
        exact = positive_fraction(self.epsilon, "epsilon")
        event = DiscreteLaplace(
            scale=laplace_scale(l1_sensitivity=UNITS, epsilon=exact), l1_sensitivity=UNITS, shape=(1,)
        )
        return PrivacyLoss(float_above(exact), 0.0, event)

    def units(self, losses: npt.ArrayLike) -> int:
        """Return the exact significance in steps. It is private.

        Parameters
        ----------
        losses : array-like of shape (n_units,)
            One loss of each privacy unit; not a number counts as the largest.
        """
        return int(loss_steps(losses, self.loss_bound).sum())

    def ahead(self, losses: npt.ArrayLike, line: float) -> int:
        """Return by how many steps the significance is above a public line. It is private: compare it with noise.

        Parameters
        ----------
        line : float
            In clipped losses: the threshold T times the cost of the query.
        """
        return self.units(losses) - line_units(line)

    def release(self, losses: npt.ArrayLike, *, pay: Callable[[PrivacyLoss], object]) -> float:
        """Pay, and return the significance with noise, in clipped losses. Numbers computed from it cost nothing."""
        pay(self.loss)
        exact = np.array([self.units(losses)], dtype=np.int64)
        return float(laplace(exact, l1_sensitivity=UNITS, epsilon=self.epsilon)[0] / UNITS)


def line_units(line: float) -> int:
    """Return a public line in steps, rounded up."""
    checked = finite_number(line, "line", InvalidParameterError)
    return math.ceil(min(max(checked, -_MOST), _MOST) * UNITS)
