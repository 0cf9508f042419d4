"""The integer program of the allocation as arrays (PTK paper, Fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptklib.arrays import Ints

LARGEST = 2**62


@dataclass(frozen=True, eq=False)
class Program:
    """PTKs with menus, and the room of each partition.

    Parameters
    ----------
    rows, costs : ndarray of shape (n_ptks, n_choices)
        Per PTK rows increasing and costs decreasing, padded with the last choice. A cost is at most `capacity`.
    deltas : ndarray of shape (n_ptks,)
        The part of `delta_capacity` that each PTK takes in its partition, whatever its choice.
    pins : ndarray of shape (n_ptks,)
        The partition a PTK must be in, or -1.
    """

    rows: Ints
    costs: Ints
    deltas: Ints
    pins: Ints
    capacity: int
    delta_capacity: int
    partitions: int

    @property
    def size(self) -> int:
        """How many PTKs there are."""
        return len(self.rows)

    @property
    def delta_binds(self) -> bool:
        """Whether the deltas of all PTKs together are too much for one partition."""
        return bool(self.deltas.sum() > self.delta_capacity)

    @property
    def floor(self) -> int:
        """Rows that the largest partition has at least: some PTK needs them at any loss."""
        return int(self.rows[:, 0].max(initial=0))

    def thresholds(self, most: int | None = None) -> Ints:
        """Return the row counts that a partition's largest n can have, up to `most`, ascending, 0 (unused) first."""
        counts = np.unique(self.rows)
        return np.concatenate([[0], counts if most is None else counts[counts <= most]])

    def weights(self, cap: int) -> Ints:
        """Return the least cost of each PTK with at most `cap` rows; more than the capacity where there is none."""
        places = (self.rows <= cap).sum(axis=1)
        of_place = self.costs[np.arange(self.size), np.maximum(places - 1, 0)]
        return np.where(places > 0, of_place, self.capacity + 1)

    def table(self, caps: Ints) -> Ints:
        """Return `weights` for each of `caps`, an array of shape (n_caps, n_ptks)."""
        return np.stack([self.weights(cap) for cap in caps])

    def of_pair(self, members: Ints, pair: tuple[int, int]) -> Program:
        """Return the program of the PTKs in a pair of partitions, which become 0 and 1."""
        pins = self.pins[members]
        return replace(
            self,
            rows=self.rows[members],
            costs=self.costs[members],
            deltas=self.deltas[members],
            pins=np.select([pins == pair[0], pins == pair[1]], [0, 1], -1),
            partitions=2,
        )

    def cap_of(self, members: Ints) -> int | None:
        """Return the fewest rows with which `members` fit one partition; None if no number of rows is enough.

        Exact: with at most n rows each PTK takes its least cost, so what they need together falls with n.
        """
        if not len(members):
            return 0
        if self.deltas[members].sum() > self.delta_capacity:
            return None
        rows, costs = self.rows[members], self.costs[members]
        if costs[:, -1].sum() > self.capacity:
            return None
        caps = np.unique(rows)
        low, high = int(np.searchsorted(caps, rows[:, 0].max())), len(caps) - 1
        every = np.arange(len(members))
        while low < high:
            middle = (low + high) // 2
            places = (rows <= caps[middle]).sum(axis=1) - 1
            if costs[every, places].sum() <= self.capacity:
                high = middle
            else:
                low = middle + 1
        return int(caps[low])


def program_of(
    menus: Sequence[Sequence[tuple[int, int]]],
    deltas: Sequence[int],
    pins: Sequence[int],
    *,
    capacity: int,
    delta_capacity: int,
    partitions: int,
) -> Program:
    """Return the program for menus of (cost, rows), rows increasing and costs decreasing, none above the capacity.

    Parameters
    ----------
    deltas, pins : sequence of int
        For each PTK, as `Program` has them.
    """
    longest = max((len(menu) for menu in menus), default=1)
    padded = [[*menu, *[menu[-1]] * (longest - len(menu))] for menu in menus]
    pairs = np.array(padded, dtype=np.int64).reshape(len(menus), longest, 2)
    # a delta above the capacity fits nowhere, by however much
    shares = np.array([min(delta, delta_capacity + 1) for delta in deltas], dtype=np.int64)
    return Program(
        np.ascontiguousarray(pairs[:, :, 1]),
        np.ascontiguousarray(pairs[:, :, 0]),
        shares,
        np.array(pins, dtype=np.int64),
        capacity,
        delta_capacity,
        partitions,
    )
