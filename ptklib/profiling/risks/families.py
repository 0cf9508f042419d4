"""The families that have a loss of single rows."""

from collections.abc import Callable
from typing import Any

from ptklib.clustering import Clustering
from ptklib.counts import CountFeaturizer
from ptklib.draw_discard.model import DrawDiscardModel
from ptklib.exceptions import InvalidParameterError
from ptklib.linear import AdaSSPRegressor
from ptklib.profiling.risks.base import RowRisk
from ptklib.profiling.risks.clustering import ClusteringRisk
from ptklib.profiling.risks.counts import CountsRisk
from ptklib.profiling.risks.linear import LeastSquaresRisk
from ptklib.profiling.risks.sgd import DescentRisk
from ptklib.profiling.risks.statistics import StatisticsRisk
from ptklib.profiling.risks.team import TeamRisk
from ptklib.profiling.risks.trees import TreesRisk
from ptklib.sgd import DPSGDClassifier, DPSGDRegressor
from ptklib.statistics import HistoricalStatistics
from ptklib.team import TeamCode
from ptklib.trees import TreeFeaturizer

_RISKS: dict[type, Callable[[Any], RowRisk]] = {
    HistoricalStatistics: StatisticsRisk,
    CountFeaturizer: CountsRisk,
    AdaSSPRegressor: LeastSquaresRisk,
    Clustering: ClusteringRisk,
    TeamCode: TeamRisk,
    TreeFeaturizer: TreesRisk,
    DPSGDClassifier: DescentRisk,
    DPSGDRegressor: DescentRisk,
    DrawDiscardModel: DescentRisk,
}


def risk_of(estimator: Any) -> RowRisk:
    """Return the loss of single rows of an estimator.

    Raises
    ------
    InvalidParameterError
        For families and configurations that have none; ``evaluation="eval"`` profiles them by their own evaluation.
    """
    for family, risk in _RISKS.items():
        if isinstance(estimator, family):
            return risk(estimator)
    raise InvalidParameterError(
        f"{type(estimator).__name__} has no loss of single rows: use evaluation='eval'"
    )
