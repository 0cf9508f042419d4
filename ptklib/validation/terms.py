"""The test that a PTK asks for: `accept={"metric": ..., "epsilon": ...}`, and its other fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import check_epsilon
from ptklib.profiling.risks import WrongAnswers, bounds_every_state, risk_of
from ptklib.validation.errors import ErrorValidator
from ptklib.validation.groups import GroupSums
from ptklib.validation.looks import DEFAULT_CONFIDENCE, check_confidence
from ptklib.validation.loss import AccuracyValidator, LossValidator
from ptklib.validation.minimum import MinimumSums, MinimumValidator
from ptklib.validation.verdicts import Metric

GROUPS_MOST = 1_000
"""Groups of an error, at most: a verdict holds the sums of each."""

_FIELDS = ("metric", "confidence", "epsilon", "reject_epsilon")


@dataclass(frozen=True, slots=True)
class AcceptTerms:
    """Metric, confidence and epsilons of a validation.

    Parameters
    ----------
    metric : Metric
    confidence : float
        In (0, 1), of all looks together.
    epsilon : float
        The loss for the sums of a model's losses in one look.
    reject_epsilon : float, optional
        The additional loss for the sums of the least losses of its class; None if nothing is ever rejected.
    """

    metric: Metric
    confidence: float
    epsilon: float
    reject_epsilon: float | None = None

    @classmethod
    def of(cls, given: object) -> Self:
        """Read terms as a developer writes them; the confidence is .95 unless it is said.

        Raises
        ------
        InvalidParameterError
            For other fields, an unknown metric, a confidence outside (0, 1) or an epsilon that cannot be spent.
        """
        if not isinstance(given, Mapping) or not {"metric", "epsilon"} <= set(given) <= set(_FIELDS):
            raise InvalidParameterError(
                'accept names what is validated, as {"metric": "loss", "confidence": 0.95, "epsilon": 0.05}'
            )
        known = {str(metric): metric for metric in Metric}
        metric = known.get(given["metric"]) if isinstance(given["metric"], str) else None
        if metric is None:
            raise InvalidParameterError(f"the metric of accept is one of {', '.join(known)}")
        confidence = check_confidence(given.get("confidence", DEFAULT_CONFIDENCE))
        reject = check_epsilon(given["reject_epsilon"]) if "reject_epsilon" in given else None
        return cls(metric, confidence, check_epsilon(given["epsilon"]), reject)

    def to_json(self) -> dict[str, Any]:
        """Return the terms as plain JSON values, which `of` reads."""
        plain = {"metric": str(self.metric), "confidence": self.confidence, "epsilon": self.epsilon}
        return plain if self.reject_epsilon is None else {**plain, "reject_epsilon": self.reject_epsilon}

    def validator(self, target: object) -> LossValidator | AccuracyValidator:
        """Return the validator of the target of a loss or an accuracy.

        Raises
        ------
        InvalidParameterError
            When the target cannot be used, or the metric has no validator of noisy sums.
        """
        if self.metric is Metric.LOSS:
            return LossValidator(target, confidence=self.confidence)
        if self.metric is Metric.ACCURACY:
            return AccuracyValidator(target, confidence=self.confidence)
        raise InvalidParameterError("an error is validated by ErrorValidator, from the sums of its statistic")

    def error_validator(self, target: object, sums: GroupSums) -> ErrorValidator:
        """Return the validator of the target of an error, for the sums of its statistic."""
        return ErrorValidator(target, bounds=sums.bounds, confidence=self.confidence)

    def check_target(self, target: object, estimator: Any) -> None:
        """Raise `InvalidParameterError` for a target that the metric of an estimator cannot have."""
        if self.metric is Metric.ERROR:
            self.error_validator(target, GroupSums(estimator, self.epsilon))
        else:
            self.validator(target)

    def minimum_validator(self, target: object) -> MinimumValidator:
        """Return the validator of the least losses of a class that passed `check_family`, for the same target."""
        return MinimumValidator(target, exact_minimiser=True, confidence=self.confidence)

    def check_family(self, estimator: Any) -> None:
        """Refuse an estimator without what the metric measures: a loss of single rows, or a predicted class.

        With `reject_epsilon` the least losses are needed too: exact, and over a class that contains every
        released model.

        Raises
        ------
        InvalidParameterError
            With the reason.
        """
        if self.metric is Metric.ERROR:
            self._check_groups(estimator)
            return
        risk = risk_of(estimator)
        if self.metric is Metric.ACCURACY:
            try:
                WrongAnswers(risk)
            except InvalidParameterError:
                raise InvalidParameterError(
                    f"{type(estimator).__name__} predicts no class of a row here, so it has no accuracy: "
                    "use the metric 'loss'"
                ) from None
        if self.reject_epsilon is not None:
            self._check_class(estimator)

    def _check_groups(self, estimator: Any) -> None:
        if self.reject_epsilon is not None:
            self._check_class(estimator)
        try:
            n_groups = GroupSums(estimator, self.epsilon).n_groups
        except InvalidParameterError as error:
            raise InvalidParameterError(f"{error}: use the metric 'loss'") from None
        if n_groups > GROUPS_MOST:
            raise InvalidParameterError(
                f"an error is validated in {GROUPS_MOST:,} groups at most, and there are {n_groups:,}"
            )

    def _check_class(self, estimator: Any) -> None:
        if self.metric is not Metric.LOSS:
            raise InvalidParameterError(
                f"an {self.metric} has no exact bound over a class: leave reject_epsilon out"
            )
        MinimumSums(estimator, self.reject_epsilon).declared_loss()
        if not bounds_every_state(risk_of(estimator)):
            raise InvalidParameterError(
                f"the least loss of {type(estimator).__name__} is that of a class of models with losses above 1, and a "
                "released model may lose less: leave reject_epsilon out"
            )
