"""The 13 PTKs of the PTK paper's taxi team: nine historical statistics, two clusterings, two PCAs.

The nine are the speed aggregates of the Kaggle model that the paper took its features from, with pace for speed,
TLC's zones for its clusters and a public grid for its bins. A target is

- for statistics and PCA the expected `error_from_true_value`: the distance of a mean pace from the true one in
  parts of the width of its bounds (.03 is 9 % of the pace), and of a covariance in parts of its size;
- for a clustering the mean squared distance to the nearest centre, in parts of `REACH_MILES` squared, a trip further
  away counting as one that far away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn import decomposition
from sklearn.cluster import KMeans

from _common import trips as cab_trips
from _common.cab_ptks import PLACES, clamped, exact_mean, expected_duration
from _common.curves import Featurizer
from _common.trips import CELLS, PACE_BOUNDS, ZONES
from ptklib import Clustering, CovarianceMatrix, HistoricalStatistics, as_ptk
from ptklib.arrays import Bools, Floats
from ptklib.profiling import TeamPtk

LOOSE, TIGHT = "loose", "tight"
LEVELS = (LOOSE, TIGHT)
REACH_MILES = 3.0
N_CLUSTERS = 24
DELTA = 1e-7  # of each PCA, whose noise is Gaussian
STATISTICS, CLUSTERS, PCA = "Hist. Stat.", "Clusters", "PCA"
_HOURS, _CELLS = list(range(24)), list(range(CELLS * CELLS))
_MILES = {"x": 69.0 * 0.76, "y": 69.0}  # per degree, at New York's latitude
# Columns to count by; tau where trips are many per group, and where they are few.
_DENSE, _SPARSE = {LOOSE: 0.03, TIGHT: 0.015}, {LOOSE: 0.08, TIGHT: 0.04}
KEYS: Mapping[str, tuple[dict[str, Sequence[int]], dict[str, float]]] = {
    "hour": ({"hour": _HOURS}, _DENSE),
    "weekday, hour": ({"weekday": list(range(7)), "hour": _HOURS}, _DENSE),
    "pickup zone": ({"pickup_zone": ZONES}, _DENSE),
    "dropoff zone": ({"dropoff_zone": ZONES}, _DENSE),
    "middle": ({"middle_cell": _CELLS}, _DENSE),
    "hour, middle": ({"hour": _HOURS, "middle_cell": _CELLS}, _SPARSE),
    "hour, pickup cell": ({"hour": _HOURS, "pickup_cell": _CELLS}, _SPARSE),
    "hour, dropoff cell": ({"hour": _HOURS, "dropoff_cell": _CELLS}, _SPARSE),
    "pickup cell to dropoff cell": ({"pickup_cell": _CELLS, "dropoff_cell": _CELLS}, _SPARSE),
}
_PCA = {LOOSE: 0.2, TIGHT: 0.1}
_NEAR = {"pickup": {LOOSE: 0.1, TIGHT: 0.07}, "dropoff": {LOOSE: 0.13, TIGHT: 0.096}}


@dataclass(frozen=True)
class Ptk:
    """One of the 13: how it is trained, judged and used.

    Parameters
    ----------
    estimator : DPEstimator
        At epsilon 1; a training has its own.
    targets : mapping of level to float
    exact : callable
        Trains the twin without noise.
    features : callable
        Features of rows by a trained estimator.
    error : callable
        What a trained estimator misses the truth in some rows by, in the unit of the target; private. A target is
        kept when this is at most `allowed` times as large.
    """

    name: str
    kind: str
    estimator: Any
    targets: Mapping[str, float]
    exact: Callable[[pd.DataFrame], Featurizer]
    features: Callable[[Any, pd.DataFrame], pd.DataFrame]
    error: Callable[[Any, pd.DataFrame], float]

    @property
    def allowed(self) -> float:
        """Targets that an error may have: a formula keeps to one, samples to two."""
        return 2.0 if self.kind == CLUSTERS else 1.0

    def trained(self, rows: pd.DataFrame, epsilon: float) -> Any:
        """Train on rows with a loss of `epsilon`."""
        fresh = type(self.estimator)(**{**self.estimator.get_params(deep=False), "epsilon": epsilon})
        return fresh.fit(rows[list(self.estimator.input_columns())])

    def featurizer(self, fitted: Any) -> Featurizer:
        """Return how rows are featurized by a trained estimator."""
        return lambda rows: self.features(fitted, rows)


def ptks() -> list[Ptk]:
    """Return the 13, statistics first."""
    return [
        *(_statistic(name, domains, targets) for name, (domains, targets) in KEYS.items()),
        *map(_clustering, PLACES),
        *map(_axes, PLACES),
    ]


def with_keys(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the cell of the point halfway between pickup and dropoff."""
    middle = [(rows[f"pickup_{a}"] + rows[f"dropoff_{a}"]).to_numpy() / 2 for a in ("x", "y")]
    return rows.assign(middle_cell=cab_trips.cell_of(*middle))


class NearCentres:
    """Squared distance of a place from the nearest centre in parts of `REACH_MILES` squared, at most 1.

    The loss of a row is a function of that row and the centres alone. The library's own is in parts of the box,
    which is so large that even useless centres have a loss of a few percent.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._miles = [_MILES[column[-1]] for column in columns]

    def examples(self, table: Any) -> Bools:
        """Every trip that was loaded has places."""
        return np.isfinite(table[self._columns].to_numpy(dtype=np.float64)).all(axis=1)

    def losses(self, state: Any, table: Any) -> Floats:
        """Return the loss of each row under a released state."""
        centres = state.tables["centers"]
        return self.of([centres.column(c).to_numpy() for c in self._columns], table)

    def of(self, centres: Sequence[Floats], table: pd.DataFrame) -> Floats:
        """Return the loss of each row under centres, one array per column."""
        least = np.full(len(table), REACH_MILES**2)
        for centre in zip(*centres, strict=True):
            square = np.zeros(len(table))
            for column, at, miles in zip(self._columns, centre, self._miles, strict=True):
                square += ((table[column].to_numpy(dtype=np.float64) - at) * miles) ** 2
            np.fmin(least, square, out=least)
        return np.asarray(least / REACH_MILES**2)


def subject(ptk: Ptk) -> TeamPtk:
    """Return a clustering as the profiler sees it: its own training, and the team's loss of a row."""
    columns = list(ptk.estimator.input_columns())
    return TeamPtk(as_ptk(ptk.estimator).train_dp, config=ptk.estimator.to_spec(), risk=NearCentres(columns))


def _true_error(fitted: Any, rows: pd.DataFrame) -> float:
    return float(fitted.error_from_true_value(fitted.partial_statistics(rows[list(fitted.input_columns())])))


def _statistic(name: str, domains: dict[str, Sequence[int]], targets: dict[str, float]) -> Ptk:
    estimator = HistoricalStatistics(
        domains={key: list(values) for key, values in domains.items()},
        bounds={"pace": PACE_BOUNDS},
        epsilon=1.0,
    )
    word = name.replace(", ", "_").replace(" ", "_")

    def features(fitted: Any, rows: pd.DataFrame) -> pd.DataFrame:
        at = list(fitted.get_feature_names_out()).index("pace_mean")
        return expected_duration(word, fitted.transform(rows)[:, at], rows)

    return Ptk(
        f"pace by {name}",
        STATISTICS,
        estimator,
        targets,
        lambda rows: exact_mean(word, list(domains), rows),
        features,
        _true_error,
    )


def _clustering(side: str) -> Ptk:
    estimator = Clustering(n_clusters=N_CLUSTERS, bounds=PLACES[side], epsilon=1.0)
    columns = list(PLACES[side])
    names = [f"{side}_to_centre_{i}" for i in range(N_CLUSTERS)]
    risk = NearCentres(columns)

    def exact(past: pd.DataFrame) -> Featurizer:
        centres = KMeans(N_CLUSTERS, n_init=4, random_state=0).fit(clamped(side, past))
        return lambda rows: pd.DataFrame(centres.transform(clamped(side, rows)), columns=names)

    return Ptk(
        f"{side} clusters",
        CLUSTERS,
        estimator,
        _NEAR[side],
        exact,
        lambda fitted, rows: pd.DataFrame(fitted.transform(rows[columns]), columns=names),
        lambda fitted, rows: float(risk.of(list(fitted.cluster_centers_.T), rows).mean()),
    )


def _axes(side: str) -> Ptk:
    estimator = CovarianceMatrix(bounds=PLACES[side], epsilon=1.0, delta=DELTA)
    columns, names = list(PLACES[side]), [f"{side}_axis_0", f"{side}_axis_1"]

    def exact(past: pd.DataFrame) -> Featurizer:
        axes = decomposition.PCA(2).fit(clamped(side, past))
        return lambda rows: pd.DataFrame(axes.transform(clamped(side, rows)), columns=names)

    return Ptk(
        f"{side} axes",
        PCA,
        estimator,
        _PCA,
        exact,
        lambda fitted, rows: pd.DataFrame(fitted.transform(rows[columns]), columns=names),
        _true_error,
    )
