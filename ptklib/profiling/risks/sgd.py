"""Models by gradient descent: error of the prediction for a row's label."""

from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.base import DPEstimator
from ptklib.domains import Domain
from ptklib.exceptions import InvalidParameterError
from ptklib.inputs import InputTable
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

    @property
    def n_classes(self) -> int:
        """Number of classes of the label; 0 for a numeric one."""
        return len(self._estimator.classes_) if isinstance(self._estimator, DPSGDClassifier) else 0

    def wrong(self, state: Any, table: Any) -> Floats:
        """Return 1 for each row whose likeliest class is not its own, and 0 for the others."""
        fitted, label = DPEstimator.from_state(state), str(self._estimator.label)
        assert isinstance(fitted, DPSGDClassifier)
        codes = Domain.of(label, fitted.classes).encode(InputTable(table, (label,)).column(label))
        return np.asarray(fitted.predict_proba(table).argmax(axis=1) != codes, dtype=np.float64)

    def losses(self, state: Any, table: Any) -> Floats:
        fitted = DPEstimator.from_state(state)
        assert isinstance(fitted, DPSGDClassifier | DPSGDRegressor)
        return fitted.losses_of_rows(table)
