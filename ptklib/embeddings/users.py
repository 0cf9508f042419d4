"""Rows grouped by user, at most so many each: what every measurement of the family is taken from."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ptklib.arrays import Bools, Floats, Ints
from ptklib.bounding import bounded_rows
from ptklib.mechanisms.coins import tossed

_ENTRIES_AT_ONCE = 2**14
"""Entries whose factors stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Users:
    """Items and weights of each user, end to end: **private**."""

    ids: Ints
    """Codes of the users that have any row. Shape (n_users,)."""
    starts: Ints
    """Where the entries of each user begin; the last is their number. Shape (n_users + 1,)."""
    items: Ints
    """Item codes, distinct for each user. Shape (n_entries,)."""
    weights: Floats
    """Rows, or the sum of ratings, of the user and the item. Shape (n_entries,)."""

    @classmethod
    def of(cls, rows: Ints, unit_weight: float, n_items: int) -> "Users":
        """Group rows by user; rows of the same user and item become one entry.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, 3)
            User code, item code, weight in units.
        unit_weight : float
            The weight of one unit.
        """
        pairs, where = np.unique(rows[:, 0] * n_items + rows[:, 1], return_inverse=True)
        total = np.zeros(len(pairs), dtype=np.int64)
        np.add.at(total, where, rows[:, 2])
        ids, starts = np.unique(pairs // n_items, return_index=True)
        return cls(
            ids,
            np.append(starts, len(pairs)).astype(np.int64),
            pairs % n_items,
            total.astype(np.float64) * unit_weight,
        )

    @classmethod
    def bounded(cls, rows: Ints, unit_weight: float, n_items: int, max_rows: int) -> "Users":
        """Group at most `max_rows` rows of each user, a uniform choice among its own."""
        return cls.of(rows[bounded_rows(rows[:, 0], max_rows)], unit_weight, n_items)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def owners(self) -> Ints:
        """The place of the user of each entry."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.starts))

    def take(self, places: Ints) -> "Users":
        """Return some of the users, in the order of `places`."""
        lengths = np.diff(self.starts)[places]
        starts = np.append(0, np.cumsum(lengths)).astype(np.int64)
        entries = np.repeat(self.starts[places] - starts[:-1], lengths) + np.arange(starts[-1])
        return Users(self.ids[places], starts, self.items[entries], self.weights[entries])

    def keep(self, entries: Bools) -> "Users":
        """Return all users with some of their entries."""
        lengths = np.bincount(self.owners[entries], minlength=len(self))
        starts = np.append(0, np.cumsum(lengths)).astype(np.int64)
        return Users(self.ids, starts, self.items[entries], self.weights[entries])

    def chunks(self) -> Iterator["Users"]:
        """Cut into pieces of whole users with some ten thousand entries."""
        cuts = np.searchsorted(self.starts, np.arange(0, self.starts[-1], _ENTRIES_AT_ONCE))
        edges = np.unique(np.append(cuts, len(self)))
        for low, high in pairwise(edges):
            first, last = self.starts[low], self.starts[high]
            yield Users(
                self.ids[low:high],
                self.starts[low : high + 1] - first,
                self.items[first:last],
                self.weights[first:last],
            )

    def coins(self, rate: float) -> Bools:
        """Toss a fresh coin for each user: True with probability `rate`, rounded down to 64 bits."""
        return tossed(len(self), rate)
