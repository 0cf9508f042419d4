"""Training pipelines on a population: rows and an epsilon go in, the exact expected loss of the model comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from _common.populations import Population
from ptklib import AdaSSPRegressor, HistoricalStatistics
from ptklib.arrays import Floats, Ints
from ptklib.partials import PartialStatistics

DELTA = 1e-6
CHUNK = 100_000
"""Rows that are collected at once. Parts add up exactly, and noise is drawn once, over their sum."""


@dataclass(frozen=True)
class Pipeline(ABC):
    """One kind of model on one population."""

    population: Population
    name: str
    metric: str = "loss"

    @abstractmethod
    def losses(self, rows: Ints, epsilon: float | None) -> Floats:
        """Train on `rows` of the population, and return the model's loss on each row of it, within [0, 1].

        Parameters
        ----------
        rows : ndarray of int64
            Numbers of rows, drawn with replacement.
        epsilon : float or None
            None: without noise.
        """

    def losses_at(self, rows: Ints, epsilons: Sequence[float | None]) -> list[Floats]:
        """Return `losses` for each epsilon, on the same rows."""
        return [self.losses(rows, epsilon) for epsilon in epsilons]

    @abstractmethod
    def naive(self) -> float:
        """Return the expected loss of the best answer that is the same for all rows."""


@dataclass(frozen=True)
class Labels(Pipeline):
    """A prediction of the label.

    The loss is the squared error. Where `metric` is "accuracy" the label is 0 or 1, the answer is whether the
    prediction exceeds 1/2, and the loss is 1 for a wrong one.
    """

    def losses_of_answers(self, predicted: npt.NDArray[np.floating[Any]]) -> Floats:
        """Return the loss on each row of the population of a prediction for each."""
        if self.metric == "accuracy":
            return np.asarray((predicted > 0.5) != (self.population.label > 0.5), dtype=np.float64)
        return np.asarray((np.clip(predicted, 0, 1) - self.population.label) ** 2)

    def naive(self) -> float:
        """Return the loss of the mean, or of the more frequent class."""
        mean = float(self.population.label.mean())
        return min(mean, 1 - mean) if self.metric == "accuracy" else float(self.population.label.var())


@dataclass(frozen=True)
class LeastSquares(Labels):
    """Linear regression: `AdaSSPRegressor`, and ridge regression without noise."""

    def losses(self, rows: Ints, epsilon: float | None) -> Floats:
        """Return the loss on each row of the population."""
        return self.losses_of(
            self.exact(rows) if epsilon is None else self.released(self.parts(rows), epsilon)
        )

    def losses_at(self, rows: Ints, epsilons: Sequence[float | None]) -> list[Floats]:
        """Return `losses` for each epsilon; the exact sums are collected once."""
        parts = self.parts(rows)
        return [self.losses_of(self.exact(rows) if e is None else self.released(parts, e)) for e in epsilons]

    def losses_of(self, weights: Floats) -> Floats:
        """Return the loss on each row of the population of weights, the intercept last."""
        return self.losses_of_answers(
            self.population.features @ weights[:-1].astype(np.float32) + np.float32(weights[-1])
        )

    def parts(self, rows: Ints, size: int = CHUNK) -> list[PartialStatistics]:
        """Return the exact sums of each `size` rows."""
        return [self._estimator(1.0).partial_statistics(self._table(some)) for some in _chunks(rows, size)]

    def released(self, parts: list[PartialStatistics], epsilon: float) -> Floats:
        """Draw noise once over the sum of parts; return weights, the intercept last."""
        model = self._estimator(epsilon).finalize(parts)
        return np.append(model.coef_, model.intercept_)

    def exact(self, rows: Ints) -> Floats:
        """Return the weights of ridge regression with a penalty of 1, the intercept last and free."""
        size = self.population.features.shape[1] + 1
        products, sums = np.zeros((size, size)), np.zeros(size)
        for some in _chunks(rows, CHUNK):
            table = np.column_stack([self.population.features[some], np.ones(len(some))]).astype(np.float64)
            products += table.T @ table
            sums += table.T @ self.population.label[some]
        penalty = np.append(np.ones(size - 1), 1e-9)
        return np.asarray(np.linalg.solve(products + np.diag(penalty), sums))

    def _estimator(self, epsilon: float) -> AdaSSPRegressor:
        return AdaSSPRegressor(
            self.population.columns,
            "label",
            max_norm=self.population.norm,
            label_bounds=(0.0, 1.0),
            epsilon=epsilon,
            delta=DELTA,
        )

    def _table(self, rows: Ints) -> pd.DataFrame:
        table = pd.DataFrame(
            self.population.features[rows].astype(np.float64), columns=self.population.columns
        )
        table["label"] = self.population.label[rows]
        return table


@dataclass(frozen=True)
class CellMeans(Pipeline):
    """The mean label of each cell of distance, hour and weekday: `HistoricalStatistics`.

    A richer model than the linear one, which needs more rows.
    """

    def losses(self, rows: Ints, epsilon: float | None) -> Floats:
        """Return the squared error on each row of the population."""
        cells, label = self.population.keys["cell"], self.population.label
        means = group_means(cells[rows], label[rows], self._n_cells, (0.0, 1.0), epsilon)
        return np.asarray((means[cells] - label) ** 2)

    def naive(self) -> float:
        """Return the variance of the label."""
        return float(self.population.label.var())

    @cached_property
    def _n_cells(self) -> int:
        return int(self.population.keys["cell"].max()) + 1


@dataclass(frozen=True)
class ClassMeans(Pipeline):
    """The class with the nearest mean of features: `HistoricalStatistics` of all features by class."""

    def losses(self, rows: Ints, epsilon: float | None) -> Floats:
        """Return 1 for each row of the population whose nearest class is another."""
        digit, columns = self.population.keys["digit"], self.population.columns
        features = self.population.features
        if epsilon is None:
            means = (
                pd.DataFrame(features[rows])
                .groupby(digit[rows])
                .mean()
                .reindex(range(10))
                .fillna(0.5)
                .to_numpy()
            )
        else:
            table = pd.DataFrame(features[rows].astype(np.float64), columns=columns).assign(key=digit[rows])
            means = _means(table, columns, 10, (0.0, 1.0), epsilon)
        distances = (means**2).sum(axis=1) - 2 * features @ means.T.astype(np.float32)
        return np.asarray(distances.argmin(axis=1) != digit, dtype=np.float64)

    def naive(self) -> float:
        """Return the error of the most frequent class."""
        return 1 - float(np.bincount(self.population.keys["digit"]).max()) / len(self.population)


@dataclass(frozen=True)
class MeanValues(Pipeline):
    """Mean values by a key: `HistoricalStatistics`. Its loss is no loss of rows but the error of a released mean."""

    key: str = ""
    values: Floats | None = None
    bounds: tuple[float, float] = (0.0, 1.0)

    def losses(self, rows: Ints, epsilon: float | None) -> Floats:
        """Return the absolute error of each group's mean, in the unit of the values."""
        released = group_means(self._keys[rows], self._values[rows], len(self._true), self.bounds, epsilon)
        return np.abs(released - self._true)

    def naive(self) -> float:
        """Return the mean error of the overall mean."""
        return float(np.abs(self._values.mean() - self._true).mean())

    @property
    def _keys(self) -> Ints:
        return self.population.keys[self.key]

    @property
    def _values(self) -> Floats:
        if self.values is None:
            raise ValueError("a pipeline of means needs values")
        return self.values

    @cached_property
    def _true(self) -> Floats:
        return np.bincount(self._keys, self._values) / np.bincount(self._keys)


def group_means(
    keys: Ints, values: Floats, n_groups: int, bounds: tuple[float, float], epsilon: float | None
) -> Floats:
    """Return the mean value of each group; without noise, that of all values where a group has no rows."""
    if epsilon is None:
        counts = np.bincount(keys, minlength=n_groups)
        sums = np.bincount(keys, values, minlength=n_groups)
        return np.where(counts > 0, sums / np.maximum(counts, 1), values.mean())
    return _means(pd.DataFrame({"key": keys, "value": values}), ["value"], n_groups, bounds, epsilon)[:, 0]


def _means(
    table: pd.DataFrame, values: list[str], n_groups: int, bounds: tuple[float, float], epsilon: float
) -> Floats:
    model = HistoricalStatistics(
        ["key"],
        values,
        domains={"key": range(n_groups)},
        bounds=bounds,
        statistics=["mean"],
        epsilon=epsilon,
        delta=DELTA,
    )
    found = model.fit(table).tables_["statistics"]
    order = np.argsort(found.column("key").to_numpy())
    return np.column_stack([found.column(f"{name}_mean").to_numpy()[order] for name in values])


def _chunks(rows: Ints, size: int) -> Iterator[Ints]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
