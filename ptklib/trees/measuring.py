"""Rows that boosted and counted trees are trained on, measured with the noise of a plan."""

from collections.abc import Sequence

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.mechanisms.grid import sum_by
from ptklib.trees import counted
from ptklib.trees.binning import Codes
from ptklib.trees.noise import Noise
from ptklib.trees.objectives import Objective
from ptklib.trees.plans import RoundsPlan
from ptklib.trees.rounds import (
    CHOICE,
    COUNTS,
    POOL,
    SQUARES,
    START,
    STEPS,
    WEIGHTS,
    Settings,
    counted_cells,
    row_limit,
)
from ptklib.trees.targets import UNITS
from ptklib.trees.values import node_means, node_sums

_FEW = 160.0
"""Rows are few where their number is below so many deviations of a boosted leaf's noise: about 8,000 / epsilon.

Both ways were measured on three tasks (docs/guide/trees.md, "Methods"). The mean gain of boosting changes its sign at
about 7,500 / epsilon rows. The greatest loss by a wrong choice is least at about 8,500 / epsilon rows.
"""

_MOST = 4.0
"""Nodes deviate from their parent by at most this variance: 2 in log-odds is much for one tree."""


def weight_variance(objective: Objective, settings: Settings, plan: RoundsPlan) -> float:
    """Return the variance of the noise of a boosted leaf's weight; a counted leaf's is smaller."""
    return Noise(objective, settings, plan).variance(WEIGHTS) / objective.weight_unit**2


def leaf_sums(leaves: Ints, units: Ints, n_leaves: int) -> Ints:
    """Return exact sums of shape (n_leaves, n_scores)."""
    return np.stack([sum_by(leaves, row, n_leaves) for row in units], axis=1)


class Rows:
    """The only holder of rows: measures them with the noise of the plan.

    Parameters
    ----------
    codes, label, objective, plan, settings
        As for `boosting.boost`.
    """

    def __init__(
        self, codes: Codes, label: Ints, objective: Objective, plan: RoundsPlan, settings: Settings
    ) -> None:
        self._codes, self._label, self._objective, self._plan = codes, label, objective, plan
        self._settings, self._noise = settings, Noise(objective, settings, plan)
        self._scores = np.zeros((objective.n_scores, codes.shape[1]), dtype=np.int64)
        self._radius, self._size = UNITS, 1.0

    @property
    def n_counted(self) -> int:
        """How many trees are counted, where `start` released a number that says few rows; 0 where trees are boosted."""
        return self._noise.n_counted

    def start(self, moved: bool = True) -> Ints:
        """Release what all rows have in common, and let the scores of all rows start there."""
        exact = self._objective.starts(self._label)
        noisy = self._plan.add_noise(START, exact).astype(np.float64)
        std = self._plan.noise_variance(START) ** 0.5
        self._size = max(float(noisy[0]), std) / UNITS  # rows, where losses adapt
        start = self._objective.start_score(noisy, std)
        if self._noise.pooled:
            self._count_few(float(noisy.sum()))
        if moved:
            self._scores += start[:, None]
        return start

    def _count_few(self, n_rows: float) -> None:
        """Decide, from a released number of rows, whether trees are counted or boosted."""
        if n_rows < _FEW * self._noise.variance(STEPS) ** 0.5 / UNITS:
            std = self._plan.noise_variance(POOL) ** 0.5 / row_limit(self._settings)
            self._noise.n_counted = counted.n_trees(n_rows, std, self._settings.n_counted)

    def count(self, leaves: Sequence[Ints], start: Ints) -> tuple[Ints, Floats]:
        """Release the classes in the leaves of all counted trees.

        Returns
        -------
        values, weights : ndarray of shape (n_trees, n_nodes, n_scores)
        """
        objective, n_classes = self._objective, self._objective.n_starts
        ones = np.zeros((n_classes, len(self._label)), dtype=np.int64)
        ones[self._label, np.arange(len(self._label))] = UNITS
        counts = self._noisy_counts(leaves, ones)
        variance = self._noise.variance(COUNTS) / UNITS**2
        gains, weights = counted.read_counts(counts, variance, objective.chances(start))
        scores = slice(n_classes - objective.n_scores, None)  # of two classes, the score is the second's
        weights = counted.weights_below(weights[:, :, scores], self._settings.depth)
        return self._values(gains[:, :, scores]), weights

    def count_again(self, leaves: Sequence[Ints], before: Floats) -> Ints:
        """Release the steps in the leaves of all counted trees; return how far values move.

        Parameters
        ----------
        before : ndarray of shape (n_trees, n_nodes, n_scores)
            Weights of all rows so far: new rows move values as far as they are many beside them.

        Notes
        -----
        :Sensitivity: half of the steps of several classes has an L1 norm of at most 1, like a count, and so has the one
            step of two classes.
        """
        objective = self._objective
        steps, _ = objective.pull(self._scores, self._label, self._radius)
        units = np.zeros((objective.n_starts, len(self._label)), dtype=np.int64)
        worth, scores = (
            (1 if objective.n_scores == 1 else 2),
            slice(objective.n_starts - objective.n_scores, None),
        )
        units[scores] = np.sign(steps) * (np.abs(steps) // worth)
        sums = self._noisy_counts(leaves, units)[:, :, scores] * worth
        gains = counted.gains_of(sums, before, self._noise.variance(COUNTS) / UNITS**2 * worth**2)
        return self._values(gains)

    def _noisy_counts(self, leaves: Sequence[Ints], units: Ints) -> Floats:
        """Release sums in the counted leaves, of shape (n_trees, n_leaves, n_classes); a unit is a row.

        Notes
        -----
        The other declared draws are made too, for no rows: the number of draws says nothing.
        """
        settings, plan = self._settings, self._plan
        depth = counted.depth_of(settings.depth)
        sums = [
            self._noise.release(COUNTS, leaf_sums(reached >> (settings.depth - depth), units, 2**depth))
            for reached in leaves
        ]
        rest = plan.size(POOL) - len(leaves) * counted_cells(self._objective, settings)
        plan.add_noise(POOL, np.zeros(rest, dtype=np.int64))
        for _ in range(settings.n_rounds):
            plan.select(CHOICE, np.zeros(settings.n_candidates, dtype=np.int64))
        return np.stack(sums) / UNITS

    def _values(self, gains: Floats) -> Ints:
        """Return what all nodes add to scores, in units."""
        objective = self._objective
        most = objective.limit / objective.score_unit
        below = counted.values_below(np.clip(gains, -most, most), self._settings.depth)
        return np.rint(below * objective.score_unit).astype(np.int64)

    def add(self, values: Ints, leaves: Ints) -> None:
        """Move the scores of rows by the values of their leaves."""
        self._scores += values[leaves].T
        np.clip(self._scores, -self._objective.limit, self._objective.limit, out=self._scores)

    def pull(self) -> None:
        """Look where rows want their scores to go, each within a radius."""
        if self._objective.adaptive:
            self._shrink()
        self.steps, self._weights = self._objective.pull(self._scores, self._label, self._radius)

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
        return self._plan.select(CHOICE, np.resize(scores, n_candidates or len(scores)))

    def measure(self, leaves: Ints) -> tuple[Ints, Floats]:
        """Release what the leaves of a tree want, move the scores of all rows; return values and weights."""
        objective, settings, n_leaves = self._objective, self._settings, 2**self._settings.depth
        steps = leaf_sums(leaves, self.steps, n_leaves)
        weights = leaf_sums(leaves, self._weights, n_leaves)
        noisy, noisy_weights = self._noise.release(STEPS, steps), self._noise.release(WEIGHTS, weights)
        worth = self._radius / objective.step_unit / UNITS if objective.adaptive else 1 / objective.step_unit
        sizes = noisy_weights / objective.weight_unit
        means = node_means(
            np.asarray(noisy * worth, dtype=np.float64),
            sizes,
            self._noise.variance(STEPS) * worth**2,
            self._noise.variance(WEIGHTS) / objective.weight_unit**2,
            np.full(objective.n_scores, objective.spread * (self._radius / UNITS) ** 2),
            np.zeros(objective.n_scores),
            _MOST,
        )
        most = objective.limit / objective.score_unit
        moved = np.clip(settings.learning_rate * means, -most, most)
        values = np.rint(moved * objective.score_unit).astype(np.int64)
        self.add(values[n_leaves - 1 :], leaves)
        return values, node_sums(sizes)

    def _shrink(self) -> None:
        """Clip steps to about three root mean squares of the residuals, never more than before."""
        rest = (self._label - self._scores[0]) / self._radius
        squares = np.trunc(np.minimum(rest * rest, 1.0) * UNITS).astype(np.int64)
        noisy = self._plan.add_noise(SQUARES, squares.sum(keepdims=True))
        noise = self._plan.noise_variance(SQUARES) ** 0.5
        share = max(float(noisy[0]) + noise, 0.0) / UNITS / self._size
        self._radius = max(int(self._radius * np.clip(3 * share**0.5, 0.25, 1.0)), 1)
