"""Models by gradient descent: linear and logistic ones, and networks; noise from the library, or none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor

from _common.pipelines import DELTA, Labels
from ptklib import DPSGDClassifier, DPSGDRegressor
from ptklib.arrays import Floats, Ints

EPOCHS = 5
BATCH_RATE = 0.01
BATCH, STEPS_LEAST = 500, 2_000  # without noise


@dataclass(frozen=True)
class Descent(Labels):
    """`DPSGDRegressor`, or `DPSGDClassifier` where `metric` is "accuracy"; without noise, scikit-learn's model.

    Parameters
    ----------
    hidden : tuple of int
        Sizes of hidden layers; none is a linear or logistic model.
    """

    hidden: tuple[int, ...] = ()

    def losses(self, rows: Ints, epsilon: float | None) -> Floats:
        """Return the loss on each row of the population."""
        kinds, kind_of_row = self._kinds
        answers = self._exact(rows, kinds) if epsilon is None else self._released(rows, kinds, epsilon)
        return self.losses_of_answers(answers[kind_of_row])

    @cached_property
    def _kinds(self) -> tuple[Ints, Ints]:
        """The first row of each combination of categories, and the combination of each row.

        A model's answer depends on the combination alone, and there are far fewer of these than rows.
        """
        codes = np.column_stack([self.population.keys[name] for name in self.population.categories])
        _, first, kind = np.unique(codes, axis=0, return_index=True, return_inverse=True)
        return first, kind.reshape(-1)

    @cached_property
    def _table(self) -> pd.DataFrame:
        table = {name: self.population.keys[name] for name in self.population.categories}
        label = self.population.label
        return pd.DataFrame({**table, "label": label.astype(np.int64) if self._classifies else label})

    @property
    def _classifies(self) -> bool:
        return self.metric == "accuracy"

    def _released(self, rows: Ints, asked: Ints, epsilon: float) -> Floats:
        settings: dict[str, Any] = {
            "label": "label",
            "domains": {name: range(size) for name, size in self.population.categories.items()},
            "hidden_units": self.hidden,
            "epochs": EPOCHS,
            "batch_rate": BATCH_RATE,
            "epsilon": epsilon,
            "delta": DELTA,
        }
        table = self._table
        if self._classifies:
            classifier = DPSGDClassifier(classes=(0, 1), **settings).fit(table.iloc[rows])
            return np.asarray(classifier.predict_proba(table.iloc[asked])[:, 1])
        regressor = DPSGDRegressor(label_bounds=(0.0, 1.0), **settings).fit(table.iloc[rows])
        return np.asarray(regressor.predict(table.iloc[asked]))

    def _exact(self, rows: Ints, asked: Ints) -> Floats:
        features, label = self.population.features, self._table["label"].to_numpy()
        model = self._twin(len(rows)).fit(features[rows], label[rows])
        if self._classifies:
            return np.asarray(model.predict_proba(features[asked])[:, 1], dtype=np.float64)
        return np.asarray(model.predict(features[asked]), dtype=np.float64)

    def _twin(self, n_rows: int) -> Any:
        if not self.hidden:
            return LogisticRegression() if self._classifies else Ridge(1.0)
        network = MLPClassifier if self._classifies else MLPRegressor
        return network(
            hidden_layer_sizes=self.hidden,
            activation="tanh",
            batch_size=BATCH,
            max_iter=max(EPOCHS, ceil(STEPS_LEAST * BATCH / n_rows)),
            learning_rate_init=0.003,
            early_stopping=True,  # a tenth of the rows says when few rows are learned by heart
            random_state=0,
        )
