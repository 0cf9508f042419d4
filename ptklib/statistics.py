"""Historical statistics: noisy counts, sums and means of values per key."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ptklib.base import Units
from ptklib.domains import OUTSIDE, Domain, product_codes, product_columns, product_size
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, UnboundedSensitivityError
from ptklib.inputs import InputTable
from ptklib.mechanisms.grid import Grid, blocks, count_by, sum_by
from ptklib.names import check_columns, refuse_duplicates
from ptklib.privacy import Bounds
from ptklib.release import Component
from ptklib.shrinkage import common_mean, shrunken_deviation
from ptklib.state import TableSchema
from ptklib.sums import NoisySums, Reading, Values, lookup_table

TABLE = "statistics"
_STATISTICS = ("count", "sum", "mean")
_COUNT = "count"


class HistoricalStatistics(NoisySums):
    """Release count, sum and mean of bounded values for every key of a public domain.

    Parameters
    ----------
    keys : sequence of str, optional
        Key columns; all columns of `domains` by default. Several keys stand for their product.
    values : sequence of str, optional
        Value columns; all columns of `bounds` by default.
    domains : mapping of column to values
        Public values of each key column: integers, strings or booleans. Rows with other keys are dropped.
    bounds : mapping of column to (low, high), or one pair for all `values`
        Public clipping bounds. Not needed when only counts are asked for.
    statistics : sequence of {"count", "sum", "mean"}
        Sums and means need counts as well: ``count`` is always released.
    epsilon, delta : float
        Budget of one fit. With ``delta > 0``, discrete Gaussian noise is used where it is smaller.
    unit : str, optional
        Column of the privacy unit's id: of each, at most `max_rows_per_unit` rows are kept.
    max_rows_per_unit : int
        Rows of one privacy unit; noise grows with it. Without `unit` the caller has bounded them before.

    Attributes
    ----------
    tables_ : dict of str to pyarrow.Table
        Released. One table ``statistics``: key columns; ``count``, noisy and unclipped; ``<value>_sum``,
        noisy, in the unit of the value; ``<value>_mean``, derived from both, within the bounds.
    noise_std_ : dict
        Standard deviation of the noise of each accumulated column.
    defaults_ : dict
        Features of keys outside the domain: count and sum 0, the mean of all groups.
    privacy_spent_ : PrivacyLoss

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``; epsilon-DP when ``delta`` is 0.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: one joint release of the counts and, per value, the sums of ``x - midpoint`` on an integer
        grid; discrete Laplace, or discrete Gaussian.
    :Sensitivity: one row moves one count by 1 and one centred sum per value by at most half the width of its
        bounds (half of what an uncentred sum would need).

    The error of a mean is ``(sum noise) / n - (mean - midpoint) * (count noise) / n``. For a mean that is
    uniform within its bounds the second factor has a mean square of a third of the squared half width, so the
    sums get weight 1 each and the count weight ``len(values) / 3``; epsilon is divided by their cube roots,
    which makes the summed mean squared error of all means least (one value: 41 % count, 59 % sum).

    A row with a missing or infinite value in any value column is dropped, like a row with an unknown key: it
    contributes to no count and no sum, so it changes nothing.

    Means of groups whose noisy count is small beside the noise are drawn towards the mean of all groups, by
    the posterior mean of a normal prior whose variance is estimated from the release itself.

    References
    ----------
    .. [1] PTK paper, Table 1, row 5.
    """

    def __init__(
        self,
        keys: Any = None,
        values: Any = None,
        *,
        domains: Any,
        bounds: Any = None,
        statistics: Any = ("count", "mean"),
        epsilon: Any,
        delta: Any = 0,
        unit: Any = None,
        max_rows_per_unit: Any = 1,
    ) -> None:
        self.keys = keys
        self.values = values
        self.domains = domains
        self.bounds = bounds
        self.statistics = statistics
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.max_rows_per_unit = max_rows_per_unit

    def required_columns(self) -> tuple[str, ...]:
        """Return key and value columns."""
        return (*self._key_names(), *self._bounds())

    def table_schemas(self) -> dict[str, TableSchema]:
        """Return the one table, ``statistics``."""
        fields = [pa.field(d.column, d.arrow_type, nullable=False) for d in self._domains()]
        fields += [pa.field(name, pa.float64(), nullable=False) for name in self._features()]
        refuse_duplicates([field.name for field in fields], "the columns of the released table")
        return {TABLE: TableSchema(self._key_names(), pa.schema(fields))}

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``count``, then sum and mean of each value as far as they are released."""
        return np.asarray(self._features(), dtype=object)

    def _resolved_columns(self) -> dict[str, list[str]]:
        return {"keys": list(self._key_names()), "values": list(self._bounds())}

    def _key_names(self) -> tuple[str, ...]:
        if not isinstance(self.domains, Mapping):
            raise InvalidDomainError("domains must map each key column to its public values")
        keys = check_columns(self.domains if self.keys is None else self.keys, "keys")
        if not keys or set(keys) != set(self.domains):
            raise InvalidDomainError("domains must declare exactly the columns of keys, at least one")
        return keys

    def _domains(self) -> tuple[Domain, ...]:
        domains = tuple(Domain.of(key, self.domains[key]) for key in self._key_names())
        product_size(domains, 1 + len(self._bounds()))
        return domains

    def _bounds(self) -> dict[str, Bounds]:
        """Return the bounds of each value column that is added up."""
        if not set(self._statistics()) - {_COUNT}:
            return {}
        per_column = isinstance(self.bounds, Mapping)
        if self.values is None and not per_column:
            raise UnboundedSensitivityError(
                "sums and means need bounds={column: (low, high)}, or values and bounds"
            )
        names = check_columns(self.bounds if self.values is None else self.values, "values")
        if not names:
            raise InvalidParameterError("sums and means need at least one column in values")
        if per_column and set(names) != set(self.bounds):
            raise UnboundedSensitivityError("bounds must declare exactly the columns of values")
        refuse_duplicates((*self._key_names(), *names), "keys and values")
        return {name: Bounds.of(self.bounds[name] if per_column else self.bounds, name) for name in names}

    def _statistics(self) -> tuple[str, ...]:
        asked = (self.statistics,) if isinstance(self.statistics, str) else self.statistics
        if (
            not isinstance(asked, tuple | list)
            or not asked
            or any(name not in _STATISTICS for name in asked)
            or len(set(asked)) != len(asked)
        ):
            raise InvalidParameterError(f"statistics must be some of {', '.join(_STATISTICS)}, each once")
        return tuple(asked)

    def _features(self) -> list[str]:
        suffixes = ("sum", "mean") if "mean" in self._statistics() else ("sum",)
        return [_COUNT, *(f"{name}_{suffix}" for name in self._bounds() for suffix in suffixes)]

    def _components(self) -> list[Component]:
        size, bounds = product_size(self._domains()), self._bounds()
        count = Component(_COUNT, size, 1, len(bounds) / 3 if bounds else 1.0)
        return [count, *(Component(f"{n}_sum", size, Grid.for_bounds(b).width) for n, b in bounds.items())]

    def _steps(self) -> dict[str, float]:
        return {_COUNT: 1.0, **{f"{n}_sum": Grid.for_bounds(b).step for n, b in self._bounds().items()}}

    def _collect(self, table: InputTable, label: Any) -> dict[str, npt.NDArray[np.int64]]:
        domains, bounds = self._domains(), self._bounds()
        codes, size = _table_codes(domains, table), product_size(domains)
        columns = {name: table.numbers(name) for name in bounds}
        grids = {name: Grid.for_bounds(bound) for name, bound in bounds.items()}
        units = {component.name: np.zeros(size + 1, dtype=np.int64) for component in self._components()}
        for rows in blocks(len(codes), size):
            kept = codes[rows] != OUTSIDE
            for column in columns.values():
                kept &= np.isfinite(column[rows])
            cells = np.where(kept, codes[rows], size)  # dropped rows do the same work in a cell thrown away
            units[_COUNT] += count_by(cells, size + 1)
            for name, column in columns.items():
                units[f"{name}_sum"] += sum_by(cells, grids[name].whole(column[rows]), size + 1)
        return {name: total[:size] for name, total in units.items()}

    def _read(self, values: Values, variance: Mapping[str, float]) -> Reading:
        count, count_variance = values[_COUNT], variance[_COUNT]
        columns, std, default = {_COUNT: count}, {_COUNT: count_variance**0.5}, {_COUNT: 0.0}
        for name, bounds in self._bounds().items():
            centred, total = values[f"{name}_sum"], f"{name}_sum"
            columns[total] = centred + bounds.midpoint * count
            std[total] = (variance[total] + bounds.midpoint**2 * count_variance) ** 0.5
            default[total] = 0.0
            if "mean" in self._statistics():
                mean, common = _means(centred, count, variance[total], count_variance, bounds)
                columns[f"{name}_mean"], default[f"{name}_mean"] = mean, common
        keys = self._key_columns()[TABLE]
        table = pa.table({**keys, **columns}, schema=self.table_schemas()[TABLE].schema)
        return Reading({TABLE: table}, {TABLE: std}, {TABLE: default})

    def _values_of(self, tables: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float64]]:
        table = tables[TABLE]
        count = table.column(_COUNT).to_numpy()
        values = {_COUNT: count}
        for name, bounds in self._bounds().items():
            values[f"{name}_sum"] = table.column(f"{name}_sum").to_numpy() - bounds.midpoint * count
        return values

    def _key_columns(self) -> dict[str, dict[str, Any]]:
        domains = self._domains()
        return {TABLE: dict(zip((d.column for d in domains), product_columns(domains), strict=True))}

    def _transform_columns(self) -> tuple[str, ...]:
        return self._key_names()

    def _transform(self, table: InputTable) -> npt.NDArray[np.float64]:
        lookup = lookup_table(self.tables_[TABLE], self._features(), self.defaults_[TABLE])
        return lookup[_table_codes(self._domains(), table)]

    def _true_error(self, exact: Units) -> float:
        """Mean over rows and values of |released - true mean| / width; for counts, total variation."""
        count = exact[_COUNT].astype(np.float64)
        rows = float(count.sum())
        if rows == 0:
            return 0.0
        released = self.tables_[TABLE]
        if not self._bounds():
            noisy = np.maximum(released.column(_COUNT).to_numpy(), 0.0)
            shares = noisy / noisy.sum() if noisy.sum() > 0 else np.full(len(noisy), 1 / len(noisy))
            return float(np.abs(shares - count / rows).sum() / 2)
        values = {c: released.column(c).to_numpy() for c in released.column_names}
        errors = []
        for name, bounds in self._bounds().items():
            n = np.maximum(count, 1.0)
            true = bounds.midpoint + exact[f"{name}_sum"] * Grid.for_bounds(bounds).step / n
            guess = values.get(f"{name}_mean", values[f"{name}_sum"] / np.maximum(values[_COUNT], 1.0))
            guess = np.clip(guess, bounds.low, bounds.high)
            errors.append(float((np.abs(guess - true) * count).sum() / rows / (bounds.high - bounds.low)))
        return float(np.clip(np.mean(errors), 0.0, 1.0))


def _table_codes(domains: tuple[Domain, ...], table: InputTable) -> npt.NDArray[np.int64]:
    """Return the group of each row, or `OUTSIDE`."""
    return product_codes(domains, [d.encode(table.column(d.column)) for d in domains])


def _means(
    centred: npt.NDArray[np.float64],
    count: npt.NDArray[np.float64],
    sum_variance: float,
    count_variance: float,
    bounds: Bounds,
) -> tuple[npt.NDArray[np.float64], float]:
    """Return the mean of each group and of all groups from noisy centred sums and counts."""
    common, prior = common_mean(centred, count, sum_variance, count_variance, bounds.half_width)
    noise = sum_variance + common * common * count_variance
    mean = bounds.midpoint + common + shrunken_deviation(centred - common * count, count, noise, prior)
    return np.clip(mean, bounds.low, bounds.high), bounds.midpoint + common
