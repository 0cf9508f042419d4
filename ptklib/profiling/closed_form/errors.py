"""The families that have a formula for their error."""

from collections.abc import Callable
from typing import Any

from ptklib.counts import CountFeaturizer
from ptklib.covariance import CovarianceMatrix
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.closed_form.counts import counts_error
from ptklib.profiling.closed_form.covariance import covariance_error
from ptklib.profiling.closed_form.facts import Facts
from ptklib.profiling.closed_form.statistics import statistics_error
from ptklib.statistics import HistoricalStatistics


def expected_error(estimator: Any, n: float, facts: Facts | None = None) -> float:
    """Return the expected `error_from_true_value` of a release of `n` rows against the truth, in its unit.

    Parameters
    ----------
    estimator : DPEstimator
        Its epsilon and delta are those of the release.
    n : float
        Rows that the family does not drop.
    facts : Facts, optional
        Without any, the worst is assumed.

    Raises
    ------
    InvalidParameterError
        For families and configurations without a formula.
    """
    if not n >= 1:
        raise InvalidParameterError("n must be at least 1")
    return error_formula(estimator, Facts() if facts is None else facts)(float(n))


def error_formula(estimator: Any, facts: Facts) -> Callable[[float], float]:
    """Return the expected error as a function of the number of rows; it never rises."""
    estimator.declared_loss()
    if isinstance(estimator, HistoricalStatistics):
        return statistics_error(estimator, facts)
    if isinstance(estimator, CountFeaturizer):
        return counts_error(estimator, facts)
    if isinstance(estimator, CovarianceMatrix):
        return covariance_error(estimator, facts)
    raise InvalidParameterError(f"{type(estimator).__name__} has no formula for its error: use Profiler")
