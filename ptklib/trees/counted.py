"""Trees whose leaves count classes, all at once: the trees of a small table."""

from collections.abc import Sequence
from math import exp, log

import numpy as np

from ptklib.arrays import Floats
from ptklib.trees.structure import Random, Trees
from ptklib.trees.values import node_sums

N_FEWEST, N_MOST, DEPTH = 6, 12, 3
"""Numbers of trees and levels, measured on tables of 124 to 1,257 rows: more cost more noise than they tell."""

_ENOUGH = 165.0
"""The most trees are counted where rows are so many deviations of a count's noise in one tree: 300 / epsilon."""

_PLACES = (log(0.08), log(0.6))
"""Where features are split: the logarithm of a share of their bins."""

_PRIOR = 1.0
"""Variance of the log-odds of leaves."""

_TOGETHER = 2.5
"""What all counted trees say together, in units of their mean: they say partly the same."""


def depth_of(depth: int) -> int:
    """Return how many levels of a tree of `depth` levels are counted."""
    return min(DEPTH, depth)


def n_trees(n_rows: float, std: float, most: int) -> int:
    """Return how many trees are counted, from a released number of rows and the noise of one tree's counts."""
    return min(N_MOST if n_rows > _ENOUGH * std else N_FEWEST, most)


def counted_trees(seed: int, n_bins: Sequence[int], n_trees: int, depth: int) -> Trees:
    """Return public random trees of `depth` levels; below `DEPTH`, no split moves rows.

    Notes
    -----
    Fewer trees are the first ones of more. A level takes one feature, and no feature comes again before all others
    came. All nodes of a level split alike, rather at a low bin than at a high one: most real columns have their tail
    at the high end.
    """
    random = np.random.default_rng([seed, 0, 0])
    trees, waiting = [], list[int]()
    looked = min(depth_of(depth), len(n_bins))
    for _ in range(n_trees):
        if len(waiting) < looked:
            waiting += [f for f in random.permutation(len(n_bins)).tolist() if f not in waiting]
        features, waiting = waiting[:looked], waiting[looked:]
        splits = [
            np.full(2**level, _split(random, n_bins[f]), dtype=np.int64)
            for level, f in enumerate(np.resize(features, depth_of(depth)).tolist())
        ]
        taken = np.resize(features, depth_of(depth))[None, :].astype(np.int64)
        trees.append(_deeper(Trees(taken, np.concatenate(splits)[None, :]), depth))
    return Trees.stack(trees)


def read_counts(counts: Floats, variance: float, overall: Floats) -> tuple[Floats, Floats]:
    """Return the log-odds that each class gains in every node, root first, and the weights of nodes.

    Parameters
    ----------
    counts : ndarray of shape (n_trees, n_leaves, n_classes)
        Noisy counts of rows.
    variance : float
        Of the noise of one count.
    overall : ndarray of shape (n_classes,)
        Shares of the classes among all rows.

    Notes
    -----
    Posterior means, given how many rows a node has. Sizes lean on equal ones as far as the release itself says that
    they are noise. A tree that says less than its noise still says something: no node is dropped, and many such trees
    add up. A number of rows below its noise is taken for as large as it.
    """
    n_trees, n_leaves, n_classes = counts.shape
    total, doubt = float(counts.sum()) / n_trees, variance * n_classes * n_leaves / n_trees
    n_rows = max(total, doubt**0.5)
    nodes = np.stack([node_sums(tree) for tree in counts])
    gains = np.zeros(nodes.shape)
    size = 2
    while size <= n_leaves:
        here = slice(size - 1, 2 * size - 1)
        noisy = nodes[:, here].sum(axis=2, keepdims=True)
        noise = variance * n_leaves / size
        apart = noisy - n_rows / size
        energy = float(np.square(apart).mean())
        kept = max(0.0, 1 - n_classes * noise / energy) if energy > 0 else 0.0
        sizes = np.maximum(n_rows / size + kept * apart, 0.0)
        spread = overall * (1 - overall)
        weights = spread * sizes
        doubts = noise * ((1 - overall) ** 2 + (n_classes - 1) * overall**2) + weights
        gains[:, here] = _posterior(nodes[:, here] - overall * noisy, weights, doubts)
        size *= 2
    return gains * (_TOGETHER / n_trees), nodes.sum(axis=2, keepdims=True) * (overall * (1 - overall))


def gains_of(sums: Floats, weights: Floats, variance: float) -> Floats:
    """Return how far log-odds of all nodes move by noisy sums of steps in leaves.

    Parameters
    ----------
    sums : ndarray of shape (n_trees, n_leaves, n_scores)
    weights : ndarray of shape (n_trees, n_nodes, n_scores)
        Of nodes down to the leaves or deeper, root first.
    """
    n_trees, n_leaves, _ = sums.shape
    nodes = np.stack([node_sums(tree) for tree in sums])
    gains = np.zeros(nodes.shape)
    size = 1
    while size <= n_leaves:
        here = slice(size - 1, 2 * size - 1)
        sizes = np.maximum(weights[:, here], 0.0)
        gains[:, here] = _posterior(nodes[:, here], sizes, variance * n_leaves / size + sizes)
        size *= 2
    return np.asarray(gains * min(_TOGETHER / n_trees, 1.0))


def _posterior(steps: Floats, weights: Floats, variance: Floats) -> Floats:
    """Return how far log-odds move by noisy sums of steps, for the weights of rows and the variance of the sums."""
    return np.asarray(_PRIOR * weights * steps / (_PRIOR * weights**2 + variance), dtype=np.float64)


def values_below(values: Floats, depth: int) -> Floats:
    """Return the values of all nodes down to `depth`: those below the counted leaves repeat them."""
    n_leaves = (values.shape[1] + 1) // 2
    leaves, levels = values[:, n_leaves - 1 :], [values]
    while n_leaves < 2**depth:
        leaves, n_leaves = np.repeat(leaves, 2, axis=1), 2 * n_leaves
        levels.append(leaves)
    return np.concatenate(levels, axis=1)


def weights_below(weights: Floats, depth: int) -> Floats:
    """Return the weights of all nodes down to `depth`: below the counted leaves all rows go right."""
    n_leaves = (weights.shape[1] + 1) // 2
    leaves, levels = weights[:, n_leaves - 1 :], [weights]
    while n_leaves < 2**depth:
        wider = np.zeros((len(leaves), 2 * n_leaves, leaves.shape[2]))
        wider[:, 1::2], leaves, n_leaves = leaves, wider, 2 * n_leaves
        levels.append(leaves)
    return np.concatenate(levels, axis=1)


def _split(random: Random, n_bins: int) -> int:
    return min(max(round(exp(random.uniform(*_PLACES)) * n_bins), 1) + 1, n_bins)


def _deeper(trees: Trees, depth: int) -> Trees:
    """Return trees of `depth` levels; the added ones split at the first bin, where only missing values go left."""
    more = depth - trees.depth
    added = np.ones((len(trees.splits), 2**depth - 2**trees.depth), dtype=np.int64)
    last = np.repeat(trees.features[:, -1:], more, axis=1)
    return Trees(
        np.concatenate([trees.features, last], axis=1), np.concatenate([trees.splits, added], axis=1)
    )
