"""A paid estimate of the mean loss of a released state on rows that it was not trained on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats, Ints
from ptklib.base import DPEstimator
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import PrivacyLoss, check_epsilon
from ptklib.profiling.estimates import UNITS, LossEstimate
from ptklib.profiling.evaluation import RowValidation
from ptklib.profiling.loss_steps import loss_steps
from ptklib.profiling.risks import RowRisk, WrongAnswers, risk_of
from ptklib.profiling.samples import Examples, ProfileSet
from ptklib.release import Component, ReleasePlan, plan_release
from ptklib.spec import estimator_from_spec

_MASS = "mass"


@dataclass(eq=False, repr=False)
class LossEstimator:
    """Estimate the mean loss of a released state on a test set, once.

    Parameters
    ----------
    ptk : DPEstimator or mapping
        The estimator of the state, or its spec; of a family with a loss of single rows (`risk_of`).
    epsilon : float
        Budget of one `run`.
    metric : {"loss", "accuracy"}
        With "accuracy" the loss of a row is the share of its answers that are wrong; the family predicts classes.

    Notes
    -----
    :Guarantee: epsilon-DP per call of `run`; `LossEstimate` is all that leaves.
    :Unit: the privacy unit that hashes stand for, with all its rows: its loss is the mean over them.
    :Neighbours: add or remove one unit.
    :Mechanism: discrete Laplace on the sums of losses and of what is missing to 1.
    :Sensitivity: L1, `UNITS`: the loss of each unit is clipped to [0, 1] and rounded to whole steps before it is
        added, and the two sums move by `UNITS` together. A row whose loss cannot be computed has the largest, and no
        other row changes.

    The state must not have been trained on rows of the test set; it is a released state, so its own loss was paid.
    """

    ptk: Any
    epsilon: Any
    metric: str = "loss"

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `run`, before any data are read.

        Raises
        ------
        InvalidParameterError
            When the family has no loss of single rows, predicts no class where the metric is an accuracy, or epsilon
            cannot be used.
        """
        self._risk()
        return mass_plan(self.epsilon).loss

    def run(self, state: Any, test_set: ProfileSet) -> LossEstimate:
        """Return the estimate for `state` on all rows of the test set."""
        risk, plan = self._risk(), mass_plan(self.epsilon)
        losses = RowValidation(risk, test_set, test_set.hashes).losses(state)
        return draw_mass(plan, losses)

    def of_losses(self, losses: Floats, units: Ints) -> LossEstimate:
        """Return the estimate from losses of rows that were computed elsewhere, by the code of a team.

        Parameters
        ----------
        losses : ndarray of shape (n_rows,), float64
            The loss of each row of the test set; clipped to [0, 1], 1 where it is no number.
        units : ndarray of shape (n_rows,), integer
            The number of each row's privacy unit, as `ProfileSet.sample` tells it.

        Notes
        -----
        :Guarantee: epsilon-DP if the loss of a row depends on that row and the state alone. Otherwise none: a unit that
            comes or goes may move the losses of all.
        """
        self._risk()
        examples = Examples.of(units, np.ones(len(units), dtype=np.bool_))
        return draw_mass(mass_plan(self.epsilon), examples.per_unit(losses))

    def _risk(self) -> RowRisk:
        if not isinstance(self.ptk, DPEstimator | Mapping):
            raise InvalidParameterError("an estimate is of an estimator or its spec")
        if self.metric not in ("loss", "accuracy"):
            raise InvalidParameterError("an estimate is of a loss or an accuracy")
        estimator = self.ptk if isinstance(self.ptk, DPEstimator) else estimator_from_spec(self.ptk)
        risk = risk_of(estimator)
        return risk if self.metric == "loss" else WrongAnswers(risk)


def mass_plan(epsilon: object) -> ReleasePlan:
    """Return how the sums of losses, and of what is missing to 1, are going to be noised."""
    return plan_release((Component(_MASS, 2, UNITS),), check_epsilon(epsilon), 0)


def draw_mass(plan: ReleasePlan, losses: npt.ArrayLike, loss_bound: float = 1.0) -> LossEstimate:
    """Return the noisy sums for one loss of each privacy unit; each call is a release of its own.

    Parameters
    ----------
    losses : array-like of shape (n_units,)
        As `loss_steps` clips them.
    """
    lost = loss_steps(losses, loss_bound)
    mass = np.array([int(lost.sum()), int((UNITS - lost).sum())], dtype=np.int64)
    noisy = plan.draw({_MASS: mass})[_MASS]
    return LossEstimate(plan.loss.epsilon, int(noisy[0]), int(noisy[1]))
