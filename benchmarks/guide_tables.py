"""Measures tables of the guide and prints them as they stand there: `python benchmarks/guide_tables.py [TABLE ...]`.

What is measured with peers, and held against goals, is in `ptklib_*.py`; these are the figures beside them.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin_min

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # this file's directory would hide the package of the same name

from benchmarks import drawn_clusters, ptklib_counts, ptklib_shrinkage, ptklib_trees  # noqa: E402
from ptklib import Clustering, CountFeaturizer, CovarianceMatrix, HistoricalStatistics, TreeFeaturizer  # noqa: E402
from ptklib.accounting import renyi_curve, renyi_epsilon  # noqa: E402
from ptklib.arrays import Floats  # noqa: E402
from ptklib.privacy import PrivacyLoss  # noqa: E402
from ptkstore.application.ledger.charging import charge_of  # noqa: E402
from ptkstore.domain.accounting.accountants import ORDERS, Accountant, Charge, admits, caps_of  # noqa: E402
from ptkstore.domain.accounting.losses import Loss  # noqa: E402

DELTA = 1e-6
STATISTICS_ROWS = 300_000
TREES_ROWS = 20_000


def header(*names: str) -> None:
    """Print the head of a table in Markdown."""
    line(*names)
    line(*("---" for _ in names))


def line(*cells: object) -> None:
    """Print one line of it."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def counts(fits: int) -> None:
    """AUC of a logistic regression on count features, for each way to name values."""
    fields = ptklib_counts.FIELDS
    ways: dict[str, dict[str, Any]] = {
        "declared": {"domains": ptklib_counts.DOMAINS},
        "16,384 buckets": {"hash_buckets": dict.fromkeys(fields, ptklib_counts.BUCKETS)},
        "selected": {"select": dict.fromkeys(fields, "int64")},
    }
    most, test = ptklib_counts.clicks(1_000_000, 1), ptklib_counts.clicks(200_000, 2)
    sizes = {"1e5": most[:100_000], "1e6": most}
    for name, train in sizes.items():
        exact = ptklib_counts.auc(ptklib_counts.without_noise(train), train, test)
        print(f"without privacy, {name} rows: {_short(exact)}", flush=True)
    header("epsilon", "noise per count", *(f"{size} rows: {way}" for size in sizes for way in ways))
    for epsilon in (0.1, 0.3, 1.0, 3.0):
        cells, noise = [], 0.0
        for train in sizes.values():
            for way, params in ways.items():
                found = []
                for _ in range(fits):
                    one = CountFeaturizer(
                        label="y", classes=(0, 1), epsilon=epsilon, delta=DELTA, **params
                    ).fit(train)
                    share = 1.0
                    if way == "selected":
                        kept = {name: set(one.tables_[name][name].to_pylist()) for name in fields}
                        share = ptklib_counts.share_of_rows(train, kept)
                    else:
                        noise = one.noise_std_[fields[0]]["count_0"]
                    found.append((ptklib_counts.auc(one, train, test), share))
                auc, share = np.mean(found, axis=0)
                cells.append(_short(auc) + (f" ({share:.0%})" if way == "selected" else ""))
        line(f"{epsilon:g}", f"{noise:.2g}" if noise < 10 else f"{noise:.0f}", *cells)


def statistics(fits: int) -> None:
    """Error of each statistic of minutes per green cab trip, asked for alone, in per cent."""
    trips = ptklib_shrinkage.load_trips()
    if trips is None:
        return
    sample = trips.sample(STATISTICS_ROWS, random_state=0)
    asked: dict[str, dict[str, Any]] = {
        "mean": {"statistics": ("mean",)},
        "std": {"statistics": ("std",)},
        "histogram": {"statistics": ("histogram",), "bins": 12},
        "quartiles": {"statistics": ("quantiles",), "quantiles": (0.25, 0.5, 0.75)},
    }
    epsilons = (0.01, 0.1, 1.0, 10.0)
    header("groups", "statistic", *(f"{epsilon:g}" for epsilon in epsilons))
    for groups, domains in ptklib_shrinkage.KEYS.items():
        for statistic, params in asked.items():
            cells = []
            for epsilon in epsilons:
                estimator = HistoricalStatistics(
                    list(domains),
                    ["minutes"],
                    domains=domains,
                    bounds={"minutes": (0, 60)},
                    epsilon=epsilon,
                    **params,
                )
                part = estimator.partial_statistics(sample)
                misses = [estimator.finalize([part]).error_from_true_value(part) for _ in range(fits)]
                cells.append(_short(100 * float(np.mean(misses)), 2))
            line(f"per {groups}", statistic, *cells)


def admissions(fits: int) -> None:
    """Equal trainings of epsilon 0.1 that the filter of one block admits, under each accountant."""
    del fits  # nothing is drawn
    hours: Mapping[str, range] = {"hour": range(24)}
    columns = [f"x{i}" for i in range(5)]
    pure = HistoricalStatistics(domains=hours, statistics="count", epsilon=0.1)
    gaussian = CovarianceMatrix(columns, max_norm=1, epsilon=0.1, delta=1e-8)
    trainings = {
        "counts, Laplace noise": pure.declared_loss(),
        "covariance, Gaussian noise, delta 1e-8": gaussian.declared_loss(),
        "a hundred steps on samples of 1 %, Gaussian noise, delta 1e-8": _sampled(0.1, 1e-8),
    }
    header("training", "block's epsilon", *(f"`{a.value}`" for a in Accountant))
    for name, declared in trainings.items():
        loss = Loss.charge(declared.epsilon, declared.delta)
        for capacity in (1, 5):
            charges = {accountant: charge_of(declared.event, accountant, loss) for accountant in Accountant}
            admitted = [_admitted(a, charge, Loss.capacity(capacity, DELTA)) for a, charge in charges.items()]
            line(name, capacity, *(f"{n:,}" for n in admitted))


def _sampled(epsilon: float, delta: float) -> PrivacyLoss:
    """Return the loss of a hundred steps on Poisson samples, with the least noise that keeps to a budget."""

    def event(noise: float) -> dict[str, Any]:
        step = {"name": "DiscreteGaussian", "scale": noise, "l2_sensitivity": 1.0, "shape": [10], "count": 1}
        return {"name": "PoissonSampled", "sampling_rate": 0.01, "event": step, "count": 100}

    low, high = 0.5, 50.0
    while high / low > 1.001:
        noise = (low * high) ** 0.5
        fits = renyi_epsilon(ORDERS, renyi_curve(event(noise), ORDERS), delta) <= epsilon
        low, high = (low, noise) if fits else (noise, high)
    return PrivacyLoss(epsilon, delta, event(high))


def _admitted(accountant: Accountant, charge: Charge, capacity: Loss) -> int:
    """Return how many times a charge fits, by bisection of the rule."""
    caps, low, high = caps_of(accountant, capacity), 0, 2**20
    while high - low > 1:
        n = (low + high) // 2
        fits = admits(caps, [n * amount for amount in charge.amounts], n * charge.delta_atto)
        low, high = (n, high) if fits else (low, n)
    return low


def trees(fits: int) -> None:
    """AUC against epsilon of all methods, and what helps few rows."""
    ptklib_trees.against_epsilon()
    (train, label), (test, truth) = (
        ptklib_trees.synthetic(n, seed) for n, seed in ((TREES_ROWS, 1), (ptklib_trees.TEST, 2))
    )
    print()
    header(f"boosting, epsilon 1, {TREES_ROWS:,} synthetic rows", "AUC")
    choices: dict[str, dict[str, Any]] = {
        "defaults": {},
        "n_estimators=12, max_depth=4": {"n_estimators": 12, "max_depth": 4},
        "delta=1e-6": {"delta": DELTA},
    }
    for name, params in choices.items():
        model = TreeFeaturizer(
            ptklib_trees.NAMES,
            bounds=(-1, 1),
            classes=[0, 1],
            method="boosting",
            epsilon=1.0,
            **{"delta": 0, **params},
        )
        found = [ptklib_trees.auc_of(truth, model, train, label, test) for _ in range(fits)]
        line(name, _short(float(np.mean(found))))


def clustering(fits: int) -> None:
    """Drawn layouts near k-means, and noisy Lloyd with its tree: distance over that of k-means without privacy."""
    header("rows per cluster x epsilon", "within 1.1", "all clusters found", "informed")
    measurements = [drawn_clusters.reached(low, high) for low, high in drawn_clusters.RANGES]
    for one in measurements:
        shares = (f"{share:.0%}" for share in (one.near, one.found, one.informed))
        line(f"{one.low:,} to {one.high:,}", *shares)
    print(f"within 1.1 in 90 % from {drawn_clusters.near_from(measurements):,.0f} on", flush=True)
    for deviation, dimension in ((1e-4, 3), (8e-6, 3), (5e-8, 2)):
        needed = drawn_clusters.rows_any_method_needs(deviation, dimension, 4)
        print(f"4 clusters of width {deviation:g} in {dimension} columns need {needed:.1f}", flush=True)
    header("rows", "k", "epsilon", "ours")
    for n, dimension, k, epsilons in (
        (100_000, 10, 16, (0.2, 1.0)),
        (100_000, 10, 64, (0.2, 1.0)),
        (100_000, 30, 16, (0.2, 1.0)),
        (20_000, 10, 16, (0.2,)),
        (20_000, 30, 16, (0.2,)),
    ):
        random = np.random.default_rng(dimension)
        centres = random.uniform(-1, 1, (k, dimension))
        rows = np.clip(centres[random.integers(0, k, n)] + random.normal(0, 0.08, (n, dimension)), -1, 1)
        best = _rmse(rows, KMeans(k, n_init=5, random_state=0).fit(rows).cluster_centers_)
        for epsilon in epsilons:
            columns = [f"v{i}" for i in range(dimension)]
            ours = Clustering(columns, k, bounds=(-1, 1), method="lloyd", epsilon=epsilon, delta=DELTA)
            found = [_rmse(rows, ours.fit(rows).cluster_centers_) / best for _ in range(fits)]
            line(f"blobs, {n:,}, {dimension} columns", k, f"{epsilon:g}", f"{np.mean(found):.2f}")


def _rmse(rows: Floats, centres: Floats) -> float:
    return float(np.sqrt(np.mean(pairwise_distances_argmin_min(rows, centres)[1] ** 2)))


def _short(number: float, digits: int = 3) -> str:
    """Return ``.760`` for .76, and `digits` significant digits of what is not a share."""
    if digits == 3:
        return f"{number:.3f}".removeprefix("0")
    text = f"{number:.{digits}g}" if number >= 1 else f"{number:.{1 if number < 0.095 else 2}g}"
    return text.removeprefix("0") if 0 < number < 1 else text


TABLES: dict[str, Callable[[int], None]] = {
    "counts": counts,
    "statistics": statistics,
    "admissions": admissions,
    "trees": trees,
    "clustering": clustering,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", nargs="*", help=f"some of {', '.join(TABLES)}; all of them by default")
    parser.add_argument("--fits", type=int, default=3, help="fits that a number is the mean of (default: 3)")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.table) - set(TABLES)):
        parser.error(f"no such table: {', '.join(unknown)}; tables are {', '.join(TABLES)}")
    for name in asked.table or TABLES:
        print(f"\n{name}", flush=True)
        TABLES[name](asked.fits)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
