"""REJECT: no model of a class can meet a target. It is shown for exact minimisers of the training loss alone."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ptklib.base import DPEstimator
from ptklib.events import Composed, Parallel
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import PrivacyLoss, check_epsilon
from ptklib.profiling.comparison import ROUNDING
from ptklib.profiling.estimates import UNITS, LossEstimate
from ptklib.profiling.evaluation import least_total_of
from ptklib.profiling.risks import ExactRisk, risk_of
from ptklib.profiling.samples import ProfileSet
from ptklib.release import Component, ReleasePlan, plan_release
from ptklib.spec import estimator_from_spec
from ptklib.validation.bounds import NoisySums, upper_bound_of
from ptklib.validation.looks import Look
from ptklib.validation.loss import LossValidator
from ptklib.validation.verdicts import Verdict

_MASS = "mass"

MINIMUM_SENSITIVITY = UNITS + 2 * ROUNDING
"""What one unit moves the two sums together, in steps: a loss of 1, and twice the rounding of the minimum."""


@dataclass(eq=False, repr=False)
class MinimumSums:
    """Release noisy sums of the least training loss over a class of models.

    Parameters
    ----------
    ptk : DPEstimator or mapping
        The estimator, or its spec, of a family whose least loss is computed exactly (`ExactRisk`).
    epsilon : float
        Budget of one `run`.

    Notes
    -----
    :Guarantee: epsilon-DP per call of `run`; `LossEstimate` is all that leaves.
    :Unit: the privacy unit that hashes stand for, with all its rows.
    :Neighbours: add or remove one unit.
    :Mechanism: discrete Laplace on the least sum of losses and on what is missing in it to the largest sum.
    :Sensitivity: L1, `MINIMUM_SENSITIVITY`. One more unit adds at least 0 and at most `loss_max` to the least sum,
        because the sum is the exact minimum. A heuristic's sum could change by any amount, so none is read.
    """

    ptk: Any
    epsilon: Any

    @property
    def loss_bound(self) -> float:
        """Largest loss of a unit in the class. Sums are in parts of it."""
        return max(float(self._risk().loss_max), 1.0)

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `run`, before any data are read.

        Raises
        ------
        InvalidParameterError
            When the family has no exact minimum, or epsilon cannot be used.
        """
        self._risk()
        return self._plan().loss

    def run(self, train_set: ProfileSet) -> LossEstimate:
        """Return the noisy sums for all rows of a set, in parts of `loss_bound`."""
        plan = self._plan()
        table, units = train_set.sample(train_set.hashes)
        total, n_units = least_total_of(self._risk(), table, units)
        most = n_units * UNITS
        lost = min(max(math.floor(total / self.loss_bound * UNITS), 0), most)
        noisy = plan.draw({_MASS: np.array([lost, most - lost], dtype=np.int64)})[_MASS]
        return LossEstimate(plan.loss.epsilon, int(noisy[0]), int(noisy[1]))

    def _risk(self) -> ExactRisk:
        estimator = self.ptk if isinstance(self.ptk, DPEstimator) else estimator_from_spec(self.ptk)
        risk = risk_of(estimator)
        if not isinstance(risk, ExactRisk):
            raise InvalidParameterError(
                f"{type(estimator).__name__} has no exact minimum of its loss, so nothing can be rejected"
            )
        return risk

    def _plan(self) -> ReleasePlan:
        return plan_release((Component(_MASS, 2, MINIMUM_SENSITIVITY),), check_epsilon(self.epsilon), 0)


@dataclass(frozen=True, slots=True)
class MinimumValidator:
    """Reject a target when no model of a class can reach it, with a stated confidence.

    Parameters
    ----------
    target : float
        Largest expected loss, in (0, `loss_bound`).
    confidence : float
        Probability that no look rejects a target that some model of the class meets.
    loss_bound : float
        The largest loss of a model of the class: `MinimumSums.loss_bound`.
    exact_minimiser : bool
        The caller's word that the sums are the exact least training loss over the class.

    Raises
    ------
    InvalidParameterError
        When a parameter cannot be used, or the minimum is not exact.

    Notes
    -----
    The exact least loss on the training rows is at most the loss of the best model of the class on these rows. So a
    large minimum refutes the target for each model. The training loss of a heuristic has no such bound.

    References
    ----------
    .. [1] docs/proofs/validation.md.
    """

    target: Any
    _: KW_ONLY
    exact_minimiser: bool
    confidence: Any = 0.95
    loss_bound: Any = 1.0

    def __post_init__(self) -> None:
        if self.exact_minimiser is not True:
            raise InvalidParameterError(
                "only an exact minimum of the training loss can reject a target: a heuristic's loss bounds nothing"
            )
        LossValidator(self.target, confidence=self.confidence, loss_bound=self.loss_bound)

    def verdict(self, sums: LossEstimate, look: int = 1, spent: float | None = None) -> Verdict:
        """Return REJECT or RETRY for the class whose least losses were added.

        Parameters
        ----------
        sums : LossEstimate
            Released: what `MinimumSums` returned.
        look : int
            How many looks at this target there were, with this one.
        spent : float, optional
            As for `LossValidator`.
        """
        this, widest = Look.of(self.confidence, look, spent), float(self.loss_bound)
        noisy = NoisySums.of(sums, MINIMUM_SENSITIVITY)
        bound = (1 - upper_bound_of(noisy.swapped(), this.failure)) * widest
        estimate = None if sums.loss is None else sums.loss * widest
        return Verdict.out_of_reach(float(self.target), bound, this, estimate=estimate)


def validation_loss(accept: PrivacyLoss, reject: PrivacyLoss, *, same_rows: bool) -> PrivacyLoss:
    """Return what the looks for ACCEPT and for REJECT cost together.

    Parameters
    ----------
    same_rows : bool
        Whether one privacy unit may be in the rows of both. Say False for rows that are disjoint by the keyed hash of
        the unit, and for no others.

    Notes
    -----
    Basic composition adds epsilons and deltas. Parallel composition takes the largest of each, for add/remove
    neighbours.
    """
    both = (accept.event, reject.event)
    if same_rows:
        return PrivacyLoss(
            accept.epsilon + reject.epsilon, accept.delta + reject.delta, Composed(events=both)
        )
    return PrivacyLoss(
        max(accept.epsilon, reject.epsilon), max(accept.delta, reject.delta), Parallel(events=both)
    )
