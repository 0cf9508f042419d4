"""Public bins: every feature becomes a small integer code that depends on its own row only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats, Ints
from ptklib.domains import Domain
from ptklib.inputs import InputTable
from ptklib.privacy import Bounds

Codes = npt.NDArray[np.uint16]

MISSING = 0
"""Code of a missing value and of a value outside a domain: below all others, so it goes left in every tree."""

BINS_MAX = 4096
_PER_WORD = 4
"""Codes of 16 bits in an integer of 64."""


@dataclass(frozen=True, eq=False)
class Feature:
    """One feature with public bins of codes ``1 .. n_bins``."""

    name: str
    thresholds: Floats
    """A value at or above ``thresholds[j - 1]`` has a code of at least j. For a domain, the place of a value takes the
    part of the value. Shape (n_bins,)."""
    domain: Domain | None = None
    bounds: Bounds | None = None
    """Values are clamped to them."""

    @classmethod
    def between(cls, name: str, bounds: Bounds, n_bins: int) -> "Feature":
        """Return bins of equal width."""
        edges = bounds.low + (bounds.high - bounds.low) * np.arange(n_bins) / n_bins
        return cls(name, edges, bounds=bounds)

    @classmethod
    def cut_at(cls, name: str, bounds: Bounds, thresholds: Floats) -> "Feature":
        """Return bins between increasing thresholds inside the bounds."""
        return cls(name, np.concatenate([[bounds.low], thresholds]), bounds=bounds)

    @classmethod
    def of_domain(cls, name: str, domain: Domain) -> "Feature":
        """Return one bin per value, in the declared order."""
        return cls(name, np.arange(len(domain), dtype=np.float64), domain=domain)

    @property
    def n_bins(self) -> int:
        """Number of bins, the one of missing values not counted."""
        return len(self.thresholds)

    def codes(self, table: InputTable) -> Codes:
        """Return the code of each row."""
        if self.domain is not None:
            return (self.domain.encode(table.column(self.name)) + 1).astype(np.uint16)
        assert self.bounds is not None
        values = table.numbers(self.name)
        missing = np.isnan(values)
        clamped = np.clip(np.where(missing, self.bounds.low, values), self.bounds.low, self.bounds.high)
        codes = np.searchsorted(self.thresholds, clamped, side="right").astype(np.uint16)
        codes[missing] = MISSING
        return codes


def encode(features: Sequence[Feature], table: InputTable) -> Codes:
    """Return the codes of all features, one row of the result per feature."""
    codes = np.empty((len(features), table.n_rows), dtype=np.uint16)
    for place, feature in enumerate(features):
        codes[place] = feature.codes(table)
    return codes


def pack(codes: Codes, label: Ints) -> Ints:
    """Return one vector of integers per row, end to end: its codes, four in each, and its label."""
    n_features, n_rows = codes.shape
    words = -(-n_features // _PER_WORD)
    wide = np.zeros((n_rows, words * _PER_WORD), dtype="<u2")
    wide[:, :n_features] = codes.T
    packed = np.empty((n_rows, words + 1), dtype=np.int64)
    packed[:, :words] = wide.view("<i8")
    packed[:, words] = label
    return packed.reshape(-1)


def unpack(packed: Ints, n_features: int) -> tuple[Codes, Ints]:
    """Return the codes and labels that `pack` put end to end."""
    words = -(-n_features // _PER_WORD)
    rows = packed.reshape(-1, words + 1)
    wide: Any = np.ascontiguousarray(rows[:, :words]).astype("<i8", copy=False).view("<u2")
    return np.ascontiguousarray(wide[:, :n_features].T).astype(np.uint16, copy=False), rows[:, words].copy()
