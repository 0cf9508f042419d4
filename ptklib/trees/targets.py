"""The target of trees: a class among public ones, or a number within public bounds."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats, Ints
from ptklib.columns import as_numbers
from ptklib.domains import OUTSIDE, Domain
from ptklib.exceptions import InvalidDomainError, InvalidParameterError
from ptklib.names import class_suffixes
from ptklib.privacy import SUMS_MOST, Bounds

CLASSES_MAX = 500
UNITS = 2**16
"""Units in half the width of the label's bounds; also in a probability of 1."""


@dataclass(frozen=True, eq=False)
class Target:
    """The label: `classes` or `bounds`, exactly one of them."""

    column: str
    """How messages call it."""
    classes: Domain | None = None
    bounds: Bounds | None = None

    @classmethod
    def of(cls, column: str, classes: Any, label_bounds: Any) -> "Target":
        """Read the parameters `classes` and `label_bounds`."""
        if (classes is None) == (label_bounds is None):
            raise InvalidParameterError("give either classes=[...] or label_bounds=(low, high)")
        if classes is None:
            return cls(column, bounds=Bounds.of(label_bounds, column).within(SUMS_MOST, column))
        domain = Domain.of(column, classes)
        if not 2 <= len(domain) <= CLASSES_MAX:
            raise InvalidDomainError(f"classes must hold from 2 to {CLASSES_MAX} values")
        return cls(column, classes=domain)

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for a number."""
        return 0 if self.classes is None else len(self.classes)

    @property
    def names(self) -> list[str]:
        """How classes are written in column names."""
        return class_suffixes(() if self.classes is None else self.classes.values)

    def encode(self, label: Any) -> tuple[Bools, Ints]:
        """Return which rows have a usable label, and the label of each: a code, or units from the midpoint.

        Notes
        -----
        A label outside `classes`, and one that is missing, is not usable. Numbers, infinite ones too, are clamped.
        """
        if self.classes is not None:
            codes = self.classes.encode(label)
            return codes != OUTSIDE, codes
        assert self.bounds is not None
        values = as_numbers(label, self.column)
        usable = ~np.isnan(values)
        clamped = np.clip(np.where(usable, values, self.bounds.low), self.bounds.low, self.bounds.high)
        share = (clamped - self.bounds.midpoint) / self.bounds.half_width
        return usable, np.rint(np.clip(share, -1.0, 1.0) * UNITS).astype(np.int64)

    def numbers(self, shares: Floats) -> Floats:
        """Return the labels at some distances from the midpoint, in half widths; within the bounds."""
        assert self.bounds is not None
        values = self.bounds.midpoint + np.asarray(shares) * self.bounds.half_width
        return np.clip(values, self.bounds.low, self.bounds.high)
