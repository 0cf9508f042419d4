"""Trees whose splits are chosen privately, level by level, and whose leaves are counted afterwards."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from ptklib.arrays import Ints
from ptklib.mechanisms.grid import sum_by
from ptklib.trees.binning import Codes
from ptklib.trees.forest import Leaves
from ptklib.trees.objectives import Objective
from ptklib.trees.plans import Choice, Measure, RoundsPlan, plan_rounds
from ptklib.trees.structure import Trees
from ptklib.trees.targets import UNITS

_START, _SPLIT = "start", "split"
_SHARES = {_START: 0.02, _SPLIT: 0.3, "counts": 0.68, "sums": 0.68}
"""Parts of the budget."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Public parameters of growing."""

    n_trees: int
    depth: int
    n_candidates: int
    seed: int


def greedy_plan(
    leaves: Leaves, objective: Objective, growth: Growth, epsilon: object, delta: object, factor: int = 1
) -> RoundsPlan:
    """Return all selections and counts, before any data are read.

    Parameters
    ----------
    factor : int
        Rows of one privacy unit, at most.
    """
    n, units = growth.n_trees, {"counts": 1, "sums": UNITS}
    parts: list[Measure | Choice] = [
        Measure(_START, objective.n_starts, objective.start_l1, objective.start_l1, _SHARES[_START]),
        Choice(_SPLIT, growth.n_candidates, objective.step_l1, _SHARES[_SPLIT], n * growth.depth),
    ]
    parts += [
        Measure(name, size, units[name], units[name], _SHARES[name], n)
        for name, size in leaves.sizes().items()
    ]
    return plan_rounds(tuple(parts), epsilon, delta, factor)


def grown_trees(
    codes: Codes, label: Ints, n_bins: list[int], objective: Objective, growth: Growth, plan: RoundsPlan
) -> Trees:
    """Return trees; all nodes of a level split alike, by the candidate that separates labels most.

    Parameters
    ----------
    codes, label, n_bins, objective, plan
        As for `boosting.boost`.

    Notes
    -----
    :Sensitivity: the score of a split is the L1 norm of the sums, over the nodes it makes, of how far labels are
        from a released mean; one row moves it by the L1 norm of its own distance at most. There is one
        selection per level: the larger sums of a whole level are further above the noise than those of single
        nodes.
    """
    start = plan.add_noise(_START, objective.starts(label)).astype(np.float64)
    scores = objective.start_score(start, plan.noise_variance(_START) ** 0.5)
    steps, _ = objective.pull(np.repeat(scores[:, None], len(label), axis=1), label, UNITS)
    grown = []
    for tree in range(growth.n_trees):
        random = np.random.default_rng([growth.seed, tree])
        few = random.permutation(len(n_bins))[: max(ceil(len(n_bins) ** 0.5), 3)].tolist()
        node, features, splits = np.zeros(len(label), dtype=np.int64), [], []
        for level in range(growth.depth):
            offered = [few[i % len(few)] for i in range(growth.n_candidates)]
            at = [int(random.integers(1, n_bins[f] + 1)) for f in offered]
            totals = _split_scores(codes, node, 2**level, steps, n_bins, offered, at)
            chosen = plan.select(_SPLIT, totals)
            features.append(offered[chosen])
            splits.append(np.full(2**level, at[chosen], dtype=np.int64))
            node = 2 * node + (codes[offered[chosen]] >= at[chosen])
        grown.append(Trees(np.asarray([features], dtype=np.int64), np.concatenate(splits)[None, :]))
    return Trees.stack(grown)


def _split_scores(
    codes: Codes, node: Ints, n_nodes: int, steps: Ints, n_bins: list[int], offered: list[int], at: list[int]
) -> Ints:
    scores = np.zeros(len(offered), dtype=np.int64)
    for feature in sorted(set(offered)):
        width = n_bins[feature] + 1
        places = np.asarray([i for i, f in enumerate(offered) if f == feature])
        split = np.asarray(at)[places]
        for step in steps:
            table = sum_by(node * width + codes[feature], step, n_nodes * width).reshape(n_nodes, width)
            below = np.cumsum(table, axis=1)
            left = below[:, split - 1]
            scores[places] += (np.abs(left) + np.abs(below[:, -1:] - left)).sum(axis=0)
    return scores
