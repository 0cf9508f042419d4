"""Integer grids: public bounds become a grid, rows become integers before they are added."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats, Ints
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import Bounds

ROWS_MAX = 2**40
"""Public assumption: no release adds more rows than this."""

UNITS_MAX = 2**21
"""Units in half the width of the bounds. ROWS_MAX * UNITS_MAX = 2**61 leaves room for noise below 2**62."""

_BLOCK = 2**14
_CHUNK = 2**31
"""Rows per float64 bincount: 2**31 * 2**21 = 2**52 keeps every partial sum an exact integer."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A public integer grid around the midpoint of public bounds.

    Notes
    -----
    A float sum has a larger sensitivity than its real-valued twin, because rounding depends on the other rows
    and on their order. Integers add exactly, so adding or removing one row moves a sum of units by at most
    `width`, whatever the data are.
    """

    centre: float
    step: float
    width: int = UNITS_MAX

    @classmethod
    def for_bounds(cls, bounds: Bounds) -> Self:
        """Return the grid of `bounds`: 2**21 steps on each side of the midpoint."""
        step = bounds.half_width / UNITS_MAX
        if not step >= sys.float_info.min:
            raise InvalidParameterError("the bounds are too narrow for an integer grid")
        return cls(centre=bounds.midpoint, step=step)

    def quantise(self, values: Floats) -> Ints:
        """Return units from the centre, within ``[-width, width]``; NaN becomes the centre."""
        return self.whole(values).astype(np.int64)

    def whole(self, values: Floats) -> Floats:
        """Return what `quantise` returns as whole numbers in float64, which `sum_by` adds without a copy."""
        with np.errstate(over="ignore", invalid="ignore"):
            units = np.asarray(values, dtype=np.float64) - self.centre
            units /= self.step
        np.rint(units, out=units)
        units[np.isnan(units)] = 0.0
        np.clip(units, -self.width, self.width, out=units)
        return units

    def restore(self, units: Ints) -> Floats:
        """Return sums of distances from the centre, in the unit of the bounds."""
        return np.asarray(units, dtype=np.float64) * self.step


def blocks(n_rows: int, n_groups: int) -> Iterator[slice]:
    """Cut rows into pieces that stay in the processor's cache, but are longer than a vector of all groups."""
    length = max(_BLOCK, 4 * n_groups)
    return (slice(start, start + length) for start in range(0, n_rows, length))


def count_by(codes: Ints, n_groups: int) -> Ints:
    """Count each code in ``[0, n_groups)``."""
    return np.bincount(codes, minlength=n_groups).astype(np.int64, copy=False)


def sum_by(codes: Ints, units: npt.NDArray[np.int64 | np.float64], n_groups: int) -> Ints:
    """Add the units, whole numbers, of each code in ``[0, n_groups)`` exactly."""
    total = np.zeros(n_groups, dtype=np.int64)
    for start in range(0, len(codes), _CHUNK):
        part = slice(start, start + _CHUNK)
        total += np.bincount(codes[part], weights=units[part], minlength=n_groups).astype(np.int64)
    return total
