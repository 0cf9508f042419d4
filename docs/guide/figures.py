"""Draws the guide's plots of error against epsilon: ``python docs/guide/figures.py [family ...]``.

Rows are generated with fixed seeds, so that anyone can draw the plots again; noise has no seed, so points move a
little. Each point is the mean of some fits, each line a number of rows; the dashed line is what the same model
reaches without noise on the largest number of rows, the dotted one what can be said without any data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from ptklib import (
    AdaSSPRegressor,
    Clustering,
    CountFeaturizer,
    CovarianceMatrix,
    HistoricalStatistics,
    TreeFeaturizer,
    UserEmbeddings,
)
from ptklib.arrays import Floats, Ints

Error = Callable[[int, float], float]  # of a number of rows and an epsilon

FOLDER = Path(__file__).resolve().parent / "figures"
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6


@dataclass(frozen=True)
class Plot:
    """What a family's plot shows."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    error: Error
    without_noise: float | None = None
    without_data: float | None = None
    counted: str = "rows"
    fits: int = 5


def counts() -> Plot:
    """Click probabilities of 1,000 values, some common and most rare."""
    rng = np.random.default_rng(1)
    value = np.minimum(rng.zipf(1.3, 300_000) - 1, 999)
    rate = 1 / (1 + np.exp(1 - rng.normal(0, 1, 1000)))
    clicked = (rng.random(len(value)) < rate[value]).astype(np.int64)
    share = np.bincount(value, minlength=1000) / len(value)
    rows = pd.DataFrame({"value": value, "clicked": clicked})

    def error(n: int, epsilon: float) -> float:
        ptk = CountFeaturizer(
            label="clicked", classes=[0, 1], domains={"value": list(range(1000))}, epsilon=epsilon
        ).fit(rows.head(n))
        return float(np.abs(ptk.tables_["value"].column("p_1").to_numpy() - rate) @ share)

    nothing = float(np.abs(0.5 - rate) @ share)
    return Plot(
        "counts of 1,000 values", "error of a probability", (3_000, 30_000, 300_000), error, None, nothing
    )


def statistics() -> Plot:
    """Mean speed by hour of the week."""
    rng = np.random.default_rng(2)
    true = 18 + 6 * np.sin(np.arange(168) / 24 * 2 * np.pi) + rng.normal(0, 1, 168)
    hour = rng.integers(0, 168, 1_000_000)
    rows = pd.DataFrame({"hour": hour, "mph": np.clip(true[hour] + rng.normal(0, 5, len(hour)), 0, 60)})

    def error(n: int, epsilon: float) -> float:
        ptk = HistoricalStatistics(
            domains={"hour": list(range(168))}, bounds={"mph": (0.0, 60.0)}, epsilon=epsilon
        ).fit(rows.head(n))
        return float(np.abs(ptk.tables_["statistics"].column("mph_mean").to_numpy() - true).mean())

    nothing = float(np.abs(30 - true).mean())
    return Plot(
        "mean speed of 168 hours", "error, miles an hour", (10_000, 100_000, 1_000_000), error, None, nothing
    )


def clustering() -> Plot:
    """Sixteen centres of points in the plane."""
    rng = np.random.default_rng(3)
    middles = rng.uniform(0.1, 0.9, (24, 2))
    points = np.clip(middles[rng.integers(0, 24, 200_000)] + rng.normal(0, 0.03, (200_000, 2)), 0, 1)
    later = points[150_000:]

    def rmse(centres: Floats) -> float:
        return float(np.sqrt(np.mean(cKDTree(centres).query(later)[0] ** 2)))

    best = rmse(KMeans(16, n_init=2, random_state=0).fit(points[:150_000]).cluster_centers_)

    def error(n: int, epsilon: float) -> float:
        bounds = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
        return (
            rmse(Clustering(n_clusters=16, bounds=bounds, epsilon=epsilon).fit(points[:n]).cluster_centers_)
            / best
        )

    grid = np.stack(np.meshgrid(np.arange(4) + 0.5, np.arange(4) + 0.5), axis=-1).reshape(-1, 2) / 4
    return Plot(
        "16 clusters in the plane",
        "RMSE over that of KMeans",
        (1_500, 15_000, 150_000),
        error,
        1.0,
        rmse(grid) / best,
    )


def covariance() -> Plot:
    """Covariance of twenty columns of rank five."""
    rng = np.random.default_rng(4)
    rows = np.clip(rng.normal(0, 0.3, (300_000, 5)) @ rng.normal(0, 0.4, (5, 20)), -1, 1)
    true = np.cov(rows.T, bias=True)

    def error(n: int, epsilon: float) -> float:
        ptk = CovarianceMatrix(bounds={f"x{i}": (-1.0, 1.0) for i in range(20)}, epsilon=epsilon, delta=DELTA)
        return float(np.linalg.norm(ptk.fit(rows[:n]).covariance_ - true) / np.linalg.norm(true))

    return Plot("covariance of 20 columns", "relative error", (3_000, 30_000, 300_000), error, None, 1.0)


def linear() -> Plot:
    """Regression on twenty features."""
    rng = np.random.default_rng(5)
    features = rng.uniform(-1, 1, (210_000, 20))
    label = np.clip(features @ rng.normal(0, 0.25, 20) + rng.normal(0, 0.25, len(features)), -2, 2)
    train, test = slice(0, 200_000), slice(200_000, None)

    def unexplained(predicted: Floats) -> float:
        return float(np.mean((label[test] - predicted) ** 2) / label[test].var())

    def error(n: int, epsilon: float) -> float:
        model = AdaSSPRegressor(
            bounds={f"x{i}": (-1.0, 1.0) for i in range(20)},
            label_bounds=(-2.0, 2.0),
            epsilon=epsilon,
            delta=DELTA,
        )
        return unexplained(model.fit(features[:n], label[:n]).predict(features[test]))

    best = unexplained(LinearRegression().fit(features[train], label[train]).predict(features[test]))
    return Plot("regression on 20 features", "1 - R²", (2_000, 20_000, 200_000), error, best, 1.0)


def trees() -> Plot:
    """Boosted trees of a label that is no sum of its features' effects."""
    rng = np.random.default_rng(6)
    rows = pd.DataFrame(rng.uniform(0, 1, (110_000, 6)), columns=[f"x{i}" for i in range(6)])
    label = (
        np.sin(6 * rows["x0"]) * rows["x1"] + (rows["x2"] > 0.6) * rows["x3"] + rng.normal(0, 0.2, len(rows))
    )
    rows["label"] = np.clip(label, -2, 2)
    later, columns = rows.tail(10_000), [f"x{i}" for i in range(6)]

    def unexplained(predicted: Floats) -> float:
        return float(np.mean((later["label"] - predicted) ** 2) / later["label"].var())

    def error(n: int, epsilon: float) -> float:
        ptk = TreeFeaturizer(
            label="label", label_bounds=(-2.0, 2.0), bounds=dict.fromkeys(columns, (0.0, 1.0)),
            epsilon=epsilon, delta=DELTA,
        ).fit(rows.head(n))  # fmt: skip
        return unexplained(ptk.transform(later[columns])[:, 0])

    exact = HistGradientBoostingRegressor(random_state=0).fit(
        rows[columns].head(100_000), rows["label"].head(100_000)
    )
    best = unexplained(exact.predict(later[columns]))
    return Plot("boosted trees of 6 features", "1 - R²", (1_000, 10_000, 100_000), error, best, 1.0, fits=2)


def embeddings() -> Plot:
    """Twenty ratings each of users with tastes; the guarantee is for all rows of a user."""
    rng = np.random.default_rng(7)
    n_users, n_items, each = 20_000, 200, 20
    tastes = rng.dirichlet(np.full(4, 0.2), n_users + 500)
    appeal = rng.gamma(0.3, 1.0, (4, n_items)) / (1 + np.arange(n_items)) ** 0.5
    appeal /= appeal.sum(axis=1, keepdims=True)
    cumulated = np.cumsum(tastes @ appeal, axis=1)
    chosen = np.array([np.searchsorted(c, rng.random(each + 5) * c[-1]) for c in cumulated])
    new, asked = chosen[n_users:, :each], chosen[n_users:, each:]

    def surprise(rates: Floats) -> float:
        p = rates / rates.sum(axis=1, keepdims=True)
        return float(-np.mean(np.log(np.maximum(np.take_along_axis(p, asked, axis=1), 1e-9))))

    def table(items: Ints, first: int) -> pd.DataFrame:
        user = np.repeat(np.arange(first, first + len(items)), each)
        return pd.DataFrame({"user": user, "item": items.ravel()}).drop_duplicates()

    def error(n: int, epsilon: float) -> float:
        ptk = UserEmbeddings(
            "user", "item", users=list(range(n_users + 500)), items=list(range(n_items)), n_factors=6,
            max_rows_per_user=each, epsilon=epsilon, delta=DELTA,
        ).fit(table(chosen[:n, :each], 0))  # fmt: skip
        own = table(new, n_users)
        vectors = pd.DataFrame(ptk.transform(own), index=own["user"])
        return surprise(vectors[~vectors.index.duplicated()].to_numpy() @ ptk.item_factors_.T)

    def matrix(items: Ints) -> csr_matrix:
        found = table(items, 0)
        return csr_matrix((np.ones(len(found)), (found["user"], found["item"])), shape=(len(items), n_items))

    exact = NMF(6, solver="mu", beta_loss="kullback-leibler", init="nndsvda", random_state=0)
    exact.fit(matrix(chosen[:n_users, :each]))
    rates = exact.transform(matrix(new)) @ exact.components_
    rates /= np.maximum(rates.sum(axis=1, keepdims=True), 1e-12)
    popular = np.bincount(chosen[:n_users, :each].ravel(), minlength=n_items) + 0.5
    best = surprise(0.95 * rates + 0.05 * popular / popular.sum())
    return Plot(
        "6 factors of 200 items", "nats per held-out choice", (200, 2_000, 20_000), error, best,
        float(np.log(n_items)), "users", 2,
    )  # fmt: skip


PLOTS = {
    "counts": counts,
    "trees": trees,
    "embeddings": embeddings,
    "covariance": covariance,
    "statistics": statistics,
    "clustering": clustering,
    "linear": linear,
}


def draw(plot: Plot, path: Path) -> None:
    """Measure and save one plot."""
    figure = Figure(figsize=(5.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for size, colour in zip(plot.sizes, ("tab:orange", "tab:blue", "tab:green"), strict=False):
        fits = np.array([[plot.error(size, e) for e in EPSILONS] for _ in range(plot.fits)])
        axes.plot(
            EPSILONS,
            fits.mean(axis=0),
            marker="o",
            markersize=4,
            color=colour,
            label=f"{size:,} {plot.counted}",
        )
        axes.fill_between(EPSILONS, fits.min(axis=0), fits.max(axis=0), color=colour, alpha=0.15, lw=0)
    if plot.without_noise is not None:
        axes.axhline(plot.without_noise, color="black", linestyle="--", lw=1, label="without noise")
    if plot.without_data is not None:
        axes.axhline(plot.without_data, color="0.5", linestyle=":", lw=1.2, label="without data")
    axes.set_xscale("log")
    axes.set_xlabel("epsilon")
    axes.set_ylabel(plot.unit)
    axes.set_title(plot.title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "guide", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    """Draw the named plots, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family", help=", ".join(PLOTS))
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the plots")
    asked = parser.parse_args(argv)
    if unknown := sorted(set(asked.families) - set(PLOTS)):
        parser.error(f"no such family: {', '.join(unknown)}; there are {', '.join(PLOTS)}")
    for name in asked.families or PLOTS:
        draw(PLOTS[name](), asked.out / f"{name}.svg")
        sys.stdout.write(f"{asked.out / name}.svg\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
