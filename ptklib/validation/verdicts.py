"""The verdict of a validator: a decision and the numbers that it follows from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any, Self

from ptklib.exceptions import CorruptStateError, InvalidParameterError
from ptklib.scalars import finite_number
from ptklib.validation.looks import Look, check_confidence, check_look

BESIDE = frozenset({"assurance", "asserted_by", "windows", "minimum", "groups"})
"""What a record may say beside a verdict: whose word its losses are, its windows, and further sums of its release."""


class Decision(StrEnum):
    """The decision on a model."""

    ACCEPT = "accept"
    """The model meets its target, with the stated confidence."""
    RETRY = "retry"
    """Nothing was shown: train again with more data or more budget."""
    REJECT = "reject"
    """No model of the class meets the target, with the stated confidence."""


class Metric(StrEnum):
    """The quantity that a target limits."""

    LOSS = "loss"
    """Expected loss of a privacy unit; a smaller loss is better."""
    ACCURACY = "accuracy"
    """Expected share of correct answers of a privacy unit; a larger one is better."""
    ERROR = "error"
    """Error of released statistics; a smaller one is better."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of one look, with its reasons. All of it follows from released numbers.

    Parameters
    ----------
    decision : Decision
    metric : Metric
    target : float
        In the unit of the metric.
    bound : float
        The proved value of the metric: an upper bound of a loss or an error, a lower bound of an accuracy. In
        a verdict about the minimum of a class it is a lower bound of the least loss.
    estimate : float or None
        Estimate of the metric from the same numbers; None when noise hides it.
    confidence : float
        Of all looks together.
    look : int
        Number of the look at this target, from 1.
    failure : float or None
        Probability with which this look may be wrong; None in verdicts of before, where it is
        ``look_failure(confidence, look)``.
    """

    decision: Decision
    metric: Metric
    target: float
    bound: float
    estimate: float | None
    confidence: float
    look: int
    failure: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "decision", Decision(self.decision))
        object.__setattr__(self, "metric", Metric(self.metric))
        for name in ("target", "bound", "estimate", "failure"):
            value = getattr(self, name)
            if value is not None or name not in ("estimate", "failure"):
                object.__setattr__(self, name, finite_number(value, name, InvalidParameterError))
        object.__setattr__(self, "confidence", check_confidence(self.confidence))
        object.__setattr__(self, "look", check_look(self.look))

    @classmethod
    def at_most(
        cls, target: float, bound: float, metric: Metric, look: Look, *, estimate: float | None
    ) -> Self:
        """Return ACCEPT if a loss or an error was shown to be at most the target, and RETRY if not.

        Parameters
        ----------
        bound : float
            The metric is at most that, unless this look is wrong.
        """
        decision = Decision.ACCEPT if bound <= target else Decision.RETRY
        return cls._of_look(
            look, decision=decision, metric=metric, target=target, bound=bound, estimate=estimate
        )

    @classmethod
    def at_least(cls, target: float, bound: float, look: Look, *, estimate: float | None) -> Self:
        """Return ACCEPT if an accuracy was shown to be at least the target, and RETRY if not."""
        decision = Decision.ACCEPT if bound >= target else Decision.RETRY
        metric = Metric.ACCURACY
        return cls._of_look(
            look, decision=decision, metric=metric, target=target, bound=bound, estimate=estimate
        )

    @classmethod
    def out_of_reach(cls, target: float, bound: float, look: Look, *, estimate: float | None) -> Self:
        """Return REJECT if the least loss of a class was shown to be above the target, and RETRY if not."""
        decision = Decision.REJECT if bound > target else Decision.RETRY
        metric = Metric.LOSS
        return cls._of_look(
            look, decision=decision, metric=metric, target=target, bound=bound, estimate=estimate
        )

    @classmethod
    def _of_look(cls, look: Look, **found: Any) -> Self:
        return cls(**found, confidence=look.confidence, look=look.number, failure=look.failure)

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain JSON values."""
        plain = {
            name: str(value) if isinstance(value, StrEnum) else value for name, value in asdict(self).items()
        }
        return {name: value for name, value in plain.items() if name != "failure" or value is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote, also from a record of the store, without what that record adds (`BESIDE`).

        Raises
        ------
        CorruptStateError
            For anything else.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(document, Mapping) or set(document) - BESIDE | {"failure"} != names:
            raise CorruptStateError("a verdict has other fields")
        try:
            return cls(**{name: value for name, value in document.items() if name not in BESIDE})
        except ValueError:
            raise CorruptStateError("a verdict has a value of an unknown form") from None


def joined(accept: Verdict, reject: Verdict) -> Verdict:
    """Return one verdict of two looks at the same target: at the model, and at the minimum of its class.

    Notes
    -----
    A model that meets the target and a class that cannot contradict each other. Then one of the two looks was wrong,
    and the answer is RETRY.
    """
    if accept.target != reject.target or accept.metric != reject.metric:
        raise InvalidParameterError("the two verdicts are about different targets")
    if reject.decision is not Decision.REJECT:
        return accept
    if accept.decision is not Decision.ACCEPT:
        return reject
    return replace(accept, decision=Decision.RETRY)
