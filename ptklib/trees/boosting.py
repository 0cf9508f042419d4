"""Boosting of trees that are chosen whole, by a private selection among random candidates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.trees import counted
from ptklib.trees.binning import Codes
from ptklib.trees.candidates import Grids
from ptklib.trees.forest import random_trees
from ptklib.trees.measuring import Rows, leaf_sums
from ptklib.trees.objectives import Objective
from ptklib.trees.plans import RoundsPlan
from ptklib.trees.rounds import Settings
from ptklib.trees.structure import Trees


@dataclass(frozen=True, eq=False)
class Boosted:
    """Trees, with the value and the noisy weight of every node, root first."""

    trees: Trees
    values: Ints
    """What a row in the node adds to its scores: whole units of the objective. Shape (n_trees, n_nodes, n_scores)."""
    weights: Floats
    """Shape (n_trees, n_nodes, n_scores)."""


def boost(
    codes: Codes,
    label: Ints,
    n_bins: Sequence[int],
    objective: Objective,
    settings: Settings,
    plan: RoundsPlan,
) -> Boosted:
    """Return trees and values after all rounds of `plan`.

    Parameters
    ----------
    codes, label : ndarray
        Binned rows, of shape (n_features, n_rows), and their label.
    n_bins : sequence of int
        Of each feature.
    """
    rows = Rows(codes, label, objective, plan, settings)
    start = rows.start()
    if rows.n_counted:
        return _count(rows, codes, n_bins, start, settings)
    trees: list[Trees] = []
    values, weights = [], []
    for i in range(settings.n_rounds):
        random = np.random.default_rng([settings.seed, i])
        grids = Grids.random(random, n_bins, settings.depth, settings.n_candidates)
        rows.pull()
        tree = grids.tree(rows.choose(grids.sums(codes, rows.steps)))
        value, weight = rows.measure(tree.leaves(0, codes, n_bins))
        trees.append(tree)
        values.append(value)
        weights.append(weight)
    values[0] = values[0] + start
    return Boosted(Trees.stack(trees), np.stack(values), np.stack(weights))


def _count(rows: Rows, codes: Codes, n_bins: Sequence[int], start: Ints, settings: Settings) -> Boosted:
    """Return counted trees, then random ones that say nothing: as many trees as boosting makes."""
    n_counted, n_rest = rows.n_counted, settings.n_rounds - rows.n_counted
    trees = counted.counted_trees(settings.seed, n_bins, n_counted, settings.depth)
    leaves = [trees.leaves(tree, codes, n_bins) for tree in range(n_counted)]
    values, weights = rows.count(leaves, start)
    if n_rest:
        trees = Trees.stack([trees, random_trees(n_bins, n_rest, settings.depth, settings.seed)])
        silent = (n_rest, *values.shape[1:])
        values = np.concatenate([values, np.zeros(silent, dtype=np.int64)])
        weights = np.concatenate([weights, np.zeros(silent)])
    values[0] += start
    return Boosted(trees, values, weights)


def boost_again(
    codes: Codes,
    label: Ints,
    n_bins: Sequence[int],
    before: Boosted,
    objective: Objective,
    settings: Settings,
    plan: RoundsPlan,
) -> Boosted:
    """Return the trees of `before` with values moved by the rounds of `plan`; as many trees as before.

    Parameters
    ----------
    codes, label, n_bins, objective, settings, plan
        As for `boost`.

    Notes
    -----
    The scores of rows start from all trees. Each round selects one of them, privately, and moves its values
    by a step on these rows. If these rows say nothing, the posterior mean of a step is 0, so values stay.
    """
    rows = Rows(codes, label, objective, plan, settings)
    values, weights = before.values.copy(), before.weights.copy()
    n_trees, n_leaves = settings.n_rounds, 2**settings.depth
    for tree in range(n_trees):
        rows.add(values[tree][n_leaves - 1 :], before.trees.leaves(tree, codes, n_bins))
    rows.start(moved=False)
    if rows.n_counted:
        some = slice(rows.n_counted)
        reached = [before.trees.leaves(tree, codes, n_bins) for tree in range(rows.n_counted)]
        values[some] += rows.count_again(reached, weights[some])
        return Boosted(before.trees, values, weights)
    for i in range(settings.n_rounds):
        rows.pull()
        offered = [(i + j) % n_trees for j in range(settings.n_candidates)]
        sums = np.stack(
            [
                leaf_sums(before.trees.leaves(t, codes, n_bins), rows.steps, n_leaves)
                for t in offered[:n_trees]
            ]
        )
        chosen = offered[rows.choose(sums, settings.n_candidates)]
        value, weight = rows.measure(before.trees.leaves(chosen, codes, n_bins))
        values[chosen] += value
        weights[chosen] += weight
    return Boosted(before.trees, values, weights)
