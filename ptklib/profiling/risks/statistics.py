"""Historical statistics: squared error of the mean of a row's group, or of the shares of groups."""

from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.domains import OUTSIDE
from ptklib.exceptions import InvalidParameterError
from ptklib.inputs import InputTable
from ptklib.profiling.risks.base import RowRisk
from ptklib.profiling.risks.sums import sums_by
from ptklib.statistics import HistoricalStatistics
from ptklib.statistics.collecting import table_codes
from ptklib.statistics.layout import COUNT, layout_of

TABLE = "statistics"


class StatisticsRisk(RowRisk):
    """Squared error of a value from the released mean of its group, in widths of the bounds; mean over values.

    When only counts are released: half the squared distance of the shares of groups from the group of the row.

    Parameters
    ----------
    estimator : HistoricalStatistics
        Asks for means, or for counts alone.

    Notes
    -----
    The class is all functions of the key with values in the bounds (all shares of groups), so it contains
    every release. The mean of each group minimises the sum of squares: the least sum over rows is
    ``sum(x**2) - sum(x)**2 / n``, added over groups.
    """

    loss_max = 1.0

    def __init__(self, estimator: HistoricalStatistics) -> None:
        self._layout = layout_of(estimator)
        self._columns = estimator.required_columns()
        if self._layout.bounds and not self._layout.asks("mean"):
            raise InvalidParameterError("rows have a loss when means are released, or counts alone")

    def examples(self, table: Any) -> Bools:
        """Return the rows that the estimator does not drop."""
        read = InputTable(table, self._columns)
        kept: Bools = table_codes(self._layout.domains, read) != OUTSIDE
        for name in self._layout.bounds:
            kept &= np.isfinite(read.numbers(name))
        return kept

    def losses(self, state: Any, table: Any) -> Floats:
        read, released = InputTable(table, self._columns), state.tables[TABLE]
        codes = np.maximum(table_codes(self._layout.domains, read), 0)
        if not self._layout.bounds:
            noisy = np.maximum(released.column(COUNT).to_numpy(), 0.0)
            total = float(noisy.sum())
            shares = noisy / total if total > 0 else np.full(len(noisy), 1 / len(noisy))
            return np.asarray((float(shares @ shares) - 2 * shares[codes] + 1) / 2)
        loss = np.zeros(read.n_rows)
        for name, bounds in self._layout.bounds.items():
            mean = released.column(f"{name}_mean").to_numpy()[codes]
            miss = (self._clipped(read, name) - mean) / (bounds.high - bounds.low)
            loss += miss * miss
        return np.asarray(loss / len(self._layout.bounds))

    def least_total(self, table: Any, weights: Floats) -> float:
        """Return the least weighted sum of losses over all functions of the key."""
        size = self._layout.n_groups
        read = InputTable(table, self._columns)
        codes = np.maximum(table_codes(self._layout.domains, read), 0)
        count = sums_by(codes, weights, size)
        if not self._layout.bounds:
            total = float(count.sum())
            return (total - float((count * count).sum()) / total) / 2 if total > 0 else 0.0
        rows, least = np.where(count > 0, count, 1.0), []
        for name, bounds in self._layout.bounds.items():
            standard = (self._clipped(read, name) - bounds.midpoint) / (bounds.high - bounds.low)
            first, square = (sums_by(codes, weights * part, size) for part in (standard, standard * standard))
            least.append(float(np.maximum(square - first * first / rows, 0.0).sum()))
        return float(np.mean(least))

    def _clipped(self, read: InputTable, name: str) -> Floats:
        bounds, values = self._layout.bounds[name], read.numbers(name)
        return np.clip(np.where(np.isfinite(values), values, bounds.midpoint), bounds.low, bounds.high)
