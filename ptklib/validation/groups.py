"""Noisy sums of values by group, from one release: the errors of released means are validated from them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.base import DPEstimator
from ptklib.exceptions import InvalidParameterError
from ptklib.inputs import InputTable
from ptklib.privacy import PrivacyLoss, check_epsilon
from ptklib.profiling.estimates import UNITS, LossEstimate
from ptklib.profiling.evaluation import row_by_row
from ptklib.profiling.loss_steps import loss_steps
from ptklib.profiling.samples import ProfileSet
from ptklib.release import Component, ReleasePlan, plan_release
from ptklib.scalars import whole_number
from ptklib.spec import estimator_from_spec
from ptklib.statistics import HistoricalStatistics
from ptklib.statistics.collecting import table_codes
from ptklib.statistics.layout import Layout, layout_of

_MASS = "mass"
_ROWS_MOST = 10_000


@dataclass(eq=False, repr=False)
class GroupSums:
    """Release the noisy sums of one value in each group of historical statistics, on rows no state was trained on.

    Parameters
    ----------
    ptk : HistoricalStatistics or mapping
        The estimator, or its spec; it releases the means of one value.
    epsilon : float
        Budget of one `run`.
    rows_per_unit : int
        Rows of one privacy unit, at most; public. A unit counts in so many groups, or in all if these are fewer.

    Notes
    -----
    :Guarantee: epsilon-DP per call of `run`; the `LossEstimate` of each group are all that leaves.
    :Unit: the privacy unit that hashes stand for. In each group it has one value: the mean over its rows there.
    :Neighbours: add or remove one unit.
    :Mechanism: discrete Laplace on the sums of values, and of what is missing to 1, of each group; one draw.
    :Sensitivity: L1, `UNITS` for each group that a unit counts in. Of more groups it counts in the first.

    A value is in parts of its bounds, clipped to [0, 1]. Rows that the estimator drops do not count, and neither does a
    row that cannot be read, it alone.
    """

    ptk: Any
    epsilon: Any
    rows_per_unit: Any = 1

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `run`, before any data are read.

        Raises
        ------
        InvalidParameterError
            When the family releases no means of one value, or a parameter cannot be used.
        """
        return self._plan(self._layout()).loss

    def run(self, test_set: ProfileSet) -> tuple[LossEstimate, ...]:
        """Return the noisy sums of each group, in the order of the released table."""
        layout = self._layout()
        plan, size = self._plan(layout), layout.n_groups
        table, units = test_set.sample(test_set.hashes)
        codes, lost = self._cells(layout, table, units)
        mass = np.zeros((2, size), dtype=np.int64)
        np.add.at(mass[0], codes, lost)
        np.add.at(mass[1], codes, UNITS - lost)
        noisy = plan.draw({_MASS: mass.ravel()})[_MASS].reshape(2, size)
        return tuple(LossEstimate(self.group_epsilon, int(a), int(b)) for a, b in noisy.T)

    @property
    def n_groups(self) -> int:
        """Number of groups, public."""
        return self._layout().n_groups

    @property
    def group_epsilon(self) -> float:
        """The epsilon at which the sums of one group alone would have the noise that they have; rounded down."""
        epsilon, most = check_epsilon(self.epsilon), self._most(self._layout())
        return epsilon if most == 1 else math.nextafter(epsilon / most, 0.0)

    def released(self, state: Any) -> tuple[float, ...]:
        """Return the released mean of each group, in the same order."""
        (name,) = self._layout().bounds
        return tuple(state.tables["statistics"].column(f"{name}_mean").to_pylist())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a `run` reads."""
        layout = self._layout()
        return (*(domain.column for domain in layout.domains), *layout.bounds)

    @property
    def bounds(self) -> tuple[float, float]:
        """Public bounds of the value, as `ErrorValidator` takes them."""
        (bounds,) = self._layout().bounds.values()
        return bounds.low, bounds.high

    def _cells(self, layout: Layout, table: Any, units: Ints) -> tuple[Ints, Ints]:
        """Return group and value of each pair of a unit and a group that it counts in; values in steps."""
        ((name, bounds),) = layout.bounds.items()
        columns = self.columns

        def coded(part: Any) -> Floats:
            return np.asarray(table_codes(layout.domains, InputTable(part, columns)), dtype=np.float64)

        def valued(part: Any) -> Floats:
            return InputTable(part, columns).numbers(name)

        codes, values = row_by_row(coded, table, -1.0), row_by_row(valued, table, math.nan)
        kept = (codes >= 0) & np.isfinite(values)
        parts = (np.clip(values[kept], bounds.low, bounds.high) - bounds.low) / (bounds.high - bounds.low)
        pairs = np.column_stack([units[kept], codes[kept].astype(np.int64)])
        cells, place, rows = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
        means = np.bincount(place.reshape(-1), parts, len(cells)) / rows
        _, first, in_unit = np.unique(cells[:, 0], return_index=True, return_inverse=True)
        counts = np.arange(len(cells)) - first[in_unit.reshape(-1)] < self._most(layout)
        return cells[counts, 1], loss_steps(means[counts])

    def _layout(self) -> Layout:
        estimator = self.ptk if isinstance(self.ptk, DPEstimator) else estimator_from_spec(self.ptk)
        if isinstance(estimator, HistoricalStatistics):
            layout = layout_of(estimator)
            if len(layout.bounds) == 1 and layout.asks("mean"):
                return layout
        raise InvalidParameterError(
            "errors by group are of HistoricalStatistics that release the means of one value"
        )

    def _most(self, layout: Layout) -> int:
        """Return how many groups a unit counts in, at most."""
        return min(whole_number(self.rows_per_unit, "rows_per_unit", 1, _ROWS_MOST), layout.n_groups)

    def _plan(self, layout: Layout) -> ReleasePlan:
        mass = Component(_MASS, 2 * layout.n_groups, self._most(layout) * UNITS)
        return plan_release((mass,), check_epsilon(self.epsilon), 0)
