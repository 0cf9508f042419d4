"""The PTKs a cab service shares, and their twins without noise.

Epsilon is that of all PTKs of a set together, divided by public weights. Pace is log seconds per mile of the
straight line; with a trip's own distance it becomes the duration to expect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.preprocessing import TargetEncoder

from _common.curves import Featurizer
from _common.trips import CELLS, PACE_BOUNDS, X_BOUNDS, Y_BOUNDS, ZONES
from ptklib import Clustering, CovarianceMatrix, HistoricalStatistics, TreeFeaturizer

DELTA = 1e-6
_CELLS = list(range(CELLS * CELLS))
# What to count by: time, places, and pairs of places, which are sparse.
KEYS: Mapping[str, dict[str, Sequence[int]]] = {
    "time": {"weekday": list(range(7)), "hour": list(range(24))},
    "pickup": {"pickup_zone": ZONES},
    "dropoff": {"dropoff_zone": ZONES},
    "way": {"pickup_cell": _CELLS, "dropoff_cell": _CELLS},
}
PLACES = {side: {f"{side}_x": X_BOUNDS, f"{side}_y": Y_BOUNDS} for side in ("pickup", "dropoff")}
N_CLUSTERS = 10
TREE_BOUNDS = {
    **PLACES["pickup"],
    **PLACES["dropoff"],
    "log_miles": (-1.2, 3.0),  # .3 to 20 miles
    "hour": (0.0, 24.0),
    "weekday": (0.0, 7.0),
}


@dataclass(frozen=True)
class Part:
    """One PTK of a set: its weight in the budget and how it is trained."""

    weight: float
    train: Callable[[pd.DataFrame, float | None], Featurizer]


def statistics(names: Sequence[str] = tuple(KEYS)) -> list[Part]:
    """`HistoricalStatistics` of pace: by weekday and hour, by each end's zone, by pair of cells; equal weights."""
    return [
        Part(1, lambda trips, e, n=name, d=domains: _statistic(n, d, trips, e))
        for name, domains in KEYS.items()
        if name in names
    ]


def tree_ptk(epsilon: float, columns: Sequence[str] = tuple(TREE_BOUNDS)) -> TreeFeaturizer:
    """Boosted trees of pace by places, distance and time; fewer and flatter than the default, for speed."""
    bounds = {column: TREE_BOUNDS[column] for column in columns}
    return TreeFeaturizer(
        label="pace", label_bounds=PACE_BOUNDS, bounds=bounds, n_estimators=16, max_depth=5,
        epsilon=epsilon, delta=DELTA,
    )  # fmt: skip


def trees(columns: Sequence[str] = tuple(TREE_BOUNDS)) -> Part:
    """`TreeFeaturizer` of pace."""
    return Part(1, lambda trips, e: _trees(list(columns), trips, e))


def half_each(one: Sequence[Part], other: Sequence[Part]) -> list[Part]:
    """Put two sets together; each has half of epsilon."""
    total = [sum(part.weight for part in parts) for parts in (one, other)]
    return [
        replace(part, weight=part.weight / whole)
        for parts, whole in zip((one, other), total, strict=True)
        for part in parts
    ]


def rides_by_time() -> Part:
    """`HistoricalStatistics` of counts: how busy a weekday's hour is, as the log of a share of the mean."""
    return Part(1, _rides)


def clusters_and_axes() -> list[Part]:
    """`Clustering` and `CovarianceMatrix` of both ends: distances to centres, principal axes."""
    return [
        Part(weight, lambda trips, e, make=make, s=side: make(s, trips, e))
        for side in PLACES
        for make, weight in ((_clusters, 0.5), (_axes, 0.25))
    ]


def train(parts: Sequence[Part], trips: pd.DataFrame, epsilon: float | None) -> Featurizer:
    """Train each part on its share of epsilon; ``None`` trains the twins without noise."""
    total = sum(part.weight for part in parts)
    featurizers = [
        part.train(trips, None if epsilon is None else epsilon * part.weight / total) for part in parts
    ]
    return lambda rows: pd.concat([featurize(rows) for featurize in featurizers], axis=1)


def _statistic(
    name: str, domains: dict[str, Sequence[int]], trips: pd.DataFrame, epsilon: float | None
) -> Featurizer:
    if epsilon is None:
        return exact_mean(name, list(domains), trips)
    ptk = HistoricalStatistics(
        domains={key: list(values) for key, values in domains.items()},
        bounds={"pace": PACE_BOUNDS},
        epsilon=epsilon,
    ).fit(trips)
    at = list(ptk.get_feature_names_out()).index("pace_mean")
    return lambda rows: expected_duration(name, ptk.transform(rows)[:, at], rows)


def exact_mean(name: str, keys: list[str], trips: pd.DataFrame) -> Featurizer:
    """Mean pace of each key, drawn in by empirical Bayes where it was seen rarely."""

    def joined(rows: pd.DataFrame) -> pd.DataFrame:
        code = rows[keys[0]].to_numpy(dtype=np.int64)
        for key in keys[1:]:
            code = code * 1000 + rows[key].to_numpy(dtype=np.int64)
        return pd.DataFrame({"key": code})

    encoder = TargetEncoder(target_type="continuous").fit(joined(trips), trips["pace"])
    return lambda rows: expected_duration(name, encoder.transform(joined(rows))[:, 0], rows)


def _trees(columns: list[str], trips: pd.DataFrame, epsilon: float | None) -> Featurizer:
    if epsilon is None:
        model = HistGradientBoostingRegressor(random_state=0).fit(trips[columns], trips["pace"])
        return lambda rows: expected_duration("trees", model.predict(rows[columns]), rows)
    ptk = tree_ptk(epsilon, columns).fit(trips[[*columns, "pace"]])
    return lambda rows: expected_duration("trees", ptk.transform(rows[columns])[:, 0], rows)


def _rides(trips: pd.DataFrame, epsilon: float | None) -> Featurizer:
    domains = KEYS["time"]
    if epsilon is None:
        sizes = trips.groupby(list(domains)).size()
        counted = sizes.reindex(pd.MultiIndex.from_product(domains.values()), fill_value=0).to_numpy()
    else:
        ptk = HistoricalStatistics(domains=domains, statistics=("count",), epsilon=epsilon).fit(trips)
        counted = ptk.tables_["statistics"].column("count").to_numpy()
    share = np.maximum(counted, 1.0) / max(counted.mean(), 1.0)
    busy = np.log(np.clip(share, 0.02, 50.0)).reshape(7, 24)
    return lambda rows: pd.DataFrame({"busy": busy[rows["weekday"], rows["hour"]]})


def expected_duration(name: str, pace: Any, rows: pd.DataFrame) -> pd.DataFrame:
    """Return log seconds to expect of a pace, for a trip of its own distance."""
    return pd.DataFrame({f"expected_by_{name}": pace + rows["log_miles"].to_numpy()})


def _clusters(side: str, trips: pd.DataFrame, epsilon: float | None) -> Featurizer:
    bounds, columns = PLACES[side], list(PLACES[side])
    names = [f"{side}_to_centre_{i}" for i in range(N_CLUSTERS)]
    if epsilon is None:
        centres = KMeans(N_CLUSTERS, n_init=4, random_state=0).fit(clamped(side, trips))
        return lambda rows: pd.DataFrame(centres.transform(clamped(side, rows)), columns=names)
    ptk = Clustering(n_clusters=N_CLUSTERS, bounds=bounds, epsilon=epsilon).fit(trips[columns])
    return lambda rows: pd.DataFrame(ptk.transform(rows[columns]), columns=names)


def _axes(side: str, trips: pd.DataFrame, epsilon: float | None) -> Featurizer:
    bounds, columns = PLACES[side], list(PLACES[side])
    names = [f"{side}_axis_0", f"{side}_axis_1"]
    if epsilon is None:
        axes = PCA(2).fit(clamped(side, trips))
        return lambda rows: pd.DataFrame(axes.transform(clamped(side, rows)), columns=names)
    ptk = CovarianceMatrix(bounds=bounds, epsilon=epsilon, delta=DELTA).fit(trips[columns])
    return lambda rows: pd.DataFrame(ptk.transform(rows[columns]), columns=names)


def clamped(side: str, rows: pd.DataFrame) -> Any:
    """Return where trips start or end, within the city's box."""
    low, high = zip(*PLACES[side].values(), strict=True)
    return np.clip(rows[list(PLACES[side])].to_numpy(dtype=np.float64), low, high)
