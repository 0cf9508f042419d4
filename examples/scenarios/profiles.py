"""Profiles of the six PTK families: how the loss of a PTK falls with rows and epsilon (Figure 6 of the PTK paper).

Each PTK is trained on n rows, drawn anew for each seed, and judged as its family is in the paper:

| family | loss |
|---|---|
| counts | total variation between click probabilities and those of all rows, each bucket as often as it occurs |
| trees | mean squared error of log pace on held-out trips |
| embeddings | negative log likelihood per rating of held-out users' last third, given the rest |
| covariance | Frobenius distance of the covariance of pickup and dropoff from that of all rows, over its norm |
| statistics | mean distance of the mean speed of an hour from that of all trips, in miles an hour |
| clusters | root mean squared distance of held-out pickups to the nearest of 32 centres, in thousandths of a degree |

The last line of each table is the loss without noise, on all rows; for families whose loss is a distance from the truth
it is 0 by definition. None of these losses is private: a profile of real data stays where the data are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from _common import arguments, clicks, ratings, report, trips
from _common.cab_ptks import PLACES, TREE_BOUNDS, tree_ptk
from _common.plots import save_profiles
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF
from sklearn.ensemble import HistGradientBoostingRegressor

from ptklib import (
    Clustering,
    CountFeaturizer,
    CovarianceMatrix,
    HistoricalStatistics,
    UserEmbeddings,
)
from ptklib.arrays import Floats

DELTA = 1e-6
N_BUCKETS = 256
N_CLUSTERS = 32
N_FACTORS = 8
PATHS = {
    "clicks": "a click log, as in retention.py",
    "yellow": "yellow cab trips with coordinates",
    "zones": "table of taxi zones (with --yellow)",
    "ratings": "ratings: user_id, item_id or movie_id, rating",
}


@dataclass(frozen=True)
class Family:
    """A family on its rows: `loss(rows, epsilon)` trains on `rows` and judges; `exact` is the floor."""

    name: str
    unit: str
    rows: pd.DataFrame
    loss: Callable[[pd.DataFrame, float], float]
    exact: float
    groups: str | None = None  # rows of one value of this column are drawn together


@dataclass(frozen=True)
class Profile:
    """Losses of a family in the shape (epsilons, sizes, seeds)."""

    family: Family
    epsilons: tuple[float, ...]
    sizes: tuple[int, ...]
    losses: Floats


def profile(family: Family, epsilons: Sequence[float], fractions: Sequence[float], seeds: int) -> Profile:
    """Train on each share of the rows, with rows and noise drawn anew each time."""
    keys = family.rows.index.to_numpy() if family.groups is None else family.rows[family.groups].unique()
    sizes = sorted({max(2, round(f * len(keys))) for f in fractions})
    losses = np.zeros((len(epsilons), len(sizes), seeds))
    for seed in range(seeds):
        drawn = np.random.default_rng(seed).permutation(keys)
        for j, size in enumerate(sizes):
            if family.groups is None:
                rows = family.rows.loc[drawn[:size]]
            else:
                rows = family.rows[family.rows[family.groups].isin(drawn[:size])]
            for i, epsilon in enumerate(epsilons):
                losses[i, j, seed] = family.loss(rows.reset_index(drop=True), epsilon)
    return Profile(family, tuple(epsilons), tuple(sizes), losses)


def table(found: Profile) -> str:
    """Return mean losses by size and epsilon as text."""
    rows_name = "rows" if found.family.groups is None else "users"
    mean, spread = found.losses.mean(axis=-1), found.losses.std(axis=-1)
    rows = [
        [f"{size:,}"] + [f"{mean[i, j]:.4g} ± {spread[i, j]:.2g}" for i in range(len(found.epsilons))]
        for j, size in enumerate(found.sizes)
    ]
    header = [rows_name, *(f"ε = {e:g}" for e in found.epsilons)]
    text = [f"{found.family.name}: {found.family.unit}", "", *report.lines_of_table(header, rows)]
    return "\n".join([*text, f"without noise, all rows: {found.family.exact:.4g}", ""])


def count_family(log: clicks.Clicks) -> Family:
    """Click probabilities of each bucket of up to five categories."""
    columns = list(log.categories[:5])

    def untrained(epsilon: float) -> CountFeaturizer:
        return CountFeaturizer(
            columns, clicks.LABEL, classes=[0, 1], hash_buckets=N_BUCKETS, epsilon=epsilon, delta=DELTA
        )

    buckets = {c: untrained(1.0).bucket_of(c, log.rows[c]) for c in columns}
    shares = {c: pd.Series(buckets[c]).value_counts(normalize=True) for c in columns}
    true = {c: log.rows[clicks.LABEL].groupby(buckets[c]).mean() for c in columns}

    def loss(rows: pd.DataFrame, epsilon: float) -> float:
        ptk = untrained(epsilon).fit(rows)
        distances = []
        for c in columns:
            p = ptk.tables_[c].to_pandas().set_index(f"{c}_bucket")["p_1"].reindex(shares[c].index)
            distances.append(float(((p - true[c].reindex(p.index)).abs() * shares[c]).sum()))
        return float(np.mean(distances))

    return Family("counts", "total variation", log.rows[[*columns, clicks.LABEL]], loss, 0.0)


def tree_family(past: pd.DataFrame, later: pd.DataFrame) -> Family:
    """Pace of trips by place and time."""
    columns = list(TREE_BOUNDS)

    def error(predicted: Any) -> float:
        return float(np.mean((later["pace"] - predicted) ** 2))

    def loss(rows: pd.DataFrame, epsilon: float) -> float:
        ptk = tree_ptk(epsilon).fit(rows)
        return error(ptk.transform(later[columns])[:, 0])

    exact = HistGradientBoostingRegressor(random_state=0).fit(past[columns], past["pace"])
    return Family(
        "trees",
        "squared error of log pace",
        past[[*columns, "pace"]],
        loss,
        error(exact.predict(later[columns])),
    )


def covariance_family(rows: pd.DataFrame) -> Family:
    """Covariance of both ends of a trip."""
    bounds = {**PLACES["pickup"], **PLACES["dropoff"]}
    low, high = np.array(list(bounds.values())).T
    true = np.cov(np.clip(rows[list(bounds)].to_numpy(), low, high).T, bias=True)

    def loss(drawn: pd.DataFrame, epsilon: float) -> float:
        ptk = CovarianceMatrix(bounds=bounds, epsilon=epsilon, delta=DELTA).fit(drawn)
        return float(np.linalg.norm(ptk.covariance_ - true) / np.linalg.norm(true))

    return Family("covariance", "relative distance", rows[list(bounds)], loss, 0.0)


def statistics_family(rows: pd.DataFrame) -> Family:
    """Mean speed by hour of the day."""
    speeds = rows.assign(mph=np.exp(-rows["pace"]) * 3600)[["hour", "mph"]]
    true = speeds.assign(mph=speeds["mph"].clip(0, 60)).groupby("hour")["mph"].mean()

    def loss(drawn: pd.DataFrame, epsilon: float) -> float:
        ptk = HistoricalStatistics(
            domains={"hour": list(range(24))}, bounds={"mph": (0.0, 60.0)}, epsilon=epsilon
        ).fit(drawn)
        mean = ptk.tables_["statistics"].to_pandas().set_index("hour")["mph_mean"]
        return float((mean.reindex(true.index) - true).abs().mean())

    return Family("statistics", "miles an hour from the true mean", speeds, loss, 0.0)


def cluster_family(past: pd.DataFrame, later: pd.DataFrame) -> Family:
    """Where trips start."""
    bounds = PLACES["pickup"]
    low, high = np.array(list(bounds.values())).T
    points = [np.clip(rows[list(bounds)].to_numpy(), low, high) for rows in (past, later)]

    def rmse(centres: Floats) -> float:
        return float(1000 * np.sqrt(np.mean(cKDTree(centres).query(points[1])[0] ** 2)))

    def loss(drawn: pd.DataFrame, epsilon: float) -> float:
        return rmse(
            Clustering(n_clusters=N_CLUSTERS, bounds=bounds, epsilon=epsilon).fit(drawn).cluster_centers_
        )

    exact = KMeans(N_CLUSTERS, n_init=4, random_state=0).fit(points[0]).cluster_centers_
    return Family("clusters", "RMSE, 0.001 degrees", past[list(bounds)], loss, rmse(exact))


def embedding_family(rated: pd.DataFrame) -> Family:
    """Who rates what: users hold out a third of what they rated."""
    items = sorted(int(i) for i in rated["item_id"].unique())
    users = np.random.default_rng(0).permutation(rated["user_id"].unique())
    held = rated["user_id"].isin(users[: len(users) // 5])
    given = np.random.default_rng(1).random(len(rated)) < 2 / 3
    past, own, asked = rated[~held], rated[held & given], rated[held & ~given]
    asked = asked[asked["user_id"].isin(own["user_id"])]
    names = sorted(int(u) for u in rated["user_id"].unique())
    columns = np.searchsorted(items, asked["item_id"])

    def surprise(rates: Floats) -> float:
        """Mean negative log probability of the rated item among all, with rates of each row."""
        p = rates / rates.sum(axis=1, keepdims=True)
        return float(-np.mean(np.log(np.maximum(p[np.arange(len(p)), columns], 1e-9))))

    def loss(rows: pd.DataFrame, epsilon: float) -> float:
        ptk = UserEmbeddings(
            "user_id", "item_id", users=names, items=items, n_factors=N_FACTORS, max_rows_per_user=100,
            epsilon=epsilon, delta=1e-4,
        ).fit(rows)  # fmt: skip
        vectors = pd.DataFrame(ptk.transform(own), index=own["user_id"])
        vectors = vectors[~vectors.index.duplicated()].loc[asked["user_id"]].to_numpy()
        return surprise(vectors @ ptk.item_factors_.T)

    def counts(rows: pd.DataFrame, ids: Sequence[int]) -> Any:
        at = np.searchsorted(ids, rows["user_id"]), np.searchsorted(items, rows["item_id"])
        return csr_matrix((np.ones(len(rows)), at), shape=(len(ids), len(items)))

    exact = NMF(N_FACTORS, solver="mu", beta_loss="kullback-leibler", init="nndsvda", random_state=0)
    exact.fit(counts(past, names))
    vectors = exact.transform(counts(own, names))[np.searchsorted(names, asked["user_id"])]
    popular = np.asarray(counts(past, names).sum(axis=0)).ravel() + 0.5
    rates = vectors @ exact.components_
    rates = rates / np.maximum(rates.sum(axis=1, keepdims=True), 1e-12)
    floor = surprise(0.9 * rates + 0.1 * popular / popular.sum())
    return Family(
        "embeddings", "nats per held-out rating", past[["user_id", "item_id"]], loss, floor, "user_id"
    )


def families(asked: Any) -> list[Family]:
    """Return the families whose files are given, or all on generated rows."""
    if asked.generated is not None:
        n, zones = asked.generated, trips.Zones.generated()
        log: Any = clicks.generate(n)
        yellow: Any = trips.generate(n, zones, 150, 1, "2016-01-01")
        rated: Any = ratings.generate(n)[0]
    else:
        log = None if asked.clicks is None else clicks.load(asked.clicks)
        if (asked.yellow is None) != (asked.zones is None):
            raise SystemExit("--yellow and --zones go together")
        yellow = None if asked.yellow is None else trips.load(asked.yellow, trips.Zones.load(asked.zones))
        rated = None if asked.ratings is None else ratings.load(asked.ratings)
    found = [] if log is None else [count_family(log)]
    if yellow is not None:
        cut = round(0.8 * len(yellow))
        past, later = yellow.iloc[:cut].reset_index(drop=True), yellow.iloc[cut:].head(10_000)
        found += [tree_family(past, later), covariance_family(yellow), statistics_family(yellow)]
        found += [cluster_family(past, later)]
    return found if rated is None else [*found, embedding_family(rated.reset_index(drop=True))]


def main(argv: list[str] | None = None) -> int:
    """Measure each family; print tables, save a plot and the numbers."""
    parser = arguments.parser(__doc__, PATHS)
    parser.set_defaults(seeds=5)
    asked = arguments.checked(parser, argv, PATHS)
    found = []
    for family in families(asked):
        found.append(profile(family, asked.epsilons, asked.fractions, asked.seeds))
        print(table(found[-1]), flush=True)
    save_profiles(found, asked.out / "profiles.svg")
    content = [
        {
            "family": p.family.name,
            "loss": p.family.unit,
            "counted": "users" if p.family.groups else "rows",
            "epsilons": p.epsilons,
            "sizes": p.sizes,
            "exact": p.family.exact,
            "losses": p.losses.tolist(),
        }
        for p in found
    ]
    (asked.out / "profiles.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"written: {asked.out / 'profiles.svg'}, {asked.out / 'profiles.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
