"""Models by gradient descent: error of the prediction for a row's label."""

from typing import Any

from ptklib.arrays import Bools, Floats
from ptklib.base import DPEstimator
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.risks.base import RowRisk
from ptklib.sgd import DPSGDClassifier, DPSGDRegressor


class DescentRisk(RowRisk):
    """Half of Brier's score of the predicted classes, or the squared error in widths of the label's bounds.

    There is no exact minimum: nothing can be said to be out of reach.

    Parameters
    ----------
    estimator : DPSGDClassifier or DPSGDRegressor
        With a label column.
    """

    def __init__(self, estimator: DPSGDClassifier | DPSGDRegressor) -> None:
        if estimator.label is None:
            raise InvalidParameterError("rows have a loss when the label is a column: label=")
        self._estimator = estimator

    def examples(self, table: Any) -> Bools:
        """Return the rows that the estimator does not drop."""
        return self._estimator.usable_rows(table)

    def losses(self, state: Any, table: Any) -> Floats:
        fitted = DPEstimator.from_state(state)
        assert isinstance(fitted, DPSGDClassifier | DPSGDRegressor)
        return fitted.row_losses(table)
