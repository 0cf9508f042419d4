"""The methods: boosted trees, random trees and greedy trees."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.base import Release, Units
from ptklib.exceptions import CorruptStateError
from ptklib.release import Component, ReleasePlan, plan_release
from ptklib.trees import boosting, counted, forest, greedy, measuring, rounds, tables
from ptklib.trees.binning import Codes
from ptklib.trees.models import Chosen, Model, Previous, RowsModel
from ptklib.trees.objectives import Objective
from ptklib.trees.parameters import Method, Shape, check_cells
from ptklib.trees.plans import RoundsPlan
from ptklib.trees.structure import Trees
from ptklib.trees.targets import UNITS


def model_of(method: Method, shape: Shape) -> Model:
    """Return the model of a method, refusing one too large to keep."""
    methods: dict[Method, Callable[[Shape], Model]] = {
        "adaptive": AdaptiveModel,
        "boosting": BoostedModel,
        "random": RandomModel,
        "greedy": GreedyModel,
    }
    model = methods[method](shape)
    check_cells(shape.n_trees * 2 ** (shape.depth + 1) * len(model.columns))
    return model


@dataclass(frozen=True, eq=False)
class BoostedModel(RowsModel):
    """Boosted trees. Nodes have values, what they add to scores, and noisy Newton weights."""

    @property
    def outputs(self) -> list[str]:
        """Values: one, or one per class."""
        if self._objective.n_scores == 1:
            return ["value"]
        return [f"value_{name}" for name in self.target.names]

    @property
    def columns(self) -> list[str]:
        """Weights and values."""
        return [*(name.replace("value", "weight", 1) for name in self.outputs), *self.outputs]

    @property
    def sizes(self) -> list[str]:
        """Weights."""
        return self.columns[: self._objective.n_scores]

    @property
    def noises(self) -> tuple[str, ...]:
        """Only the noise of weights adds up."""
        return ("weights",)

    @property
    def _settings(self) -> rounds.Settings:
        shape = self.shape
        return rounds.Settings(
            shape.n_trees,
            shape.depth,
            shape.learning_rate,
            shape.n_candidates,
            shape.seed,
            self.n_counted,
        )

    @property
    def n_counted(self) -> int:
        """Number of trees that are counted where rows are few; 0 for never."""
        return 0

    def _plan(self, epsilon: object, delta: object, rows_per_unit: int) -> RoundsPlan:
        return rounds.boosting_plan(self._objective, self._settings, epsilon, delta, rows_per_unit)

    def _drawn(self, plan: RoundsPlan, exact: Units, previous: Previous | None) -> Release:
        """Choose and measure one tree after the other, or move the values of the previous ones."""
        objective, settings = self._objective, self._settings
        codes, label = self._rows(exact)
        variance = measuring.weight_variance(objective, settings, plan)
        if previous is None:
            boosted = boosting.boost(codes, label, self.n_bins, objective, settings, plan)
        else:
            before = self._boosted(previous.table, objective)
            boosted = boosting.boost_again(codes, label, self.n_bins, before, objective, settings, plan)
            variance += previous.variance["weights"]
        unit = self._worth(objective)
        numbers = np.concatenate([boosted.weights, boosted.values * unit], axis=2)
        columns = {name: numbers[:, :, i] for i, name in enumerate(self.columns)}
        std = dict.fromkeys(self.sizes, variance**0.5)
        table = tables.to_table(boosted.trees, self.features, columns)
        return Release({tables.TREES: table}, {tables.TREES: std}, {"weights": variance})

    def _worth(self, objective: Objective) -> float:
        """Return what a unit of score is worth: log-odds, or the unit of the label."""
        return (1.0 if self.target.bounds is None else self.target.bounds.half_width) / objective.score_unit

    def _boosted(self, table: Any, objective: Objective) -> boosting.Boosted:
        numbers = np.stack([tables.column(table, name, self.shape.n_trees) for name in self.columns], axis=2)
        weights, values = (
            numbers[:, :, : objective.n_scores],
            numbers[:, :, objective.n_scores :] / self._worth(objective),
        )
        limited = np.clip(np.rint(values), -(2**40), 2**40).astype(np.int64)
        return boosting.Boosted(self.trees(table), limited, weights)

    def scores(self, values: Floats) -> Floats:
        """Return the mean, or probabilities of summed scores."""
        total = values * self.shape.n_trees
        if self.target.n_classes == 0:
            assert self.target.bounds is not None
            return self.target.numbers(total / self.target.bounds.half_width)
        if self.target.n_classes == 2:
            total = np.concatenate([-total / 2, total / 2], axis=1)
        odds = np.exp(total - total.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class AdaptiveModel(BoostedModel):
    """Boosted trees where a released number says many rows, a few counted ones where it says few."""

    @property
    def n_counted(self) -> int:
        """As many trees as are counted at most."""
        return min(counted.N_MOST, self.shape.n_trees)

    def chosen(self, table: Any) -> Chosen:
        """Read off the trees whether they are counted, and how many say something."""
        shape, released = self.shape, self.trees(table)
        public = counted.counted_trees(shape.seed, self.n_bins, 1, shape.depth)
        if not (
            np.array_equal(public.features, released.features[:1])
            and np.array_equal(public.splits, released.splits[:1])
        ):
            return Chosen("boosting", shape.n_trees, shape.depth)
        weights = tables.column(table, self.columns[0], shape.n_trees)
        return Chosen("counted", int(weights.any(axis=1).sum()), counted.depth_of(shape.depth))


@dataclass(frozen=True, eq=False)
class _ForestModel(Model):
    """Trees of counted leaves."""

    @property
    def _leaves(self) -> forest.Leaves:
        return forest.Leaves(self.target, self.shape.depth)

    @property
    def columns(self) -> list[str]:
        """Counts and shares of classes, or count, sum and mean."""
        return forest.columns_of(self.target)

    @property
    def sizes(self) -> list[str]:
        """Counts: of each class, or of all rows."""
        return self.columns[: self.target.n_classes or 1]

    @property
    def outputs(self) -> list[str]:
        """Shares of classes, or the mean."""
        return self.columns[self.target.n_classes :] if self.target.n_classes else ["mean"]

    @property
    def noises(self) -> tuple[str, ...]:
        """The vectors of one tree; all trees have the same noise."""
        return self._leaves.names

    def scores(self, values: Floats) -> Floats:
        """Return the mean over trees."""
        return values

    def _read(
        self, trees: Trees, totals: dict[str, Floats], variance: dict[str, float], previous: Previous | None
    ) -> Release:
        if previous is not None:
            names = self.columns
            before = {name: tables.column(previous.table, name, self.shape.n_trees) for name in names}
            old = forest.totals_in(self._leaves, before)
            totals = {name: total + old[name] for name, total in totals.items()}
            variance = {name: v + float(previous.variance[name]) for name, v in variance.items()}
        columns = forest.read(self._leaves, totals, variance)
        table = tables.to_table(trees, self.features, columns)
        std = dict.fromkeys(self.sizes, variance["counts"] ** 0.5)
        if not self.target.n_classes:
            assert self.target.bounds is not None
            std["sum"] = variance["sums"] ** 0.5 * self.target.bounds.half_width / UNITS
        return Release({tables.TREES: table}, {tables.TREES: std}, variance)


@dataclass(frozen=True, eq=False)
class RandomModel(_ForestModel):
    """Random trees: a public structure, and one joint release of all leaves."""

    def trees(self, table: Any) -> Trees:
        """Return the public trees, refusing a table of others."""
        public, released = self._trees(), super().trees(table)
        if not (
            np.array_equal(public.features, released.features)
            and np.array_equal(public.splits, released.splits)
        ):
            raise CorruptStateError("the trees are not those of the public seed")
        return public

    def _trees(self) -> Trees:
        return forest.random_trees(tuple(self.n_bins), self.shape.n_trees, self.shape.depth, self.shape.seed)

    def _plan(self, epsilon: object, delta: object, rows_per_unit: int) -> ReleasePlan:
        sensitivity = {"counts": 1, "sums": UNITS}
        components = [
            Component(_name(tree, name), size, sensitivity[name])
            for tree in range(self.shape.n_trees)
            for name, size in self._leaves.sizes().items()
        ]
        return plan_release(components, epsilon, delta, rows_per_unit)

    def collect(self, codes: Codes, label: Ints) -> dict[str, Ints]:
        """Return the counts of the leaves of all trees."""
        trees, leaves = self._trees(), self._leaves
        return {
            _name(tree, name): units
            for tree in range(self.shape.n_trees)
            for name, units in leaves.exact(trees.leaves(tree, codes, self.n_bins), label).items()
        }

    def _drawn(self, plan: ReleasePlan, exact: Units, previous: Previous | None) -> Release:
        """Add noise to all leaves at once."""
        names = self._leaves.names
        noisy = plan.draw(exact)
        totals = {name: self._stack(noisy, name) for name in names}
        variance = {name: plan.noise_variance(_name(0, name)) for name in names}
        return self._read(self._trees(), totals, variance, previous)

    def _stack(self, units: Mapping[str, Ints], name: str) -> Floats:
        return np.stack([units[_name(tree, name)] for tree in range(self.shape.n_trees)]).astype(np.float64)

    def true_error(self, table: Any, exact: Units) -> float:
        """Return the mean over trees of half the Brier score, or of how far means of leaves are from true ones."""
        values, errors = self.leaf_values(table), []
        counts = self._stack(exact, "counts")
        if not counts.sum():
            return np.nan
        for tree, leaves in enumerate(values):
            if self.target.n_classes:
                true = counts[tree].reshape(len(leaves), -1)
                squares = (leaves**2).sum(axis=1, keepdims=True) - 2 * leaves + 1
                errors.append(float((true * squares).sum() / true.sum() / 2))
                continue
            assert self.target.bounds is not None
            n = counts[tree]
            mean = self.target.numbers(self._stack(exact, "sums")[tree] / np.maximum(n, 1.0) / UNITS)
            width = 2 * self.target.bounds.half_width
            errors.append(float((np.abs(leaves[:, 0] - mean) * n).sum() / n.sum() / width))
        return float(np.clip(np.mean(errors), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class GreedyModel(RowsModel, _ForestModel):
    """Greedy trees: splits chosen privately, then leaves counted."""

    @property
    def _growth(self) -> greedy.Growth:
        shape = self.shape
        return greedy.Growth(shape.n_trees, shape.depth, shape.n_candidates, shape.seed)

    def _plan(self, epsilon: object, delta: object, rows_per_unit: int) -> RoundsPlan:
        return greedy.greedy_plan(self._leaves, self._objective, self._growth, epsilon, delta, rows_per_unit)

    def _drawn(self, plan: RoundsPlan, exact: Units, previous: Previous | None) -> Release:
        """Grow trees, or take the previous ones, and count their leaves."""
        leaves = self._leaves
        codes, label = self._rows(exact)
        if previous is None:
            trees = greedy.grown_trees(codes, label, self.n_bins, self._objective, self._growth, plan)
        else:
            trees = self.trees(previous.table)
        exact_leaves = [
            leaves.exact(trees.leaves(tree, codes, self.n_bins), label) for tree in range(self.shape.n_trees)
        ]
        totals = {
            name: np.stack([plan.add_noise(name, units[name]) for units in exact_leaves]).astype(np.float64)
            for name in leaves.names
        }
        variance = {name: plan.noise_variance(name) for name in leaves.names}
        return self._read(trees, totals, variance, previous)


def _name(tree: int, vector: str) -> str:
    return f"tree_{tree}_{vector}"
