"""Boosting of trees that are chosen whole, by a private selection among random candidates."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from ptklib.mechanisms.grid import sum_by
from ptklib.privacy import check_epsilon
from ptklib.trees.binning import Codes
from ptklib.trees.candidates import Grids
from ptklib.trees.losses import Loss
from ptklib.trees.plans import Choice, Measure, RoundsPlan, plan_rounds
from ptklib.trees.structure import Trees
from ptklib.trees.targets import UNITS
from ptklib.trees.values import node_means, node_sums

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_START, _STEPS, _WEIGHTS, _CHOICE, _SQUARES = "start", "steps", "weights", "choice", "squares"
_SHARES = {_STEPS: 0.68, _WEIGHTS: 0.1, _CHOICE: 0.2, _SQUARES: 0.02}
"""Parts of the budget, beside the start's."""

_MOST = 4.0
"""Nodes deviate from their parent by at most this variance: 2 in log-odds is much for one tree."""


@dataclass(frozen=True, eq=False)
class Boosted:
    """Trees, with the value and the noisy weight of every node, root first.

    Parameters
    ----------
    trees : Trees
    values : ndarray of shape (n_trees, n_nodes, n_scores)
        What a row in the node adds to its scores: whole units of the loss.
    weights : ndarray of shape (n_trees, n_nodes, n_scores)
    """

    trees: Trees
    values: Ints
    weights: Floats


@dataclass(frozen=True, slots=True)
class Settings:
    """Public parameters of boosting."""

    n_rounds: int
    depth: int
    learning_rate: float
    n_candidates: int
    seed: int


def boosting_plan(
    loss: Loss, settings: Settings, epsilon: object, delta: object, factor: int = 1
) -> RoundsPlan:
    """Return all rounds, before any data are read."""
    leaves, rounds = 2**settings.depth, settings.n_rounds
    shared = {**_SHARES, _START: _start_share(check_epsilon(epsilon))}
    parts: list[Measure | Choice] = [
        Measure(_START, loss.n_starts, loss.start_l1, loss.start_l1, shared[_START]),
        Choice(_CHOICE, settings.n_candidates, loss.step_l1, shared[_CHOICE], rounds),
        Measure(_STEPS, leaves * loss.n_scores, loss.step_l1, loss.step_l2, shared[_STEPS], rounds),
        Measure(_WEIGHTS, leaves * loss.n_scores, loss.weight_l1, loss.weight_l2, shared[_WEIGHTS], rounds),
    ]
    if loss.adaptive:
        parts.append(Measure(_SQUARES, 1, UNITS, UNITS, shared[_SQUARES], rounds))
    return plan_rounds(tuple(parts), epsilon, delta, factor)


def _start_share(epsilon: float) -> float:
    """Return the part of the budget that finds where all scores start: 1 % at epsilon 1, up to 10 % at 0.01.

    A small budget often goes with few rows for it; then what all rows have in common is all that can be learnt.
    """
    return min(max(0.01 / sqrt(epsilon), 0.01), 0.1)


def boost(
    codes: Codes, label: Ints, n_bins: Sequence[int], loss: Loss, settings: Settings, plan: RoundsPlan
) -> Boosted:
    """Return trees and values after all rounds of `plan`."""
    rows = _Rows(codes, label, loss, plan)
    start = rows.start()
    found: list[Trees] = []
    values, weights = [], []
    for i in range(settings.n_rounds):
        random = np.random.default_rng([settings.seed, i])
        grids = Grids.random(random, n_bins, settings.depth, settings.n_candidates)
        rows.pull()
        tree = grids.tree(rows.choose(grids.sums(codes, rows.steps)))
        value, weight = rows.measure(tree.leaves(0, codes, n_bins), settings)
        found.append(tree)
        values.append(value)
        weights.append(weight)
    values[0] = values[0] + start
    return Boosted(Trees.stack(found), np.stack(values), np.stack(weights))


def boost_again(
    codes: Codes,
    label: Ints,
    n_bins: Sequence[int],
    before: Boosted,
    loss: Loss,
    settings: Settings,
    plan: RoundsPlan,
) -> Boosted:
    """Return the trees of `before` with values moved by the rounds of `plan`; as many trees as before.

    Notes
    -----
    The scores of rows start from all trees. Each round selects one of them, privately, and moves its values by a step
    on these rows. Where these rows say nothing, the posterior mean of a step is 0, so values stay.
    """
    rows = _Rows(codes, label, loss, plan)
    values, weights = before.values.copy(), before.weights.copy()
    n_trees, n_leaves = settings.n_rounds, 2**settings.depth
    for tree in range(n_trees):
        rows.add(values[tree][n_leaves - 1 :], before.trees.leaves(tree, codes, n_bins))
    rows.start(moved=False)
    for i in range(settings.n_rounds):
        rows.pull()
        offered = [(i + j) % n_trees for j in range(settings.n_candidates)]
        sums = np.stack(
            [
                _leaf_sums(before.trees.leaves(t, codes, n_bins), rows.steps, n_leaves)
                for t in offered[:n_trees]
            ]
        )
        chosen = offered[rows.choose(sums, settings.n_candidates)]
        value, weight = rows.measure(before.trees.leaves(chosen, codes, n_bins), settings)
        values[chosen] += value
        weights[chosen] += weight
    return Boosted(before.trees, values, weights)


def _leaf_sums(leaves: Ints, units: Ints, n_leaves: int) -> Ints:
    """Return exact sums of shape (n_leaves, n_scores)."""
    return np.stack([sum_by(leaves, row, n_leaves) for row in units], axis=1)


class _Rows:
    """The only holder of rows: measures them with the noise of the plan."""

    def __init__(self, codes: Codes, label: Ints, loss: Loss, plan: RoundsPlan) -> None:
        self._codes, self._label, self._loss, self._plan = codes, label, loss, plan
        self._scores = np.zeros((loss.n_scores, codes.shape[1]), dtype=np.int64)
        self._radius, self._size = UNITS, 1.0

    def start(self, moved: bool = True) -> Ints:
        """Release what all rows have in common, and let the scores of all rows start there."""
        exact = self._loss.starts(self._label)
        noisy = self._plan.add_noise(_START, exact).astype(np.float64)
        std = self._plan.noise_variance(_START) ** 0.5
        self._size = max(float(noisy[0]), std) / UNITS  # rows, where losses adapt
        start = self._loss.start_score(noisy, std)
        if moved:
            self._scores += start[:, None]
        return start

    def add(self, values: Ints, leaves: Ints) -> None:
        """Move the scores of rows by the values of their leaves."""
        self._scores += values[leaves].T
        np.clip(self._scores, -self._loss.limit, self._loss.limit, out=self._scores)

    def pull(self) -> None:
        """Look where rows want their scores to go, each within a radius."""
        if self._loss.adaptive:
            self._shrink()
        self.steps, self._weights = self._loss.pull(self._scores, self._label, self._radius)

    def choose(self, sums: Ints, n_candidates: int | None = None) -> int:
        """Return a tree in whose leaves steps add up instead of cancelling; fewer candidates are repeated.

        Parameters
        ----------
        sums : ndarray of shape (n_trees, n_leaves, n_scores)
            Exact sums of steps.

        Notes
        -----
        :Sensitivity: the score of a tree is the L1 norm of its sums; one row moves it by the L1 norm of its own
            steps at most.
        """
        scores = np.abs(sums).sum(axis=(1, 2))
        return self._plan.select(_CHOICE, np.resize(scores, n_candidates or len(scores)))

    def measure(self, leaves: Ints, settings: Settings) -> tuple[Ints, Floats]:
        """Release what the leaves of a tree want, move the scores of all rows; return values and weights."""
        loss, plan, n_leaves = self._loss, self._plan, 2**settings.depth
        steps = _leaf_sums(leaves, self.steps, n_leaves)
        weights = _leaf_sums(leaves, self._weights, n_leaves)
        noisy = plan.add_noise(_STEPS, steps.reshape(-1)).reshape(steps.shape)
        noisy_weights = plan.add_noise(_WEIGHTS, weights.reshape(-1)).reshape(weights.shape)
        worth = self._radius / loss.step_unit / UNITS if loss.adaptive else 1 / loss.step_unit
        sizes = noisy_weights / loss.weight_unit
        means = node_means(
            np.asarray(noisy * worth, dtype=np.float64),
            sizes,
            plan.noise_variance(_STEPS) * worth**2,
            plan.noise_variance(_WEIGHTS) / loss.weight_unit**2,
            np.full(loss.n_scores, loss.spread * (self._radius / UNITS) ** 2),
            np.zeros(loss.n_scores),
            _MOST,
        )
        most = loss.limit / loss.unit
        moved = np.clip(settings.learning_rate * means, -most, most)
        values = np.rint(moved * loss.unit).astype(np.int64)
        self.add(values[n_leaves - 1 :], leaves)
        return values, node_sums(sizes)

    def _shrink(self) -> None:
        """Clip steps to about three root mean squares of what is left, never more than before."""
        rest = (self._label - self._scores[0]) / self._radius
        squares = np.trunc(np.minimum(rest * rest, 1.0) * UNITS).astype(np.int64)
        noisy = self._plan.add_noise(_SQUARES, squares.sum(keepdims=True))
        noise = self._plan.noise_variance(_SQUARES) ** 0.5
        share = max(float(noisy[0]) + noise, 0.0) / UNITS / self._size
        self._radius = max(int(self._radius * np.clip(3 * share**0.5, 0.25, 1.0)), 1)
