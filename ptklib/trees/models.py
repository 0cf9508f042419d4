"""The tree methods under one interface for the estimator: the statistics, draws and nodes of each."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.base import Release, Units
from ptklib.privacy import PrivacyLoss
from ptklib.release import ReleasePlan
from ptklib.trees import tables
from ptklib.trees.binning import Codes, Feature, pack, unpack
from ptklib.trees.objectives import Objective, objective_of
from ptklib.trees.parameters import Shape
from ptklib.trees.plans import RoundsPlan
from ptklib.trees.structure import Trees
from ptklib.trees.targets import UNITS, Target

_ROWS = "rows"
_ROWS_AT_ONCE = 2**14
"""Rows whose intermediate results stay in the processor's cache."""


class Chosen(NamedTuple):
    """The trees that were made: how, how many, and of how many levels."""

    method: str
    n_estimators: int
    max_depth: int


@dataclass(frozen=True, eq=False)
class Previous:
    """A released table to continue, and the variance of its noise."""

    table: Any
    variance: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """Trees of one method; knows public parameters only."""

    shape: Shape

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features with their bins."""
        return self.shape.features

    @property
    def target(self) -> Target:
        """The label."""
        return self.shape.target

    @property
    def n_bins(self) -> list[int]:
        """Number of bins of each feature."""
        return [feature.n_bins for feature in self.features]

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """A node of a tree, as the table has it."""

    @property
    @abstractmethod
    def sizes(self) -> list[str]:
        """The columns that count the rows of a node, or weigh them."""

    @property
    @abstractmethod
    def outputs(self) -> list[str]:
        """The columns of a leaf that `by_tree` gives."""

    @property
    @abstractmethod
    def noises(self) -> tuple[str, ...]:
        """The keys of ``noise_variance``."""

    @abstractmethod
    def _plan(self, epsilon: object, delta: object, rows_per_unit: int) -> ReleasePlan | RoundsPlan:
        """Return how a release is noised."""

    def loss(self, epsilon: object, delta: object, rows_per_unit: int) -> PrivacyLoss:
        """Return what a release costs."""
        return self._plan(epsilon, delta, rows_per_unit).loss

    @abstractmethod
    def collect(self, codes: Codes, label: Ints) -> dict[str, Ints]:
        """Return the exact integer vectors of some rows."""

    def release(
        self, exact: Units, previous: Previous | None, epsilon: object, delta: object, rows_per_unit: int
    ) -> Release:
        """Draw all noise of `loss`.

        Parameters
        ----------
        exact : mapping of str to ndarray
            Merged results of `collect`.
        rows_per_unit : int
            Rows of one privacy unit, at most.
        """
        return self._drawn(self._plan(epsilon, delta, rows_per_unit), exact, previous)

    @abstractmethod
    def _drawn(self, plan: Any, exact: Units, previous: Previous | None) -> Release:
        """Draw all noise of `plan`, which is of the method's own kind."""

    @abstractmethod
    def scores(self, values: Floats) -> Floats:
        """Return the prediction from the mean over trees of `by_tree`, of shape (n_rows, n_outputs)."""

    @abstractmethod
    def true_error(self, table: Any, exact: Units) -> float:
        """Return the error of released trees on exact vectors, in [0, 1]."""

    def chosen(self, table: Any) -> Chosen:
        """Return what trees a released table has."""
        return Chosen(self.shape.method, self.shape.n_trees, self.shape.depth)

    def trees(self, table: Any) -> Trees:
        """Return the trees of a released table, refusing one this method cannot release."""
        return tables.trees_of(table, self.features, self.shape.n_trees)

    def leaf_values(self, table: Any) -> Floats:
        """Return `outputs` of the leaves, of shape (n_trees, n_leaves, n_outputs)."""
        n_inner = 2**self.shape.depth - 1
        columns = [tables.column(table, name, self.shape.n_trees)[:, n_inner:] for name in self.outputs]
        return np.stack(columns, axis=2)

    def predict(self, table: Any, codes: Codes) -> Floats:
        """Return class probabilities, or means in one column."""
        values = self.leaf_values(table)
        mean = np.zeros((codes.shape[1], values.shape[2]))
        for rows, tree, leaves in self._visits(table, codes):
            mean[rows] += values[tree].take(leaves, axis=0)
        return self.scores(mean / self.shape.n_trees)

    def by_tree(self, table: Any, codes: Codes) -> Floats:
        """Return the outputs of the leaf of each row in each tree."""
        values = self.leaf_values(table)
        outputs = np.empty((codes.shape[1], self.shape.n_trees, values.shape[2]))
        for rows, tree, leaves in self._visits(table, codes):
            outputs[rows, tree] = values[tree].take(leaves, axis=0)
        return outputs.reshape(codes.shape[1], int(np.prod(outputs.shape[1:])))  # also of no rows

    def leaf_indices(self, table: Any, codes: Codes) -> Floats:
        """Return the leaf of each row in each tree."""
        indices = np.empty((codes.shape[1], self.shape.n_trees))
        for rows, tree, leaves in self._visits(table, codes):
            indices[rows, tree] = leaves
        return indices

    def indicators(self, table: Any, codes: Codes) -> Floats:
        """Return 1 for the leaf of each row in each tree, and 0 for others."""
        n_leaves = 2**self.shape.depth
        ones = np.zeros((codes.shape[1], self.shape.n_trees * n_leaves))
        places = self.leaf_indices(table, codes).astype(np.int64) + n_leaves * np.arange(self.shape.n_trees)
        np.put_along_axis(ones, places, 1.0, axis=1)
        return ones

    def _visits(self, table: Any, codes: Codes) -> Iterator[tuple[slice, int, Ints]]:
        """Return the leaves of some rows in one tree after the other."""
        trees = self.trees(table)
        routes = [trees.route(tree, self.n_bins) for tree in range(self.shape.n_trees)]
        for start in range(0, codes.shape[1], _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            for tree, route in enumerate(routes):
                yield rows, tree, route.leaves(codes[:, rows])


@dataclass(frozen=True, eq=False)
class RowsModel(Model):
    """Trees that are made from binned rows, which training reads again and again."""

    @property
    def _objective(self) -> Objective:
        return objective_of(self.target)

    def collect(self, codes: Codes, label: Ints) -> dict[str, Ints]:
        """Return binned rows with their label."""
        return {_ROWS: pack(codes, label)}

    def _rows(self, exact: Units) -> tuple[Codes, Ints]:
        return unpack(exact[_ROWS], len(self.features))

    def true_error(self, table: Any, exact: Units) -> float:
        """Return half the Brier score, or the root mean squared error over the width of the label's bounds."""
        codes, label = self._rows(exact)
        if not len(label):
            return np.nan
        predicted = self.predict(table, codes)
        if self.target.n_classes:
            predicted[np.arange(len(label)), label] -= 1.0
            return float(np.clip((predicted**2).sum(axis=1).mean() / 2, 0.0, 1.0))
        assert self.target.bounds is not None
        true = self.target.numbers(label / UNITS)
        error = np.sqrt(np.mean((predicted[:, 0] - true) ** 2)) / (2 * self.target.bounds.half_width)
        return float(np.clip(error, 0.0, 1.0))
