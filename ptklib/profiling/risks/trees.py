"""Trees: error of the prediction for a row's label."""

from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.base import DPEstimator
from ptklib.domains import OUTSIDE, Domain
from ptklib.exceptions import InvalidParameterError
from ptklib.inputs import InputTable
from ptklib.privacy import Bounds
from ptklib.profiling.risks.base import RowRisk
from ptklib.trees import TreeFeaturizer


class TreesRisk(RowRisk):
    """Half of Brier's score of the predicted classes, or the squared error of the mean in widths of the label's bounds.

    There is no exact minimum: trees are grown by heuristics, so nothing can be said to be out of reach.

    Parameters
    ----------
    estimator : TreeFeaturizer
        With a label column.
    """

    def __init__(self, estimator: TreeFeaturizer) -> None:
        if estimator.label is None:
            raise InvalidParameterError("rows have a loss when the label is a column: label=")
        self._label = str(estimator.label)
        self._classes = None if estimator.classes is None else Domain.of(self._label, estimator.classes)
        self._bounds = None if self._classes is not None else Bounds.of(estimator.label_bounds, self._label)

    def examples(self, table: Any) -> Bools:
        """Return the rows with a known label."""
        read = InputTable(table, (self._label,))
        if self._classes is not None:
            return np.asarray(self._classes.encode(read.column(self._label)) != OUTSIDE)
        return np.asarray(np.isfinite(read.numbers(self._label)))

    @property
    def n_classes(self) -> int:
        """Number of classes of the label; 0 for a numeric one."""
        return 0 if self._classes is None else len(self._classes)

    def wrong(self, state: Any, table: Any) -> Floats:
        """Return 1 for each row whose likeliest class is not its own, and 0 for the others."""
        assert self._classes is not None
        codes = self._classes.encode(InputTable(table, (self._label,)).column(self._label))
        chances = DPEstimator.from_state(state).predict_proba(table)
        return np.asarray(chances.argmax(axis=1) != codes, dtype=np.float64)

    def losses(self, state: Any, table: Any) -> Floats:
        read, fitted = InputTable(table, (self._label,)), DPEstimator.from_state(state)
        if self._bounds is not None:
            width = self._bounds.high - self._bounds.low
            label = np.clip(read.numbers(self._label), self._bounds.low, self._bounds.high)
            guess = np.clip(fitted.predict(table), self._bounds.low, self._bounds.high)
            return np.asarray(((label - guess) / width) ** 2)
        assert self._classes is not None
        codes = self._classes.encode(read.column(self._label))
        chances = fitted.predict_proba(table)
        loss = np.zeros(len(codes))
        for code in range(len(self._classes)):
            loss += (chances[:, code] - (codes == code)) ** 2
        return np.asarray(loss / 2)
