"""How far a released table is from exact statistics. Private: never leaves the trusted zone."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.mechanisms.grid import Grid
from ptklib.statistics.distribution import inverted
from ptklib.statistics.layout import COUNT, Layout

Exact = Mapping[str, Ints]


def true_error(layout: Layout, table: Any, exact: Exact) -> float:
    """Return the mean over statistics, values and rows of the miss, each in parts of its range.

    Notes
    -----
    The error of a mean is in widths of its bounds, of a variance in squared half widths, of a standard
    deviation in half widths. The error of a quantile is in widths, from the same quantile of the exact bins,
    and that of a histogram is total variation. When only counts are released, it is the total variation
    between the shares of groups.
    """
    count = exact[COUNT].astype(np.float64)
    rows = float(count.sum())
    if rows == 0:
        return np.nan
    released = {name: table.column(name).to_numpy() for name in layout.features()}
    if not layout.bounds:
        noisy = np.maximum(released[COUNT], 0.0)
        shares = noisy / noisy.sum() if noisy.sum() > 0 else np.full(len(noisy), 1 / len(noisy))
        return float(np.abs(shares - count / rows).sum() / 2)
    errors = []
    for name in layout.bounds:
        misses = _moment_misses(layout, name, released, exact) + _bin_misses(layout, name, released, exact)
        errors.append(float(np.mean([(miss * count).sum() / rows for miss in misses])))
    return float(np.clip(np.mean(errors), 0.0, 1.0))


def _moment_misses(layout: Layout, name: str, released: Mapping[str, Floats], exact: Exact) -> list[Floats]:
    """Return the miss of each group for the mean, the variance and the standard deviation of one value."""
    if not layout.sums:
        return []
    bounds, misses = layout.bounds[name], []
    n, grid = np.maximum(exact[COUNT], 1), Grid.for_bounds(bounds)
    centred = exact[f"{name}_sum"] * grid.step / n
    if layout.asks("mean") or layout.asks("sum"):
        ratio = released[f"{name}_sum"] / np.maximum(released[COUNT], 1.0)
        guess = np.clip(released.get(f"{name}_mean", ratio), bounds.low, bounds.high)
        misses.append(np.abs(guess - bounds.midpoint - centred) / (bounds.high - bounds.low))
    if layout.squares:
        half = bounds.half_width
        even = exact[f"{name}_squares"] * (grid.step * half) / n + half * half / 2
        variance = np.clip(even - centred * centred, 0.0, half * half)
        if layout.asks("variance"):
            misses.append(np.abs(released[f"{name}_variance"] - variance) / (half * half))
        if layout.asks("std"):
            misses.append(np.abs(released[f"{name}_std"] - np.sqrt(variance)) / half)
    return misses


def _bin_misses(layout: Layout, name: str, released: Mapping[str, Floats], exact: Exact) -> list[Floats]:
    """Return the miss of each group for the shares and for each quantile of one value."""
    if name not in layout.bins:
        return []
    bins, bounds = layout.bins[name], layout.bounds[name]
    counts = exact[f"{name}_bins"].reshape(-1, bins.n_bins)
    shares = counts / np.maximum(counts.sum(axis=1), 1)[:, None]
    misses = []
    if layout.asks("histogram"):
        guess = np.column_stack([released[column] for column in layout.share_columns(name)])
        misses.append(np.abs(guess - shares).sum(axis=1) / 2)
    if layout.quantiles:
        true = inverted(shares, bins.edges, layout.quantiles)
        guess = np.column_stack([released[column] for column in layout.quantile_columns(name)])
        misses.append(np.abs(guess - true).mean(axis=1) / (bounds.high - bounds.low))
    return misses
