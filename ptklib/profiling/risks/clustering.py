"""Clustering: squared distance to the nearest centre."""

from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.clustering import Clustering
from ptklib.inputs import InputTable
from ptklib.privacy import Bounds
from ptklib.profiling.risks.base import RowRisk


class ClusteringRisk(RowRisk):
    """Squared distance of a clipped row from the nearest centre, over the squared diagonal of the box.

    There is no exact minimum: k-means is solved by heuristics, so nothing can be said to be out of reach.
    """

    def __init__(self, estimator: Clustering) -> None:
        self._columns = estimator.required_columns()
        given = estimator.bounds
        bounds = [Bounds.of(given[c] if hasattr(given, "keys") else given, c) for c in self._columns]
        self._low = np.array([b.low for b in bounds])
        self._width = np.array([b.high - b.low for b in bounds])
        self._factor = 1 / self._width if estimator.scale else np.ones(len(bounds))
        self._diagonal = float(((self._width * self._factor) ** 2).sum())

    def examples(self, table: Any) -> Bools:
        """Return the rows without missing or infinite values."""
        return np.asarray(np.isfinite(self._values(table)).all(axis=1))

    def losses(self, state: Any, table: Any) -> Floats:
        rows = np.clip(self._values(table), self._low, self._low + self._width) * self._factor
        centres = np.column_stack([state.tables["centers"].column(c).to_numpy() for c in self._columns])
        least = np.full(len(rows), np.inf)
        for centre in centres * self._factor:
            square = np.zeros(len(rows))
            for place, coordinate in enumerate(centre):
                square += (rows[:, place] - coordinate) ** 2
            np.fmin(least, square, out=least)
        return np.asarray(least / self._diagonal)

    def _values(self, table: Any) -> Floats:
        read = InputTable(table, self._columns)
        return np.column_stack([read.numbers(name) for name in self._columns])
