"""Candidate trees of a round of boosting: public random grids of one, two or three features."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from ptklib.arrays import Ints
from ptklib.trees.binning import Codes
from ptklib.trees.structure import Partition, Random, Trees, grid_tree, shares

TOGETHER = 3
"""A tree looks at so many features at most: a grid of more has few intervals of each."""

_WARPS = (1.0, 2.0, 4.0)
"""How the scale of a feature is bent: with 4, intervals near its low end are much finer."""

_BLOCK = 2**14
"""Rows whose intermediate results stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Grids:
    """Trees whose leaves are the cells of a grid of intervals."""

    depth: int
    """Levels of each tree, divided over its features."""
    partitions: Sequence[Partition]
    """Features cut `depth` times; a grid takes the first levels of some."""
    members: Sequence[tuple[int, ...]]
    """The partitions of each grid."""

    @classmethod
    def random(cls, random: Random, n_bins: Sequence[int], depth: int, n_grids: int) -> "Grids":
        """Return random grids: of single features, of pairs and of triples, all of them where there are few."""
        partitions: list[Partition] = []
        places: dict[tuple[int, float], int] = {}
        members = []
        for features in _sets(random, len(n_bins), min(TOGETHER, depth), n_grids):
            chosen = list(zip(features, random.choice(_WARPS, len(features)).tolist(), strict=True))
            for feature, warp in chosen:
                if (feature, warp) not in places:
                    places[feature, warp] = len(partitions)
                    partitions.append(Partition.random(random, feature, n_bins[feature], depth, warp))
            members.append(tuple(places[pair] for pair in chosen))
        return cls(depth, partitions, members)

    def tree(self, grid: int) -> Trees:
        """Return one grid as a tree."""
        parts, levels = self.members[grid], shares(len(self.members[grid]), self.depth)
        return grid_tree([self.partitions[p].coarser(n) for p, n in zip(parts, levels, strict=True)])

    def sums(self, codes: Codes, units: Ints) -> Ints:
        """Return exact sums of `units`, of shape (n_scores, n_rows), in every cell: (n_grids, n_cells, n_scores)."""
        n_cells, total = 2**self.depth, np.zeros((len(self.members), len(units), 2**self.depth))
        for start in range(0, codes.shape[1], _BLOCK):
            rows = slice(start, start + _BLOCK)
            block = units[:, rows].astype(np.float64)  # whole numbers, so sums are exact
            intervals = [part.lookup[codes[part.feature, rows]] for part in self.partitions]
            for grid, parts in enumerate(self.members):
                cells = self._cells(intervals, parts)
                for score, step in enumerate(block):
                    total[grid, score] += np.bincount(cells, weights=step, minlength=n_cells)
        return total.astype(np.int64).transpose(0, 2, 1)

    def _cells(self, intervals: Sequence[Codes], parts: tuple[int, ...]) -> Ints:
        if len(parts) == 1:
            return intervals[parts[0]].astype(np.int64)
        levels = shares(len(parts), self.depth)
        cells = intervals[parts[0]] >> (self.depth - levels[0])
        for part, level in zip(parts[1:], levels[1:], strict=True):
            cells = (cells << level) | (intervals[part] >> (self.depth - level))
        return cells.astype(np.int64)


def _sets(random: Random, n_features: int, most: int, wanted: int) -> Iterator[list[int]]:
    """Return sets of features, as many of each size as there are or as are wanted of it."""
    sizes = [k for k in range(1, most + 1) if k <= n_features]
    left = wanted
    for k in sizes:
        mine = left if k == sizes[-1] else min(wanted // len(sizes), left)
        if k != sizes[-1] and comb(n_features, k) <= mine:
            sets = [list(features) for features in combinations(range(n_features), k)]
        else:
            sets = [random.permutation(n_features)[:k].tolist() for _ in range(mine)]
        left -= len(sets)
        yield from sets
