"""Trainings on two neighbouring datasets: exact statistics are made once, noise is drawn each time."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ptklib.checks.rows import Neighbours
from ptklib.exceptions import UnmatchedWarning


@contextmanager
def few_rows() -> Iterator[None]:
    """Fit without the warning that counts do not exceed their noise: checks have few rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmatchedWarning)
        yield


def fitted(estimator: Any, X: Any, y: Any, **given: Any) -> Any:
    """Fit on few rows."""
    with few_rows():
        return estimator.fit(X, y, **given)


class Trainings:
    """Trains one estimator with and without a unit, as often as asked.

    Parameters
    ----------
    estimator : DPEstimator
        It is fitted again and again.
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
