"""Historical statistics: the estimator."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ptklib.arrays import Floats, Ints
from ptklib.base import Release, Units
from ptklib.domains import product_columns, stand_out
from ptklib.exceptions import InvalidParameterError
from ptklib.fit_cache import once
from ptklib.inputs import InputTable
from ptklib.release import Component
from ptklib.state import TableSchema
from ptklib.statistics.collecting import collect, table_codes
from ptklib.statistics.errors import true_error
from ptklib.statistics.layout import COUNT, Layout, check_bounds, check_statistics, key_names, layout_of
from ptklib.statistics.reading import accumulated, read
from ptklib.sums import NoisySums, Values, lookup_table

TABLE = "statistics"


@dataclass(eq=False, repr=False)
class HistoricalStatistics(NoisySums):
    """Release statistics of bounded values for every key of a public domain.

    Parameters
    ----------
    keys : sequence of str, optional
        Key columns; all columns of `domains` by default. Several keys mean their product.
    values : sequence of str, optional
        Value columns; all columns of `bounds` by default.
    domains : mapping of column to values
        Public values of each key column: integers, strings or booleans. Rows with other keys are dropped.
    bounds : mapping of column to (low, high), or one pair for all `values`
        Public clipping bounds. Not needed when only counts are asked for.
    statistics : sequence of {"count", "sum", "mean", "variance", "std", "histogram", "quantiles"}
        Whatever is asked for, ``count`` is always released, and so are the sums that the rest is derived from.
    epsilon, delta : float
        Budget of one fit. With ``delta > 0``, discrete Gaussian noise is used where it is smaller.
    bins : int, sequence of float, or mapping of value column to either
        Public bins of histograms and quantiles: a number of equal width, or edges from the lower to the upper
        bound. Not read when neither is asked for.
    quantiles : sequence of float
        Orders between 0 and 1, both excluded. Not read unless quantiles are asked for.
    bin_features : bool
        Whether `transform` returns the noisy bins that quantiles are read from, too. Bins of a histogram it always
        returns.
    unit, max_rows_per_unit
        The column of the privacy unit's id, and its rows: see `DPEstimator`. Noise grows with the latter.

    Attributes
    ----------
    tables_ : dict of str to pyarrow.Table
        Released. One table ``statistics``: key columns; ``count``, noisy and unclipped; then per value as far as
        asked for

        - ``<value>_sum``, noisy, in the unit of the value; ``<value>_mean``, within the bounds;
        - ``<value>_squares``, the noisy sum of squared distances from the middle of the bounds;
          ``<value>_variance`` (around the mean of the group, divided by its size) and ``<value>_std``;
        - ``<value>_bin_<i>``, noisy counts, i from 0; ``<value>_share_<i>``, at least 0 and of sum 1;
        - ``<value>_p50`` for the order 0.5, ``<value>_p99_9`` for 0.999: within the bounds and in the order of
          their orders.
    noise_std_ : dict
        Standard deviation of the noise of each accumulated column.
    defaults_ : dict
        Features of keys outside the domain: counts and sums 0, the rest as of a group without rows.
    privacy_spent_ : PrivacyLoss

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``; epsilon-DP when ``delta`` is 0.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: one joint release of integer vectors: counts; per value the sums of ``x - midpoint`` and of
        ``(x - midpoint)**2 - half_width**2 / 2`` on an integer grid; counts per bin, for many bins also per
        group of bins. Discrete Laplace, or discrete Gaussian.
    :Sensitivity: one row moves one cell of each vector: a count by 1, a centred sum by at most half the width w of
        its bounds, a centred sum of squares by at most ``w**2 / 8``.

    A row with a missing or infinite value in any value column is dropped, like a row with an unknown key. It
    contributes to no count and no sum, so it changes nothing.

    **Budget.** With noise variances in squared sensitivities, the mean squared error of a column over half of its
    range, times ``n**2``, is a sum of weights times variances. With a centred mean z that is uniform over the
    bounds, ``E z**2 = 1/3``, and a variance v that is uniform over what this mean allows, ``0 .. 1 - z**2``:

    ==========  =======  ===  =======  ====================
    column      count    sum  squares  each level of bins
    ==========  =======  ===  =======  ====================
    mean        1/3      1
    variance    89/45    16/3 1
    histogram   4/B**2                 4
    quantiles   4/3                    4 c
    ==========  =======  ===  =======  ====================

    The row of the variance is that of ``2 (Q - 2 z S + (z**2 + 1/2 - v) C)``, the errors of the sums. B is
    the number of bins. c is the mean number of noisy nodes that a sum of bins from one end takes,
    ``(B**2 - 1) / (6 B)`` for one level. Weights of all that is asked for are added up. The sum over
    components of ``weight / epsilon_j**2`` is least when epsilon is divided by the cube roots of the weights.
    Counts and means of one value: 41 % count, 59 % sum.

    **Sparse groups.** Derived columns are drawn to those of the group's parents, the groups that share some of its
    keys, and of all groups: see `ptklib.shrinkage.shrunken_ratios`.

    **Windows.** Accumulated columns add up over a continued state; derived ones are functions of the sums.

    References
    ----------
    .. [1] PTK paper, Table 1, row 5.
    """

    keys: Any = None
    values: Any = None
    _: KW_ONLY
    domains: Any
    bounds: Any = None
    statistics: Any = ("count", "mean")
    epsilon: Any
    delta: Any = 0
    bins: Any = 32
    quantiles: Any = (0.5,)
    bin_features: Any = False
    unit: Any = None
    max_rows_per_unit: Any = 1

    def to_spec(self) -> dict[str, Any]:
        """Return family and parameters as plain JSON values, without those that are not read."""
        spec, statistics = super().to_spec(), check_statistics(self.statistics)
        unread = {"quantiles"} if "histogram" in statistics else {"bins", "quantiles"}
        for name in unread if "quantiles" not in statistics else ():
            del spec["params"][name]
        if "quantiles" not in statistics or "histogram" in statistics or self.bin_features is False:
            # younger than other parameters: states without it stay the same
            del spec["params"]["bin_features"]
        return spec

    @once
    def required_columns(self) -> tuple[str, ...]:
        """Return key and value columns."""
        return (*key_names(self.keys, self.domains), *self._value_names())

    @once
    def table_schemas(self) -> dict[str, TableSchema]:
        """Return the one table, ``statistics``."""
        return {TABLE: self._layout().schema()}

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``count``, then the columns of each value as far as they are released and asked for."""
        return np.asarray(self._transformed(), dtype=object)

    def _transformed(self) -> list[str]:
        """Return the columns of `transform`; bins that were released for quantiles alone only when asked for."""
        layout = self._layout()
        unasked = () if layout.asks("histogram") or self.bin_features else layout.bins
        return layout.features(without_bins=unasked)

    @once
    def _layout(self) -> Layout:
        if not isinstance(self.bin_features, bool):
            raise InvalidParameterError("bin_features must be True or False")
        return layout_of(self)

    @once
    def _value_names(self) -> list[str]:
        keys, statistics = key_names(self.keys, self.domains), check_statistics(self.statistics)
        return list(check_bounds(keys, self.values, self.bounds, statistics))

    def _resolved_columns(self) -> dict[str, list[str]]:
        return {"keys": list(key_names(self.keys, self.domains)), "values": self._value_names()}

    @once
    def _components(self) -> list[Component]:
        return self._layout().components()

    def _steps(self) -> dict[str, float]:
        return self._layout().steps()

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        return collect(self._layout(), table)

    def _read(self, values: Values, variance: Mapping[str, float]) -> Release:
        layout = self._layout()
        columns = read(layout, values, variance)
        table = pa.table({**self._key_columns()[TABLE], **columns.values}, schema=layout.schema().schema)
        return Release({TABLE: table}, {TABLE: columns.std}, defaults={TABLE: columns.defaults})

    def _values_of(self, tables: Mapping[str, Any]) -> dict[str, Floats]:
        return accumulated(self._layout(), tables[TABLE])

    @once
    def _key_columns(self) -> dict[str, dict[str, Any]]:
        domains = self._layout().domains
        return {TABLE: dict(zip((d.column for d in domains), product_columns(domains), strict=True))}

    def _unseen(self) -> tuple[str, ...]:
        counts = self.tables_[TABLE].column(COUNT).to_numpy()
        return () if stand_out(counts, self.noise_std_[TABLE][COUNT]) else self.required_columns()

    def _transform_columns(self) -> tuple[str, ...]:
        return key_names(self.keys, self.domains)

    def _transform(self, table: InputTable) -> Floats:
        layout = self._layout()
        lookup = lookup_table(self.tables_[TABLE], self._transformed(), self.defaults_[TABLE])
        return lookup[table_codes(layout.domains, table)]

    def _true_error(self, exact: Units) -> float:
        return true_error(self._layout(), self.tables_[TABLE], exact)
