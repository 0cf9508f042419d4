"""Tables from accumulated noisy values: what is derived from them, and how sparse groups are read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptklib.arrays import Floats
from ptklib.privacy import Bounds
from ptklib.shrinkage import NoisyRatios, shrunken_ratios
from ptklib.statistics.distribution import NoisyBins
from ptklib.statistics.layout import COUNT, Layout, level_names


@dataclass(eq=False)
class Columns:
    """The columns of the released table that are not keys, each with its noise and its default."""

    values: dict[str, Floats] = field(default_factory=dict)
    std: dict[str, float] = field(default_factory=dict)
    defaults: dict[str, float] = field(default_factory=dict)

    def noisy(self, name: str, values: Floats, variance: float) -> None:
        """Add a noisy sum, which is 0 for groups nobody declared."""
        self.values[name], self.std[name], self.defaults[name] = values, variance**0.5, 0.0

    def derived(self, name: str, values: Floats, default: float) -> None:
        """Add a function of noisy sums."""
        self.values[name], self.defaults[name] = values, default


def read(layout: Layout, values: Mapping[str, Floats], variance: Mapping[str, float]) -> Columns:
    """Return all columns, from accumulated noisy values and the variance of their noise."""
    columns = Columns()
    columns.noisy(COUNT, values[COUNT], variance[COUNT])
    for name, bounds in layout.bounds.items():
        if layout.sums:
            _read_moments(layout, name, bounds, values, variance, columns)
        if name in layout.bins:
            _read_bins(layout, name, values, variance, columns)
    return columns


def accumulated(layout: Layout, table: Any) -> dict[str, Floats]:
    """Return the noisy values that a released table was made from.

    Of bins released on two levels the table has the best estimate: coarse nodes are its sums, from which the
    same estimate follows again.
    """
    column = {name: table.column(name).to_numpy() for name in layout.features()}
    count = column[COUNT]
    values = {COUNT: count}
    for name, bounds in layout.bounds.items():
        if layout.sums:
            values[f"{name}_sum"] = column[f"{name}_sum"] - bounds.midpoint * count
        if layout.squares:
            values[f"{name}_squares"] = column[f"{name}_squares"] - bounds.half_width**2 / 2 * count
        if name in layout.bins:
            bins = layout.bins[name]
            levels = bins.collect(np.column_stack([column[c] for c in layout.bin_columns(name)]).reshape(-1))
            values |= dict(zip(level_names(name, bins), levels, strict=True))
    return values


def _read_moments(
    layout: Layout,
    name: str,
    bounds: Bounds,
    values: Mapping[str, Floats],
    variance: Mapping[str, float],
    columns: Columns,
) -> None:
    """Add sum, mean, squares, variance and standard deviation of one value, as far as asked for."""
    count, centred = values[COUNT], values[f"{name}_sum"]
    noise, count_noise = variance[f"{name}_sum"], variance[COUNT]
    columns.noisy(f"{name}_sum", centred + bounds.midpoint * count, noise + bounds.midpoint**2 * count_noise)
    if not (layout.asks("mean") or layout.squares):
        return
    mean, common = _ratios(layout, centred, count, noise, count_noise, bounds.half_width)
    if layout.asks("mean"):
        columns.derived(
            f"{name}_mean",
            np.clip(bounds.midpoint + mean, bounds.low, bounds.high),
            bounds.midpoint + common,
        )
    if not layout.squares:
        return
    squares, squares_noise, half = values[f"{name}_squares"], variance[f"{name}_squares"], bounds.half_width
    even = half * half / 2
    columns.noisy(f"{name}_squares", squares + even * count, squares_noise + even * even * count_noise)
    # The sum of (x - mean)**2 - even, for any mean: linear in the noisy sums.
    deviations = squares - 2 * mean * centred + mean * mean * count
    spread, usual = _ratios(
        layout,
        deviations,
        count,
        squares_noise + 4 * mean**2 * noise + mean**4 * count_noise,
        count_noise,
        even,
        mean**2 * count_noise,
    )
    variances = np.clip(even + spread, 0.0, half * half - mean * mean)
    default = float(np.clip(even + usual, 0.0, half * half - common * common))
    if layout.asks("variance"):
        columns.derived(f"{name}_variance", variances, default)
    if layout.asks("std"):
        columns.derived(f"{name}_std", np.sqrt(variances), default**0.5)


def _ratios(
    layout: Layout,
    sums: Floats,
    count: Floats,
    variance: Floats | float,
    count_variance: float,
    reach: float,
    covariance: Floats | float = 0.0,
) -> tuple[Floats, float]:
    """Return the shrunken ratio of sums and counts of each group, and of groups without rows."""
    n_groups = len(count)
    # a power of two changes no digit, and squares stay within float64
    power = math.ldexp(1.0, math.frexp(reach)[1])
    given = NoisyRatios(
        sums[:, None] / power,
        count,
        np.broadcast_to(np.asarray(variance, dtype=np.float64) / power / power, n_groups),
        count_variance,
        reach / power,
        np.broadcast_to(np.asarray(covariance, dtype=np.float64) / power, n_groups)[:, None],
    )
    ratios, overall = shrunken_ratios(given, tuple(len(domain) for domain in layout.domains))
    return ratios[:, 0] * power, float(overall[0]) * power


def _read_bins(
    layout: Layout,
    name: str,
    values: Mapping[str, Floats],
    variance: Mapping[str, float],
    columns: Columns,
) -> None:
    """Add noisy bins, shares and quantiles of one value, as far as asked for."""
    bins = layout.bins[name]
    levels = level_names(name, bins)
    counts, node_variance = bins.consistent([values[level] for level in levels]), variance[levels[-1]]
    for place, (column, noise) in enumerate(
        zip(layout.bin_columns(name), bins.bin_variance(node_variance), strict=True)
    ):
        columns.noisy(column, counts[:, place], float(noise))
    joined = NoisyBins.of(bins, counts, node_variance, values[COUNT], variance[COUNT])
    shape = tuple(len(domain) for domain in layout.domains)
    if layout.asks("histogram"):
        shares, usual = joined.shares(shape)
        for place, column in enumerate(layout.share_columns(name)):
            columns.derived(column, shares[:, place], float(usual[place]))
    if layout.quantiles:
        quantiles, usual = joined.quantiles(layout.quantiles, shape)
        for place, column in enumerate(layout.quantile_columns(name)):
            columns.derived(column, quantiles[:, place], float(usual[place]))
