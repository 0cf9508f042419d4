"""Where a bike ride ends: the stations, tree PTKs of destinations, and the model that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier

from _common import losses
from _common.curves import Featurizer
from _common.models import Encoder, splits
from ptklib import TreeFeaturizer
from ptklib.arrays import Floats, Ints

DELTA = 1e-6
LABEL = "destination"
TIMES = {"hour": (0.0, 24.0), "weekday": (0.0, 7.0)}
LEAST_PROBABILITY = 1e-4
PENALTIES = (1.0, 5.0, 25.0)


@dataclass(frozen=True)
class Stations:
    """The service's list of stations, which is public: an id and a place each."""

    ids: Ints
    x: Floats
    y: Floats

    @classmethod
    def of(cls, rides: pd.DataFrame) -> Stations:
        """Take the stations where rides begin; a public feed lists them."""
        places = rides.groupby("pickup_station")[["pickup_x", "pickup_y"]].median()
        return cls(places.index.to_numpy(), places["pickup_x"].to_numpy(), places["pickup_y"].to_numpy())

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def box(self) -> dict[str, tuple[float, float]]:
        """Bounds of the places of all stations."""
        return {
            "pickup_x": (float(self.x.min()), float(self.x.max())),
            "pickup_y": (float(self.y.min()), float(self.y.max())),
        }

    def to_a_station(self, rides: pd.DataFrame) -> pd.DataFrame:
        """Keep the rides that end at a station, numbered in `LABEL`."""
        at = np.minimum(np.searchsorted(self.ids, rides["dropoff_station"]), len(self) - 1)
        known = self.ids[at] == rides["dropoff_station"].to_numpy()
        return rides[known].assign(**{LABEL: at[known]}).reset_index(drop=True)

    def nearest(self, trips: pd.DataFrame) -> pd.DataFrame:
        """Number the station nearest to where each trip ends in `LABEL`."""
        flat = np.cos(np.radians(self.y.mean()))
        places = cKDTree(np.column_stack([self.x * flat, self.y]))
        ends = np.column_stack([trips["dropoff_x"] * flat, trips["dropoff_y"]])
        return trips.assign(**{LABEL: places.query(ends)[1]})


def train(
    trips: pd.DataFrame, n_stations: int, box: dict[str, tuple[float, float]], epsilon: float | None
) -> Featurizer:
    """Train trees on where trips go, given where and when they begin; features are log probabilities.

    The non-private twin is scikit-learn's `RandomForestClassifier`.
    """
    bounds = {**box, **TIMES}
    columns = list(bounds)
    names = [f"to_{i}" for i in range(n_stations)]
    if epsilon is None:
        forest = RandomForestClassifier(60, max_depth=10, min_samples_leaf=5, random_state=0)
        forest.fit(trips[columns], trips[LABEL])

        def probabilities(rows: pd.DataFrame) -> Floats:
            found = np.zeros((len(rows), n_stations))
            found[:, forest.classes_] = forest.predict_proba(rows[columns])
            return found
    else:
        ptk = TreeFeaturizer(
            label=LABEL, classes=list(range(n_stations)), bounds=bounds, epsilon=epsilon, delta=DELTA
        ).fit(trips[[*columns, LABEL]])

        def probabilities(rows: pd.DataFrame) -> Floats:
            return np.asarray(ptk.transform(rows[columns]))

    return lambda rows: pd.DataFrame(
        np.log(np.maximum(probabilities(rows), LEAST_PROBABILITY)), columns=names
    )


class DestinationModel(ClassifierMixin, BaseEstimator):
    """Multinomial logistic regression; a PTK's log probability of a station enters the score of that station.

    It does so with one weight for all stations, where the PTK paper has one for each pair of stations: few rows tell
    one weight, but not thousands. The penalty is chosen on held-out quarters of the training rows.
    """

    def __init__(
        self, categories: Sequence[str], numbers: Sequence[str], n_stations: int, features: Sequence[str]
    ) -> None:
        self.categories = categories
        self.numbers = numbers
        self.n_stations = n_stations
        self.features = features

    def fit(self, X: pd.DataFrame, y: Any) -> Self:
        """Choose the penalty, then fit on all rows."""
        y, best = np.asarray(y, dtype=np.int64), np.inf
        self.own_ = Encoder(X, self.categories, self.numbers)
        rows, logs = csr_matrix(self.own_(X)), self._logs(X)
        for penalty in PENALTIES:
            held = 0.0
            for fitted, judged in splits(len(X)):
                weights = self._weights(rows[fitted], logs[fitted], y[fitted], penalty)
                p = _probabilities(rows[judged], logs[judged], *weights)
                held += float(losses.log_loss_of_many(y[judged].astype(np.float64), p).sum())
            if held < best:
                best, chosen = held, penalty
        self.weights_ = self._weights(rows, logs, y, chosen)
        return self

    def predict_proba(self, X: pd.DataFrame) -> Floats:
        """Return the probability of each station."""
        return _probabilities(csr_matrix(self.own_(X)), self._logs(X), *self.weights_)

    def _logs(self, X: pd.DataFrame) -> Floats:
        if not self.features:
            return np.zeros((len(X), self.n_stations))
        return X[list(self.features)].to_numpy(dtype=np.float64)

    def _weights(self, rows: Any, logs: Floats, y: Ints, penalty: float) -> tuple[Floats, Floats, float]:
        """Minimise the penalised log loss over weights, a level per station, and the weight of `logs`."""
        n, k = rows.shape[0], self.n_stations
        at, size = (np.arange(n), y), rows.shape[1] * k

        def parts(values: Floats) -> tuple[Floats, Floats, float]:
            return values[:size].reshape(-1, k), values[size : size + k], float(values[-1])

        def objective(values: Floats) -> tuple[float, Floats]:
            weights, level, shared = parts(values)
            p = _probabilities(rows, logs, weights, level, shared)
            loss = -np.log(np.maximum(p[at], 1e-300)).sum()
            loss += 0.5 * penalty * (weights**2).sum() + 0.5 * (level**2).sum()
            p[at] -= 1.0
            gradient = [(rows.T @ p + penalty * weights).ravel(), p.sum(axis=0) + level, [(p * logs).sum()]]
            return float(loss), np.concatenate(gradient)

        start = np.zeros(size + k + 1)
        start[-1] = float(logs.any())
        options = {"maxiter": 100, "gtol": 1e-4 * n}
        return parts(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)


def _probabilities(rows: Any, logs: Floats, weights: Floats, level: Floats, shared: float) -> Floats:
    scores = np.asarray(rows @ weights) + level + shared * logs
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))
