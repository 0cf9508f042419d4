"""Exact integer vectors of some rows: counts, centred sums, centred squares, bins. Private until noised."""

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.domains import OUTSIDE, Domain, product_codes
from ptklib.inputs import InputTable
from ptklib.mechanisms.grid import Grid, blocks, count_by, sum_by
from ptklib.statistics.layout import COUNT, Layout, level_names


def table_codes(domains: tuple[Domain, ...], table: InputTable) -> Ints:
    """Return the group of each row, or `OUTSIDE`."""
    return product_codes(domains, [d.encode(table.column(d.column)) for d in domains])


def collect(layout: Layout, table: InputTable) -> dict[str, Ints]:
    """Return the exact vector of each component.

    Notes
    -----
    Dropped rows do the same work as others, in cells after those of the last group that are thrown away.
    """
    readers, size = [d.reader(table.column(d.column)) for d in layout.domains], layout.n_groups
    columns = {name: table.numbers(name) for name in layout.bounds}
    grids = {name: Grid.for_bounds(bound) for name, bound in layout.bounds.items()}
    totals = _zeros(layout, size + 1)
    for rows in blocks(table.n_rows, size * max((b.n_bins for b in layout.bins.values()), default=1)):
        codes = product_codes(layout.domains, [read(rows) for read in readers])
        kept = codes != OUTSIDE
        for column in columns.values():
            kept &= np.isfinite(column[rows])
        cells = np.where(kept, codes, size)
        totals[COUNT] += count_by(cells, size + 1)
        for name, column in columns.items():
            if layout.sums:
                units = grids[name].whole(column[rows])
                totals[f"{name}_sum"] += sum_by(cells, units, size + 1)
            if layout.squares:
                totals[f"{name}_squares"] += sum_by(cells, _squares(units, grids[name].width), size + 1)
            if name in layout.bins:
                bins = layout.bins[name]
                places = bins.codes(np.where(kept, column[rows], layout.bounds[name].low))
                total = totals[f"{name}_bins"]
                total += count_by(cells * bins.n_bins + places, len(total))
    return _levels(layout, totals, size)


def _zeros(layout: Layout, size: int) -> dict[str, Ints]:
    """Return room for every vector that rows are added to, of `size` groups."""
    totals = {COUNT: np.zeros(size, dtype=np.int64)}
    for name in layout.bounds:
        names = [f"{name}_sum"] * layout.sums + [f"{name}_squares"] * layout.squares
        totals |= {vector: np.zeros(size, dtype=np.int64) for vector in names}
    for name, bins in layout.bins.items():
        totals[f"{name}_bins"] = np.zeros(size * bins.n_bins, dtype=np.int64)
    return totals


def _levels(layout: Layout, totals: dict[str, Ints], size: int) -> dict[str, Ints]:
    """Return the vectors without the cells of dropped rows, and the coarser levels of bins."""
    units = {}
    for name, total in totals.items():
        units[name] = total[: size * (len(total) // (size + 1))]
    for name, bins in layout.bins.items():
        levels = bins.collect(units.pop(f"{name}_bins"))
        units |= dict(zip(level_names(name, bins), levels, strict=True))
    return {component.name: units[component.name] for component in layout.components()}


def _squares(units: Floats, width: int) -> Floats:
    """Return squares of units, on the grid of units over `width` and around half of the largest: whole numbers.

    A square is at most ``width**2`` = 2**42, so it is exact in float64, and within `width` / 2 of the centre.
    """
    squares = units * units
    squares /= width
    np.rint(squares, out=squares)
    squares -= width // 2
    return squares
