"""Forests of counted leaves: random structure in one pass, or splits chosen privately level by level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.mechanisms.grid import count_by, sum_by
from ptklib.shrinkage import clipped_shares
from ptklib.trees.structure import Partition, Trees, grid_tree, shares
from ptklib.trees.targets import UNITS, Target
from ptklib.trees.values import node_means, node_sums

_TOGETHER = 3

_LEAST = 1e-3
"""Part of equal shares in overall shares."""

_SPREAD = np.asarray([0.1])
_MOST = 3.0
"""Variance of labels in a node, in squared half widths, and of its mean at most, in units of that."""


def random_trees(n_bins: Sequence[int], n_trees: int, depth: int, seed: int) -> Trees:
    """Return trees whose features and splits are public: random, but of a public seed.

    Notes
    -----
    Tree i looks at one, two or three features in turn, and the trees of one kind go through all features before
    any comes again.
    """
    random = np.random.default_rng([seed, 0])
    trees = []
    waiting: dict[int, list[int]] = {k: [] for k in range(1, _TOGETHER + 1)}
    for i in range(n_trees):
        k = min(1 + i % _TOGETHER, len(n_bins), depth)
        while len(waiting[k]) < k:
            waiting[k] += [f for f in random.permutation(len(n_bins)).tolist() if f not in waiting[k]]
        features, waiting[k] = waiting[k][:k], waiting[k][k:]
        trees.append(
            grid_tree(
                [
                    Partition.random(random, f, n_bins[f], part)
                    for f, part in zip(features, shares(k, depth), strict=True)
                ]
            )
        )
    return Trees.stack(trees)


@dataclass(frozen=True, eq=False)
class Leaves:
    """The sums over the rows of every leaf: of classes, or of rows and their labels."""

    target: Target
    depth: int

    @property
    def width(self) -> int:
        """Sums per leaf: one per class, or the number of rows and the sum of labels."""
        return self.target.n_classes or 2

    @property
    def names(self) -> tuple[str, ...]:
        """The vectors of one tree."""
        return ("counts",) if self.target.n_classes else ("counts", "sums")

    def sizes(self) -> dict[str, int]:
        """Return the cells of each vector."""
        leaves = 2**self.depth
        return (
            dict.fromkeys(self.names, leaves)
            if not self.target.n_classes
            else {"counts": leaves * self.width}
        )

    def exact(self, leaves: Ints, label: Ints) -> dict[str, Ints]:
        """Return the exact integer sums of one tree, from the leaf of each row."""
        n_leaves = 2**self.depth
        if self.target.n_classes:
            return {"counts": count_by(leaves * self.width + label, n_leaves * self.width)}
        return {"counts": count_by(leaves, n_leaves), "sums": sum_by(leaves, label, n_leaves)}


def columns_of(target: Target) -> list[str]:
    """Return what a forest says of each node."""
    if target.n_classes:
        return [f"count_{name}" for name in target.names] + [f"p_{name}" for name in target.names]
    return ["count", "sum", "mean"]


def read(leaves: Leaves, totals: Mapping[str, Floats], variance: Mapping[str, float]) -> dict[str, Floats]:
    """Return the columns of the table from noisy sums of leaves, each of shape (n_trees, n_cells)."""
    target = leaves.target
    if target.n_classes:
        counts = totals["counts"].reshape(len(totals["counts"]), -1, target.n_classes)
        numbers = np.concatenate(
            [np.stack([node_sums(tree) for tree in counts]), _class_shares(counts, variance["counts"])],
            axis=2,
        )
        return {name: numbers[:, :, i] for i, name in enumerate(columns_of(target))}
    assert target.bounds is not None
    means = _means(totals["counts"], totals["sums"] / UNITS, variance["counts"], variance["sums"] / UNITS**2)
    sums = np.stack([node_sums(sums) for sums in totals["sums"]]) * (target.bounds.half_width / UNITS)
    counts = np.stack([node_sums(counts) for counts in totals["counts"]])
    return {"count": counts, "sum": sums, "mean": target.numbers(means)}


def _class_shares(counts: Floats, variance: float) -> Floats:
    """Return class shares of every node, root first, from noisy counts of shape (n_trees, n_leaves, n_classes).

    Notes
    -----
    All trees count the same rows, so their roots are averaged; the roots of all trees lean on that. Shares of a rare
    class vary less from node to node than those of a frequent one: by a common part of ``p (1 - p)``.
    """
    n_trees, n_leaves, n_classes = counts.shape
    equal = np.full(n_classes, 1 / n_classes)
    pooled, noise = counts.sum(axis=(0, 1))[None, :] / n_trees, variance * n_leaves / n_trees
    size = pooled.sum(axis=1, keepdims=True)
    overall = clipped_shares(node_means(pooled, size, noise, noise * n_classes, equal, equal, 1.0))[0]
    overall = (1 - _LEAST) * overall + _LEAST * equal  # a class nobody was seen in may still come
    spread = overall * (1 - overall)
    return clipped_shares(
        np.stack(
            [
                node_means(
                    tree,
                    tree.sum(axis=1, keepdims=True),
                    variance,
                    variance * n_classes,
                    spread,
                    overall,
                    1.0,
                )
                for tree in counts
            ]
        )
    )


def _means(counts: Floats, sums: Floats, count_variance: float, sum_variance: float) -> Floats:
    """Return means, in half widths from the midpoint, of every node, root first; roots lean on their average."""
    n_trees, n_leaves = counts.shape
    part = n_leaves / n_trees
    overall = node_means(
        sums.sum(keepdims=True) / n_trees,
        counts.sum(keepdims=True) / n_trees,
        sum_variance * part,
        count_variance * part,
        _SPREAD,
        np.zeros(1),
        _MOST,
    )[0]
    means = [
        node_means(s[:, None], n[:, None], sum_variance, count_variance, _SPREAD, overall, _MOST)[:, 0]
        for n, s in zip(counts, sums, strict=True)
    ]
    return np.clip(np.stack(means), -1.0, 1.0)


def totals_in(leaves: Leaves, columns: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the noisy sums of leaves that `read` made columns of."""
    target, n_inner = leaves.target, 2**leaves.depth - 1
    if target.n_classes:
        names = columns_of(target)[: target.n_classes]
        stacked = np.stack([columns[name][:, n_inner:] for name in names], axis=2)
        return {"counts": stacked.reshape(len(stacked), -1)}
    assert target.bounds is not None
    step = target.bounds.half_width / UNITS
    return {"counts": columns["count"][:, n_inner:], "sums": columns["sum"][:, n_inner:] / step}
