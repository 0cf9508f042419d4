"""Validators of a loss and of an accuracy, from the noisy sums of a paid estimate."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.estimates import LossEstimate
from ptklib.scalars import finite_number
from ptklib.validation.bounds import NoisySums, upper_bound_of
from ptklib.validation.looks import Look, check_confidence
from ptklib.validation.verdicts import Metric, Verdict


@dataclass(frozen=True, slots=True)
class LossValidator:
    """Accept a model when its expected loss is within a target, with a stated confidence.

    Parameters
    ----------
    target : float
        Largest expected loss, in (0, `loss_bound`).
    confidence : float
        Probability that no look accepts a model whose expected loss is above the target.
    loss_bound : float
        The largest loss B: each loss was clipped to [0, B] and divided by B before it was added.

    Raises
    ------
    InvalidParameterError
        When a parameter cannot be used.

    Notes
    -----
    A verdict is a function of released sums, so it costs nothing beyond them. It is valid for a model that
    depends on the tested rows through its own verdicts alone.

    References
    ----------
    .. [1] Sage, SOSP'19, Listing 2 and Proposition 3.1. docs/proofs/validation.md says where we differ.
    """

    target: Any
    _: KW_ONLY
    confidence: Any = 0.95
    loss_bound: Any = 1.0

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        bound = finite_number(self.loss_bound, "loss_bound", InvalidParameterError)
        target = finite_number(self.target, "target", InvalidParameterError)
        if bound <= 0:
            raise InvalidParameterError("loss_bound must be positive")
        if not 0 < target < bound:
            raise InvalidParameterError(f"target must be between 0 and {bound:g}, the largest loss")

    def verdict(self, sums: LossEstimate, look: int = 1, spent: float | None = None) -> Verdict:
        """Return ACCEPT or RETRY for the model whose losses were added.

        Parameters
        ----------
        sums : LossEstimate
            Released: what `LossEstimator` or `LossSums` returned.
        look : int
            How many looks at this target there were, with this one.
        spent : float, optional
            The error probability of the looks before this one: the sum of their `failure`. None if all had
            this confidence.
        """
        this, widest = Look.of(self.confidence, look, spent), float(self.loss_bound)
        bound = upper_bound_of(NoisySums.of(sums), this.failure) * widest
        estimate = None if sums.loss is None else sums.loss * widest
        return Verdict.at_most(float(self.target), bound, Metric.LOSS, this, estimate=estimate)


@dataclass(frozen=True, slots=True)
class AccuracyValidator:
    """Accept a model when its expected accuracy reaches a target, with a stated confidence.

    Parameters
    ----------
    target : float
        Least accuracy, in (0, 1): the expected share of correct answers of a privacy unit.
    confidence : float
        Probability that no look accepts a model of less accuracy.

    Notes
    -----
    The sums are those of a loss that is 1 for a wrong answer and 0 for a correct one. So an accuracy of at
    least a is a loss of at most 1 - a.
    """

    target: Any
    _: KW_ONLY
    confidence: Any = 0.95

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if not 0 < finite_number(self.target, "target", InvalidParameterError) < 1:
            raise InvalidParameterError("the target of an accuracy must be in (0, 1)")

    def verdict(self, sums: LossEstimate, look: int = 1, spent: float | None = None) -> Verdict:
        """Return ACCEPT or RETRY for the model whose wrong answers were added; as for `LossValidator`."""
        this = Look.of(self.confidence, look, spent)
        bound = 1 - upper_bound_of(NoisySums.of(sums), this.failure)
        estimate = None if sums.loss is None else 1 - sums.loss
        return Verdict.at_least(float(self.target), bound, this, estimate=estimate)
