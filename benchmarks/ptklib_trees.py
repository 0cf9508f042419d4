"""Trees on a synthetic task of twenty columns and on taxi trips, against scikit-learn and diffprivlib."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.measuring import Row, measured, table
from benchmarks.peers import HERE, ask_peer
from ptklib import TreeFeaturizer
from ptklib.arrays import Floats, Ints

DATA = Path(os.environ.get("PTK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
NAMES = [f"v{i}" for i in range(20)]
N, TEST = 100_000, 50_000
FITS = 3
SHAPES = ((30, 8), (60, 9), (100, 10))
"""Trees and depths diffprivlib is tried with; it is judged by the best."""

SMALL = {"breast-cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
SPLITS = 20
SMALL_EPSILONS = (0.5, 1.0, 3.0)

COLUMNS = ["trip_distance", "hour", "weekday", "pickup_zone_id", "dropoff_zone_id"]
DOMAINS = {
    "hour": range(24),
    "weekday": range(7),
    "pickup_zone_id": range(1, 266),
    "dropoff_zone_id": range(1, 266),
}
DISTANCE = {"trip_distance": (0.0, 30.0)}


def synthetic(n: int, seed: int) -> tuple[Floats, Ints]:
    """Return rows of twenty uniform columns in [-1, 1] and a label.

    The log-odds are 0.43 times: a saturating effect ``w tanh(2 x)`` of every column, with w from 1.2 down to 0.2;
    a wave in the first and one in the sixth; and two products of columns.
    """
    random = np.random.default_rng(seed)
    rows = random.uniform(-1, 1, (n, len(NAMES)))
    score = np.tanh(2 * rows) @ np.linspace(1.2, 0.2, len(NAMES))
    score += 0.7 * np.sin(4 * rows[:, 0]) + 0.6 * np.cos(4 * rows[:, 5])
    score += rows[:, 1] * rows[:, 2] + rows[:, 3] * rows[:, 4]
    chance = 1 / (1 + np.exp(-0.43 * score))
    return rows, (random.random(n) < chance).astype(np.int64)


def rows() -> list[Row]:
    return [*_synthetic_rows(), *_taxi_rows(), *_small_rows()]


def _synthetic_rows() -> list[Row]:
    (train, label), (test, truth) = synthetic(N, 1), synthetic(TEST, 2)
    free = auc_of(truth, HistGradientBoostingClassifier(learning_rate=0.05, max_iter=300), train, label, test)
    bounds = np.full(len(NAMES), 1.0)
    peer = _diffprivlib(train, label, test, truth, -bounds, bounds)
    task, found = "synthetic d=20 n=1e5 epsilon 1", []
    for delta, named in ((0, "pure"), (1e-6, "delta 1e-6")):
        model = TreeFeaturizer(NAMES, classes=[0, 1], bounds=(-1, 1), epsilon=1.0, delta=delta)
        ours = statistics.mean(auc_of(truth, model, train, label, test) for _ in range(FITS))
        found.append(
            measured(
                f"trees-auc-{named.replace(' ', '-')}",
                f"{task}, {named}: AUC (scikit-learn without privacy {free:.4f})",
                unit="AUC",
                ours=ours,
                theirs=peer["auc"],
                against="diffprivlib",
                goal=0.745,
                direction="max",
            )
        )
    pure = TreeFeaturizer(NAMES, classes=[0, 1], bounds=(-1, 1), epsilon=1.0)
    mine = _processor_seconds(lambda: pure.fit(train, label))
    found.append(
        measured(
            "trees-fit-seconds",
            f"{task}: fit, processor time",
            unit="s",
            ours=mine,
            theirs=peer["seconds"],
            judged=peer["seconds"] / mine,
            against=f"diffprivlib of {peer['shape'][0]} trees, judged: times faster",
            goal=1,
            direction="max",
        )
    )
    theirs = HistGradientBoostingClassifier(max_iter=24, max_leaf_nodes=64).fit(train, label)
    speeds = [
        TEST / _processor_seconds(work)
        for work in (lambda: pure.predict_proba(test), lambda: theirs.predict_proba(test))
    ]
    found.append(
        measured(
            "trees-transform-rows",
            f"{task}: class probabilities of 24 trees, by processor time",
            unit="rows/s",
            ours=speeds[0],
            theirs=speeds[1],
            judged=speeds[0] / speeds[1],
            against="scikit-learn of 24 trees with 64 leaves, judged: times faster",
            goal=1,
            direction="max",
        )
    )
    for method, goal in (("random", 0.74), ("greedy", 0.69)):
        model = TreeFeaturizer(NAMES, classes=[0, 1], bounds=(-1, 1), epsilon=1.0, method=method)
        found.append(
            measured(
                f"trees-auc-{method}",
                f"{task}, pure: AUC of method {method!r}",
                unit="AUC",
                ours=statistics.mean(auc_of(truth, model, train, label, test) for _ in range(FITS)),
                theirs=peer["auc"],
                against="diffprivlib",
                goal=goal,
                direction="max",
            )
        )
    return found


def _taxi_rows() -> list[Row]:
    path = DATA / "nyc_green_taxi.parquet"
    if not path.exists():
        print(f"skipped: {path.name} is not there")
        return []
    train, test = trips(path)
    label, truth = train["long"].to_numpy().astype(int), test["long"].to_numpy()
    free = auc_of(truth, HistGradientBoostingClassifier(), train[COLUMNS], label, test[COLUMNS])
    low = np.asarray([0.0, 0, 0, 1, 1])
    high = np.asarray([30.0, 23, 6, 265, 265])
    clipped = (np.clip(part[COLUMNS].to_numpy(dtype=np.float64), low, high) for part in (train, test))
    peer = _diffprivlib(next(clipped), label, next(clipped), truth, low, high)
    model = TreeFeaturizer(
        COLUMNS, "long", classes=[False, True], bounds=DISTANCE, domains=DOMAINS, epsilon=1.0
    )
    ours = statistics.mean(auc_of(truth, model, train, None, test) for _ in range(FITS))
    return [
        measured(
            "trees-taxi-auc",
            f"green taxi trips above 15 minutes, n=1e5 epsilon 1, pure: AUC (scikit-learn without privacy {free:.4f})",
            unit="AUC",
            ours=ours,
            theirs=peer["auc"],
            against="diffprivlib",
            goal=0.93,
            direction="max",
        )
    ]


def _small_rows() -> list[Row]:
    """Compare the default with diffprivlib's, on the same splits of small tables."""
    found = []
    for dataset, load in SMALL.items():
        rows, label = load(return_X_y=True)
        low, high = rows.min(axis=0), rows.max(axis=0)
        high = np.maximum(high, low + 1.0)
        names, classes = [f"v{i}" for i in range(rows.shape[1])], np.unique(label).tolist()
        bounds = dict(zip(names, zip(low.tolist(), high.tolist(), strict=True), strict=True))
        splits = [
            train_test_split(rows, label, test_size=0.3, random_state=seed, stratify=label)
            for seed in range(SPLITS)
        ]
        ours: dict[float, list[float]] = {epsilon: [] for epsilon in SMALL_EPSILONS}
        theirs: dict[float, list[float]] = {epsilon: [] for epsilon in SMALL_EPSILONS}
        for train, test, y, truth in splits:
            arrays = {"X": train, "y": y, "test": test, "low": low, "high": high}
            peers: Any = ask_peer(
                "diffprivlib", HERE / "diffprivlib_forests.py", arrays, epsilons=list(SMALL_EPSILONS)
            )
            for epsilon, peer in zip(SMALL_EPSILONS, peers, strict=True):
                model = TreeFeaturizer(names, classes=classes, bounds=bounds, epsilon=epsilon)
                ours[epsilon].append(_auc(truth, model.fit(train, y).predict_proba(test)))
                theirs[epsilon].append(_auc(truth, np.asarray(peer)))
        for epsilon in SMALL_EPSILONS:
            mine, its = statistics.median(ours[epsilon]), statistics.median(theirs[epsilon])
            task = f"{dataset} n={len(splits[0][0])} epsilon {epsilon:g}, pure, defaults"
            found.append(
                measured(
                    f"trees-small-{dataset}-{epsilon:g}",
                    f"{task}: AUC, median of {SPLITS} splits",
                    unit="AUC",
                    ours=mine,
                    theirs=its,
                    judged=mine - its,
                    against="diffprivlib's forest, judged: how much better",
                    goal=0,
                    direction="max",
                )
            )
    return found


def _auc(truth: Any, chance: Floats) -> float:
    """Return the AUC; of several classes, the mean of each against the rest."""
    return float(roc_auc_score(truth, chance[:, 1] if chance.shape[1] == 2 else chance, multi_class="ovr"))


def small() -> None:
    """Print the rows of small tables only."""
    print(table(_small_rows()))


def against_epsilon() -> None:
    """Print AUC against epsilon of all methods, on both tasks. The guide quotes it."""
    (train, label), (test, truth) = synthetic(N, 1), synthetic(TEST, 2)
    tasks: list[Any] = [("synthetic", {"features": NAMES, "bounds": (-1, 1)}, train, label, test, truth)]
    path = DATA / "nyc_green_taxi.parquet"
    if path.exists():
        first, second = trips(path)
        public = {"features": COLUMNS, "bounds": DISTANCE, "domains": DOMAINS}
        tasks.append(("taxi", public, first, first["long"].to_numpy().astype(int), second, second["long"]))
    print("| task | epsilon | boosting | boosting, delta 1e-6 | random | random, delta 1e-6 | greedy |")
    print("|---|---|---|---|---|---|---|")
    ways = [("boosting", 0), ("boosting", 1e-6), ("random", 0), ("random", 1e-6), ("greedy", 0)]
    for name, public, rows, y, others, truth in tasks:
        for epsilon in (0.1, 0.3, 1.0, 3.0):
            found = []
            for method, delta in ways:
                model = TreeFeaturizer(**public, classes=[0, 1], epsilon=epsilon, delta=delta, method=method)
                found.append(auc_of(truth, model, rows, y, others))
            print(f"| {name} | {epsilon:g} | " + " | ".join(f"{auc:.3f}" for auc in found) + " |", flush=True)


def trips(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return training and test trips of one to 150 minutes, with their label ``long``: above 15 minutes."""
    read = ["pickup_datetime", "trip_duration", "trip_distance", "pickup_zone_id", "dropoff_zone_id"]
    table = pd.read_parquet(path, columns=read)
    table = table[table["trip_duration"].between(60, 9000)]
    table = table.assign(
        hour=table["pickup_datetime"].dt.hour,
        weekday=table["pickup_datetime"].dt.weekday,
        long=table["trip_duration"] > 900,
    )
    order = np.random.default_rng(0).permutation(len(table))
    return table.iloc[order[:N]], table.iloc[order[N : N + TEST]]


def _processor_seconds(work: Callable[[], object]) -> float:
    """Return the median of three calls; the peer's fit is counted likewise, whatever else the machine does."""
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return statistics.median(found)


def auc_of(truth: Any, model: Any, train: Any, label: Any, test: Any) -> float:
    """Return the AUC of a model on other rows, after a fit."""
    return float(roc_auc_score(truth, model.fit(train, label).predict_proba(test)[:, 1]))


def _diffprivlib(
    train: Floats, label: Any, test: Floats, truth: Any, low: Floats, high: Floats
) -> dict[str, Any]:
    """Return AUC, seconds and shape of its best forest."""
    arrays = {"X": train, "y": label, "test": test, "low": low, "high": high}
    found: Any = ask_peer(
        "diffprivlib", HERE / "diffprivlib_forest.py", arrays, epsilon=1.0, shapes=[list(s) for s in SHAPES]
    )
    best: dict[str, Any] = max(
        ({**forest, "auc": float(roc_auc_score(truth, forest["chance"]))} for forest in found),
        key=lambda forest: forest["auc"],
    )
    return best
