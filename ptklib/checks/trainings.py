"""Trainings on two neighbouring datasets: exact statistics are made once, noise is drawn each time."""

from collections.abc import Mapping
from typing import Any

from ptklib.checks.rows import Neighbours


class Trainings:
    """Trains one estimator with and without a unit, as often as asked.

    Parameters
    ----------
    estimator : DPEstimator
        It is fitted again and again.
    pair : Neighbours
    """

    def __init__(self, estimator: Any, pair: Neighbours) -> None:
        self._estimator = estimator
        self.parts = tuple(
            estimator.partial_statistics(rows.X, rows.y) for rows in (pair.without, pair.with_unit)
        )

    def tables(self, inside: bool) -> Mapping[str, Any]:
        """Return what one more training releases."""
        tables: Mapping[str, Any] = self._estimator.finalize([self.parts[int(inside)]]).tables_
        return tables
