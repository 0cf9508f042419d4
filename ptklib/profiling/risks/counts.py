"""Count featurization: squared distance of a value's class probabilities from the class of the row."""

from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats, Ints
from ptklib.base import DPEstimator
from ptklib.counts import CountFeaturizer
from ptklib.counts.features import features_of
from ptklib.counts.selected import SelectedKeys
from ptklib.domains import OUTSIDE, Domain
from ptklib.exceptions import InvalidParameterError
from ptklib.inputs import InputTable
from ptklib.profiling.risks.base import RowRisk
from ptklib.profiling.risks.sums import sums_by


class CountsRisk(RowRisk):
    """Half the squared distance (Brier's score) of released class probabilities from the class of the row.

    The mean over features; in [0, 1].

    Parameters
    ----------
    estimator : CountFeaturizer
        With a label column, and without selected features.

    Notes
    -----
    The class is all functions of the value of a feature to probabilities, values outside a domain included as
    one more. So it contains every release. The least sum over rows of one value is
    ``(n - sum_c n_c**2 / n) / 2``.
    """

    loss_max = 1.0

    def __init__(self, estimator: CountFeaturizer) -> None:
        e = estimator
        if e.label is None:
            raise InvalidParameterError("rows have a loss when the label is a column: label=")
        self._classes = Domain.of(e.label, e.classes)
        features = features_of(e, len(self._classes))
        self._features = [feature for feature in features if not isinstance(feature, SelectedKeys)]
        if len(self._features) < len(features):
            raise InvalidParameterError("rows have a loss when all features are declared or hashed")
        self._columns = e.required_columns()

    def examples(self, table: Any) -> Bools:
        """Return the rows of a known class."""
        return np.asarray(self._labels(InputTable(table, self._columns)) != OUTSIDE)

    @property
    def n_classes(self) -> int:
        """Number of classes of the label."""
        return len(self._classes)

    def losses(self, state: Any, table: Any) -> Floats:
        labels, chances = self._chances(state, table)
        loss = np.zeros(len(labels))
        for place in range(len(self._features)):
            for code in range(self.n_classes):
                miss = chances[:, place, code] - (labels == code)
                loss += miss * miss
        return np.asarray(loss / (2 * len(self._features)))

    def wrong(self, state: Any, table: Any) -> Floats:
        """Return the share of features whose likeliest class is not that of the row."""
        labels, chances = self._chances(state, table)
        return np.asarray((chances.argmax(axis=2) != labels[:, None]).mean(axis=1))

    def _chances(self, state: Any, table: Any) -> tuple[Ints, Floats]:
        """Return the class of each row, and the released probabilities by feature and class."""
        labels = np.maximum(self._labels(InputTable(table, self._columns)), 0)
        features = DPEstimator.from_state(state).transform(table)
        shape = (len(labels), len(self._features), 2 * self.n_classes)
        return labels, np.asarray(features.reshape(shape)[:, :, self.n_classes :])

    def least_total(self, table: Any, weights: Floats) -> float:
        """Return the least weighted sum of losses over all functions of each feature's values."""
        n_classes, totals = len(self._classes), []
        read = InputTable(table, self._columns)
        labels = np.maximum(self._labels(read), 0)
        for feature in self._features:
            codes = feature.encode(read.column(feature.column))
            codes = np.where(codes == OUTSIDE, len(feature), codes)
            totals.append(sums_by(codes * n_classes + labels, weights, (len(feature) + 1) * n_classes))
        least = 0.0
        for total in totals:
            cells = total.reshape(-1, n_classes)
            rows = cells.sum(axis=1)
            squares = (cells * cells).sum(axis=1)
            least += float((rows - squares / np.where(rows > 0, rows, 1.0)).sum()) / 2
        return max(least / len(self._features), 0.0)

    def _labels(self, read: InputTable) -> Any:
        return self._classes.encode(read.column(self._classes.column))
