"""Disjoint Bernoulli samples of a profile set by ranges of the keyed hash of the privacy unit."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Bools, Floats, Ints
from ptklib.exceptions import InvalidParameterError, SchemaError
from ptklib.tables import as_table, column_names, n_rows, slice_rows, take_rows

HASHES = 2**64
"""Keyed hashes lie in [0, HASHES)."""

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class HashRange:
    """Hashes from `low` up to but not including `high`; public."""

    low: int
    high: int

    def split(self, n_parts: int) -> "Sequence[HashRange]":
        """Return `n_parts` ranges that follow each other and differ in length by at most 1."""
        width = self.high - self.low
        edges = [self.low + width * i // n_parts for i in range(n_parts + 1)]
        return [HashRange(a, b) for a, b in pairwise(edges)]


class ProfileSet(Protocol):
    """Rows that may be read by ranges of the keyed hash of their privacy unit."""

    @property
    def population(self) -> float:
        """Public estimate of the number of privacy units in `hashes`: from the policy, or paid for."""

    @property
    def hashes(self) -> HashRange:
        """The range of the hashes of the set."""

    def empty(self) -> Any:
        """Return a table of no rows with the columns of the set."""

    def sample(self, part: HashRange) -> tuple[Any, Ints]:
        """Return the rows in `part` as one table, and the number of each row's unit, which it has in every sample."""


class HashedRows:
    """A profile set in memory.

    Parameters
    ----------
    table : table or array-like of shape (n_rows, n_columns)
        As `fit` reads it.
    hashes : array-like of shape (n_rows,), uint64
        Keyed hash of the privacy unit of each row: rows of one unit have the same.
    windows : array-like of shape (n_rows,), integer, optional
        Window of each row. Rows of one hash in two windows are then two units, as where one unit is a user's rows of
        one window. Without it, rows of one hash are one unit.
    population : float
        Public estimate of the number of privacy units. Never ``len(table)``, which is private.
    within : tuple (low, high), optional
        The range of hashes; ``(0, 2**64)`` by default. Rows outside are not in the set.

    Notes
    -----
    A keyed hash is as good as a coin of its own for each unit as long as the key is secret and was fixed before the
    rows were known. Units of one hash share their coin: a sample has all of them or none.
    """

    def __init__(
        self,
        table: Any,
        hashes: npt.ArrayLike,
        *,
        population: float,
        within: tuple[int, int] = (0, HASHES),
        windows: npt.ArrayLike | None = None,
    ) -> None:
        words = np.asarray(hashes)
        if words.dtype != np.uint64 or words.ndim != 1:
            raise SchemaError("hashes must be a vector of uint64")
        table = as_table(table)
        if len(words) != n_rows(table):
            raise SchemaError("table and hashes have different lengths")
        low, high = within
        if not 0 <= low < high <= HASHES:
            raise InvalidParameterError("within must be a range of hashes, from 0 to 2**64")
        if not population > 0:
            raise InvalidParameterError("population must be a positive public number")
        self.population = float(population)
        self.hashes = HashRange(int(low), int(high))
        order, self._units = _ordered(words, windows)
        self._words = words[order]
        self._table = take_rows(table, order, column_names(table))

    def empty(self) -> Any:
        """Return a table of no rows with the columns of the set."""
        return slice_rows(self._table, 0, 0)

    def sample(self, part: HashRange) -> tuple[Any, Ints]:
        """Return the rows in `part` as one table, and the number of each row's unit."""
        first, stop = (
            len(self._words) if edge == HASHES else int(np.searchsorted(self._words, np.uint64(edge)))
            for edge in (part.low, part.high)
        )
        return slice_rows(self._table, first, stop), self._units[first:stop]

    def __repr__(self) -> str:
        return f"HashedRows(population={self.population:g})"


def _ordered(words: Hashes, windows: npt.ArrayLike | None) -> tuple[Ints, Ints]:
    """Return the places of all rows in the order of hash and window, and the number of each row's unit in that order.

    Rows of one unit stay in their order.
    """
    if windows is None:
        order, columns = np.argsort(words, kind="stable"), [words]
    else:
        numbers = np.asarray(windows)
        if numbers.dtype.kind not in "iu" or numbers.shape != words.shape:
            raise SchemaError("windows must be a vector of whole numbers, one for each row")
        order, columns = np.lexsort((numbers, words)), [words, numbers]
    begins = np.zeros(len(words), dtype=np.bool_)
    for column in columns:
        begins[1:] |= np.diff(column[order]) != 0
    return order, np.cumsum(begins, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of a sample as private examples: all rows of one privacy unit are one."""

    kept: Bools
    """Rows that count; what a family drops is no example. Shape (n_rows,)."""
    unit: Ints
    """Number of the unit of each kept row. Shape (n_kept,)."""
    shares: Floats
    """What a kept row weighs: one over the kept rows of its unit. Shape (n_kept,)."""
    n_units: int

    @classmethod
    def of(cls, units: Ints, kept: Bools) -> "Examples":
        """Group the kept rows of a sample by the number of their unit."""
        _, unit, size = np.unique(units[kept], return_inverse=True, return_counts=True)
        unit = unit.reshape(-1).astype(np.int64)
        return cls(kept, unit, 1.0 / size[unit], len(size))

    def weights(self) -> Floats:
        """Return the weight of each row of the sample; 0 for rows that do not count."""
        weight = np.zeros(len(self.kept))
        weight[self.kept] = self.shares
        return weight

    def per_unit(self, losses: Floats) -> Floats:
        """Return the mean loss of each unit, in [0, 1]; a loss that is no number counts as 1.

        Notes
        -----
        It depends on the rows of that unit alone, also in its last bit: they are added in their order.
        """
        values = np.asarray(losses, dtype=np.float64)[self.kept]
        values = np.clip(np.where(np.isnan(values), 1.0, values), 0.0, 1.0)
        return np.clip(np.bincount(self.unit, values * self.shares, self.n_units), 0.0, 1.0)
