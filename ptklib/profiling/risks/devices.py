"""Models that devices train: error of the prediction for a row's label."""

from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.base import DPEstimator
from ptklib.draw_discard.model import DrawDiscardModel
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.risks.base import RowRisk


class DeviceModelRisk(RowRisk):
    """Half of Brier's score of the predicted classes, or the squared error in widths of the label's bounds.

    There is no exact minimum: nothing can be said to be out of reach.

    Parameters
    ----------
    estimator : DrawDiscardModel
        With a label column.
    """

    def __init__(self, estimator: DrawDiscardModel) -> None:
        if estimator.label is None:
            raise InvalidParameterError("rows have a loss when the label is a column: label=")
        self._estimator = estimator

    def examples(self, table: Any) -> Bools:
        """Return the rows with a usable label."""
        return self._estimator.usable_rows(table)

    @property
    def n_classes(self) -> int:
        """Number of classes of the label, two of a logistic model; 0 for a numeric one."""
        return 0 if self._estimator.model == "linear" else len(self._estimator.classes_)

    def wrong(self, state: Any, table: Any) -> Floats:
        """Return 1 for each row whose likeliest class is not its own, and 0 for the others."""
        return _model_of(state).wrong_rows(table).astype(np.float64)

    def losses(self, state: Any, table: Any) -> Floats:
        return _model_of(state).losses_of_rows(table)


def _model_of(state: Any) -> DrawDiscardModel:
    fitted = DPEstimator.from_state(state)
    assert isinstance(fitted, DrawDiscardModel)
    return fitted
