"""The structure of trees: complete binary trees over binned features, with public random splits."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ptklib.arrays import Ints
from ptklib.trees.binning import Codes

Random = np.random.Generator

_MIDDLE = (0.3, 0.7)
"""A random split leaves at least about this share of an interval of bins on each side."""

_TABLE_MAX = 2**16
"""Entries of a table that says where a row goes over several levels."""


@dataclass(frozen=True, eq=False)
class Trees:
    """Complete binary trees: inner node i has children ``2 i + 1`` and ``2 i + 2``; leaves have no split."""

    features: Ints
    """The feature all nodes of a level look at. Shape (n_trees, depth)."""
    splits: Ints
    """A row goes left when its code is below the split of its node. Shape (n_trees, 2**depth - 1)."""

    @property
    def depth(self) -> int:
        """Number of levels of inner nodes."""
        return int(self.features.shape[1])

    @classmethod
    def stack(cls, trees: Sequence["Trees"]) -> "Trees":
        """Put trees of one depth one after the other."""
        return cls(np.concatenate([t.features for t in trees]), np.concatenate([t.splits for t in trees]))

    def node_features(self) -> Ints:
        """Return the feature each inner node looks at, of the shape of `splits`."""
        return np.repeat(self.features, 2 ** np.arange(self.depth), axis=1)

    def route(self, tree: int, n_bins: Sequence[int]) -> "Route":
        """Return the way from codes to the leaf of one tree."""
        steps: list[tuple[int, int, Ints]] = []
        level = 0
        for feature, same in groupby(self.features[tree].tolist()):
            n_levels, width = len(list(same)), n_bins[feature] + 1
            if width << level <= _TABLE_MAX:
                node, code = np.divmod(np.arange(width << level), width)
                for split in self._levels(tree, level, n_levels):
                    node = 2 * node + (code >= split[node])
                steps.append((feature, width, node))
            else:
                steps += [(feature, 0, split) for split in self._levels(tree, level, n_levels)]
            level += n_levels
        return Route(tuple(steps))

    def leaves(self, tree: int, codes: Codes, n_bins: Sequence[int]) -> Ints:
        """Return the leaf, from 0, that each row reaches in one tree."""
        return self.route(tree, n_bins).leaves(codes)

    def _levels(self, tree: int, first: int, n_levels: int) -> list[Ints]:
        return [self.splits[tree, 2**i - 1 : 2 ** (i + 1) - 1] for i in range(first, first + n_levels)]


@dataclass(frozen=True, eq=False)
class Route:
    """The paths of rows in one tree, by a table for all levels that look at the same feature."""

    steps: tuple[tuple[int, int, Ints], ...]
    """A node goes to ``table[node * width + code]``; a `width` of 0 stands for one level and its splits, where tables
    would be large."""

    def leaves(self, codes: Codes) -> Ints:
        """Return the leaf, from 0, that each row reaches; `codes` has one row per feature."""
        feature, width, table = self.steps[0]
        start = np.zeros(codes.shape[1], dtype=np.int64)
        node = table[codes[feature]] if width else start + (codes[feature] >= table[0])
        for feature, width, table in self.steps[1:]:
            node = (
                table[node * width + codes[feature]] if width else 2 * node + (codes[feature] >= table[node])
            )
        return np.asarray(node, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Partition:
    """One feature cut into ``2**depth`` intervals by successive halving at random bins."""

    feature: int
    splits: tuple[Ints, ...]
    """Per level, the split of each of its ``2**level`` intervals."""
    lookup: Codes
    """The interval of each code. Shape (n_bins + 1,)."""

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.splits)

    def coarser(self, depth: int) -> "Partition":
        """Return the first levels of this partition."""
        lookup = (self.lookup >> (self.depth - depth)).astype(self.lookup.dtype)
        return Partition(self.feature, self.splits[:depth], lookup)

    @classmethod
    def random(cls, random: Random, feature: int, n_bins: int, depth: int, warp: float = 1.0) -> "Partition":
        """Cut at random places.

        Parameters
        ----------
        warp : float
            Above 1, intervals near the low end are finer.
        """
        places = random.uniform(*_MIDDLE, size=2**depth - 1).tolist()
        ends, levels = [(0, n_bins + 1)], []
        for level in range(depth):
            cuts = places[2**level - 1 : 2 ** (level + 1) - 1]
            splits = [
                _cut(place, low, high, n_bins, warp) for place, (low, high) in zip(cuts, ends, strict=True)
            ]
            levels.append(np.asarray(splits, dtype=np.int64))
            pairs = [
                ((low, min(split, high)), (max(split, low), high))
                for (low, high), split in zip(ends, splits, strict=True)
            ]
            ends = [half for pair in pairs for half in pair]
        lookup = np.zeros(n_bins + 1, dtype=np.uint16)
        for interval, (low, high) in enumerate(ends):
            lookup[low:high] = interval
        return cls(feature, tuple(levels), lookup)


def _cut(place: float, low: int, high: int, n_bins: int, warp: float) -> int:
    """Return a split, in ``1 .. n_bins``, of the codes ``low .. high - 1``; of one code or none, an end."""
    if high - low <= 1:
        return min(max(low, 1), n_bins)
    if warp == 1.0:
        split = low + place * (high - low)
    else:
        bent_low, bent_high = low ** (1 / warp), high ** (1 / warp)
        split = (bent_low + place * (bent_high - bent_low)) ** warp
    return min(max(round(split), low + 1), high - 1)


def grid_tree(parts: Sequence[Partition]) -> Trees:
    """Return the tree that splits by one partition after the other: its leaves are the cells of a grid."""
    features: list[int] = []
    splits: list[Ints] = []
    for part in parts:
        before = len(features)
        for split in part.splits:
            # A node of this level is a cell of the parts before and an interval of this one so far.
            splits.append(np.tile(split, 2**before))
            features.append(part.feature)
    return Trees(np.asarray([features], dtype=np.int64), np.concatenate(splits)[None, :])


def shares(n: int, depth: int) -> list[int]:
    """Divide `depth` levels over n features, the first ones getting more."""
    return [depth // n + (i < depth % n) for i in range(n)]
