"""The parts of a release of historical statistics; public, known before any row is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from ptklib.domains import Domain, product_size
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, UnboundedSensitivityError
from ptklib.mechanisms.grid import Grid
from ptklib.names import check_columns, refuse_duplicates
from ptklib.privacy import SQUARES_MOST, SUMS_MOST, Bounds
from ptklib.release import Component
from ptklib.scalars import finite_number
from ptklib.state import TableSchema
from ptklib.statistics.binning import Binning, binnings

COUNT = "count"
STATISTICS = (COUNT, "sum", "mean", "variance", "std", "histogram", "quantiles")
_OF_SUMS = {"sum", "mean", "variance", "std"}
_OF_SQUARES = {"variance", "std"}
_OF_BINS = {"histogram", "quantiles"}
QUANTILES_MAX = 99


@dataclass(frozen=True, eq=False)
class Layout:
    """The checked parameters of `HistoricalStatistics`."""

    domains: tuple[Domain, ...]
    bounds: Mapping[str, Bounds]
    """By value column; empty when only counts are asked for."""
    statistics: tuple[str, ...]
    bins: Mapping[str, Binning]
    """By value column; empty unless histograms or quantiles are asked for."""
    quantiles: tuple[float, ...]
    """Empty unless quantiles are asked for."""

    @property
    def n_groups(self) -> int:
        """Number of groups of the product of all domains."""
        return product_size(self.domains)

    @property
    def sums(self) -> bool:
        """Whether values are added."""
        return not _OF_SUMS.isdisjoint(self.statistics)

    @property
    def squares(self) -> bool:
        """Whether squares of values are added."""
        return not _OF_SQUARES.isdisjoint(self.statistics)

    def asks(self, statistic: str) -> bool:
        """Return whether `statistic` was asked for."""
        return statistic in self.statistics

    def components(self) -> list[Component]:
        """Return the integer vectors of the release, with what the variance of each matters.

        Notes
        -----
        The weights count mean squared errors of all released columns, each over half of its range and times the
        squared size of a group: see Notes of `HistoricalStatistics`.
        """
        size, count, rest = self.n_groups, 0.0, []
        for name, bound in self.bounds.items():
            width = Grid.for_bounds(bound).width
            if self.sums:
                means = self.asks("sum") or self.asks("mean")
                count += 1 / 3 if means else 0.0
                rest.append(Component(f"{name}_sum", size, width, means + (16 / 3 if self.squares else 0.0)))
            if self.squares:
                count += 89 / 45
                rest.append(Component(f"{name}_squares", size, width // 2))
            if name in self.bins:
                bins = self.bins[name]
                weight = 4.0 if self.asks("histogram") else 0.0
                count += 4 / bins.n_bins**2 if self.asks("histogram") else 0.0
                if self.asks("quantiles"):
                    weight += 4 * bins.prefix_variance / len(bins.levels)
                    count += 4 / 3
                for level, n_nodes in zip(level_names(name, bins), bins.levels, strict=True):
                    rest.append(Component(level, size * n_nodes, 1, weight))
        return [Component(COUNT, size, 1, count or 1.0), *rest]

    def steps(self) -> dict[str, float]:
        """Return what one unit of each component is worth."""
        steps = {COUNT: 1.0}
        for name, bound in self.bounds.items():
            grid = Grid.for_bounds(bound)
            if self.sums:
                steps[f"{name}_sum"] = grid.step
            if self.squares:
                steps[f"{name}_squares"] = grid.step * bound.half_width
            if name in self.bins:
                steps |= dict.fromkeys(level_names(name, self.bins[name]), 1.0)
        return steps

    def features(self, without_bins: Iterable[str] = ()) -> list[str]:
        """Return the columns of the released table that are not keys, without the bins of some values."""
        columns = [COUNT, *(column for name in self.bounds for column in self._columns_of(name))]
        left_out = {column for name in without_bins for column in self.bin_columns(name)}
        return [column for column in columns if column not in left_out]

    def _columns_of(self, name: str) -> list[str]:
        columns = [f"{name}_sum"] if self.sums else []
        columns += [f"{name}_mean"] if self.asks("mean") else []
        columns += [f"{name}_squares"] if self.squares else []
        columns += [f"{name}_{s}" for s in ("variance", "std") if self.asks(s)]
        columns += self.bin_columns(name)
        columns += self.share_columns(name) if self.asks("histogram") else []
        return columns + self.quantile_columns(name)

    def bin_columns(self, name: str) -> list[str]:
        """Return the columns of noisy counts per bin."""
        return [f"{name}_bin_{i}" for i in range(self.bins[name].n_bins)] if name in self.bins else []

    def share_columns(self, name: str) -> list[str]:
        """Return the columns of shares per bin."""
        return [f"{name}_share_{i}" for i in range(self.bins[name].n_bins)]

    def quantile_columns(self, name: str) -> list[str]:
        """Return the columns of quantiles: ``<value>_p50``, ``<value>_p99_9``."""
        return [f"{name}_{_percent(q)}" for q in self.quantiles]

    def schema(self) -> TableSchema:
        """Return keys and columns of the released table."""
        keys = [domain.column for domain in self.domains]
        refuse_duplicates([*keys, *self.features()], "the columns of the released table")
        return TableSchema.of({d.column: d.arrow_type for d in self.domains}, self.features())


def layout_of(estimator: Any) -> Layout:
    """Check the parameters of an estimator of historical statistics against each other, and return its layout."""
    e = estimator
    names, chosen = key_names(e.keys, e.domains), check_statistics(e.statistics)
    domains = tuple(Domain.of(key, e.domains[key]) for key in names)
    product_size(domains)
    limits = check_bounds(names, e.values, e.bounds, chosen)
    edges = binnings(e.bins, limits if not _OF_BINS.isdisjoint(chosen) else {})
    orders = _check_quantiles(e.quantiles)
    layout = Layout(domains, limits, chosen, edges, orders if "quantiles" in chosen else ())
    for name, bound in limits.items():
        bound.within(SQUARES_MOST if layout.squares else SUMS_MOST, name)
    product_size(domains, sum(c.size for c in layout.components()) // layout.n_groups)
    return layout


def level_names(name: str, bins: Binning) -> list[str]:
    """Return the components of a value's bins: coarse level first, when there is one."""
    return [f"{name}_nodes"] * (len(bins.levels) - 1) + [f"{name}_bins"]


def key_names(keys: Any, domains: Any) -> tuple[str, ...]:
    """Return the key columns."""
    if not isinstance(domains, Mapping):
        raise InvalidDomainError("domains must map each key column to its public values")
    names = check_columns(domains if keys is None else keys, "keys")
    if not names or set(names) != set(domains):
        raise InvalidDomainError("domains must declare exactly the columns of keys, at least one")
    return names


def check_statistics(statistics: Any) -> tuple[str, ...]:
    """Return the statistics asked for."""
    names = (statistics,) if isinstance(statistics, str) else statistics
    if (
        not isinstance(names, tuple | list)
        or not names
        or any(name not in STATISTICS for name in names)
        or len(set(names)) != len(names)
    ):
        raise InvalidParameterError(f"statistics must be some of {', '.join(STATISTICS)}, each once")
    return tuple(names)


def check_bounds(
    keys: tuple[str, ...], values: Any, bounds: Any, statistics: tuple[str, ...]
) -> dict[str, Bounds]:
    """Return the bounds of each value column that is read."""
    if not set(statistics) - {COUNT}:
        return {}
    per_column = isinstance(bounds, Mapping)
    if values is None and not per_column:
        raise UnboundedSensitivityError(
            "all statistics but counts need bounds={column: (low, high)}, or values and bounds"
        )
    names = check_columns(bounds if values is None else values, "values")
    if not names:
        raise InvalidParameterError("all statistics but counts need at least one column in values")
    if per_column and set(names) != set(bounds):
        raise UnboundedSensitivityError("bounds must declare exactly the columns of values")
    refuse_duplicates((*keys, *names), "keys and values")
    return {name: Bounds.of(bounds[name] if per_column else bounds, name) for name in names}


def _check_quantiles(quantiles: Any) -> tuple[float, ...]:
    given = (quantiles,) if isinstance(quantiles, float) else quantiles
    if not isinstance(given, tuple | list | np.ndarray) or not 1 <= len(given) <= QUANTILES_MAX:
        raise InvalidParameterError(f"quantiles must be 1 to {QUANTILES_MAX} numbers between 0 and 1")
    orders = tuple(finite_number(q, "a quantile") for q in given)
    if not all(0 < q < 1 for q in orders) or len(set(orders)) != len(orders):
        raise InvalidParameterError("quantiles must be distinct numbers between 0 and 1, both excluded")
    return orders


def _percent(order: float) -> str:
    """Return ``p50`` for 0.5 and ``p99_9`` for 0.999."""
    percent = (Decimal(repr(order)) * 100).normalize()
    return "p" + format(percent, "f").replace(".", "_")
