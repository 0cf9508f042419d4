"""The space rows are clustered in: a public box, with one metric and one integer unit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import Bounds

UNITS = 2**16
"""Units in half the width of the widest column."""

COLUMNS_MAX = 1024
"""2**16 * 2**17 * 2**10 = 2**43: distances of quantised rows are exact in float64, in any order of addition."""


@dataclass(frozen=True, eq=False)
class Box:
    """Columns with public bounds."""

    names: tuple[str, ...]
    low: Floats
    width: Floats
    """Shape (n_columns,)."""
    factor: Floats
    """What one unit of a column counts in distances: 1, or one over its width. Shape (n_columns,)."""

    @classmethod
    def of(cls, bounds: Mapping[str, Bounds], scaled: bool) -> "Box":
        """Return the box of `bounds`; with `scaled`, every column counts by its share of its width."""
        if len(bounds) > COLUMNS_MAX:
            raise InvalidParameterError(f"at most {COLUMNS_MAX} columns can be clustered")
        low = np.asarray([b.low for b in bounds.values()])
        width = np.asarray([b.high - b.low for b in bounds.values()])
        return cls(tuple(bounds), low, width, 1 / width if scaled else np.ones(len(low)))

    @property
    def half_widths(self) -> Ints:
        """Half the width of each column, in units; the widest column has `UNITS`."""
        extent = self.width * self.factor
        units: Ints = np.maximum(np.rint(extent / extent.max() * UNITS), 1).astype(np.int64)
        return units

    def clip(self, rows: Floats) -> Floats:
        """Clamp rows to the box."""
        return np.clip(rows, self.low, self.low + self.width)

    def shares(self, rows: Floats) -> Floats:
        """Return the places of rows in the box, from 0 to 1 in each column."""
        return np.clip((self.clip(rows) - self.low) / self.width, 0.0, 1.0)

    def at(self, shares: Floats) -> Floats:
        """Return the rows at some shares of the box."""
        return self.clip(self.low + np.clip(shares, 0.0, 1.0) * self.width)

    def places(self, shares: Floats) -> Floats:
        """Return the places, in the metric of the box, of rows at some shares of the box."""
        return self.at(shares) * self.factor

    def quantise(self, rows: Floats) -> Ints:
        """Return rows in units from the midpoint, within ``half_widths``."""
        return np.rint((2 * self.shares(rows) - 1) * self.half_widths).astype(np.int64)

    def restore(self, units: Any) -> Floats:
        """Return the rows at some places given in units."""
        return self.at((np.asarray(units, dtype=np.float64) / self.half_widths + 1) / 2)

    def distances(self, rows: Floats, centres: Floats) -> Floats:
        """Return the distance of each row to each centre, in the metric of the box."""
        a, b = rows * self.factor, centres * self.factor
        origin = b.mean(axis=0)  # small numbers cancel less
        a, b = a - origin, b - origin
        squares = (a * a).sum(axis=1)[:, None] - 2 * a @ b.T + (b * b).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))
