"""Models by gradient descent, of rows in one place or on devices: error of the prediction for a row's label."""

from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.base import DPEstimator
from ptklib.draw_discard.model import DrawDiscardModel
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.risks.base import RowRisk
from ptklib.sgd import DPSGDClassifier, DPSGDRegressor


class DescentRisk(RowRisk):
    """Half of Brier's score of the predicted classes, or the squared error in widths of the label's bounds.

    There is no exact minimum: nothing can be said to be out of reach.

    Parameters
    ----------
    estimator : DPSGDClassifier, DPSGDRegressor or DrawDiscardModel
        With a label column.
    """

    def __init__(self, estimator: DPSGDClassifier | DPSGDRegressor | DrawDiscardModel) -> None:
        if estimator.label is None:
            raise InvalidParameterError("rows have a loss when the label is a column: label=")
        self._estimator = estimator

    def examples(self, table: Any) -> Bools:
        """Return the rows that the estimator does not drop."""
        return self._estimator.usable_rows(table)

    @property
    def n_classes(self) -> int:
        """Number of classes of the label; 0 for a numeric one."""
        return len(getattr(self._estimator, "classes_", ()))

    def wrong(self, state: Any, table: Any) -> Floats:
        """Return 1 for each row whose likeliest class is not its own, and 0 for the others."""
        fitted = DPEstimator.from_state(state)
        assert isinstance(fitted, DPSGDClassifier | DrawDiscardModel)
        return fitted.wrong_rows(table).astype(np.float64)

    def losses(self, state: Any, table: Any) -> Floats:
        fitted = DPEstimator.from_state(state)
        assert isinstance(fitted, DPSGDClassifier | DPSGDRegressor | DrawDiscardModel)
        return fitted.losses_of_rows(table)
