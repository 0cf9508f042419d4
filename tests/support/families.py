"""One worked example per family: every conformance test runs over all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ptklib.clustering import Clustering
from ptklib.counts import CountFeaturizer
from ptklib.covariance import CovarianceMatrix
from ptklib.draw_discard.model import DrawDiscardModel
from ptklib.embeddings import UserEmbeddings
from ptklib.linear import AdaSSPRegressor
from ptklib.sgd import DPSGDClassifier, DPSGDRegressor
from ptklib.statistics import HistoricalStatistics
from ptklib.trees import TreeFeaturizer


@dataclass(frozen=True)
class Example:
    """An unfitted estimator of the columns of `rows`, and parameters that make another configuration of it."""

    name: str
    estimator: Any
    other: Mapping[str, Any]
    label: str | None = None


def rows(n: int = 400, seed: int = 7) -> pd.DataFrame:
    """Return trips: integer hour, string zone, float speed, boolean label."""
    random = np.random.default_rng(seed)
    hour = random.integers(0, 4, n)
    return pd.DataFrame(
        {
            "zone": random.choice(["a", "b", "c"], n),
            "hour": hour,
            "speed": random.normal(20.0, 4.0, n),
            "fare": random.uniform(2.0, 50.0, n),
            "long": random.random(n) < 0.2 + 0.1 * hour,
        }
    )


EXAMPLES = [
    Example(
        "mean-per-hour",
        HistoricalStatistics(domains={"hour": range(4)}, bounds={"speed": (0, 60)}, epsilon=1.0),
        other={"bounds": {"speed": (0, 61)}},
    ),
    Example(
        "composite-keys-two-values-gaussian",
        HistoricalStatistics(
            domains={"zone": ["c", "a"], "hour": (3, 1, 0)},
            values=["speed", "fare"],
            bounds=(0.0, 60.0),
            statistics=["sum", "mean"],
            epsilon=0.5,
            delta=1e-6,
        ),
        other={"bounds": (0.0, 61.0)},
    ),
    Example(
        "counts-only",
        HistoricalStatistics("zone", domains={"zone": ["a", "b"]}, statistics="count", epsilon=0.1),
        other={"domains": {"zone": ["a", "z"]}},
    ),
    Example(
        "boolean-label",
        CountFeaturizer(
            label="long",
            classes=(False, True),
            domains={"zone": ["a", "b", "c"], "hour": range(4)},
            epsilon=1.0,
        ),
        other={"domains": {"zone": ["a", "b"], "hour": range(4)}},
    ),
    Example(
        "label-from-y",
        CountFeaturizer(["hour"], classes=["no", "yes"], domains={"hour": np.arange(4)}, epsilon=2),
        other={"classes": ["yes", "no"]},
        label="long",
    ),
    Example(
        "hashed-buckets-beside-a-domain",
        CountFeaturizer(
            ["hour", "zone"],
            "long",
            classes=(False, True),
            domains={"hour": range(4)},
            hash_buckets=8,
            hash_seed=5,
            epsilon=1.0,
        ),
        other={"hash_seed": 6},
    ),
    Example(
        "selected-values-beside-a-domain",
        CountFeaturizer(
            label="long",
            classes=(False, True),
            domains={"fare": range(4)},
            select={"zone": "string", "hour": "int64"},
            max_values=50,
            epsilon=1.0,
            delta=1e-6,
        ),
        other={"max_values": 40},
    ),
    Example(
        "clusters-on-a-grid",
        Clustering(n_clusters=4, bounds={"speed": (0, 60), "fare": (0.0, 60.0)}, epsilon=1.0, method="grid"),
        other={"n_clusters": 5},
    ),
    Example(
        "clusters-by-zoom",
        Clustering(n_clusters=4, bounds={"speed": (0, 60), "fare": (0.0, 60.0)}, epsilon=1.0),
        other={"method": "grid"},
    ),
    Example(
        "clusters-by-lloyd",
        Clustering(["fare", "speed"], 3, bounds=(0, 60), epsilon=1.0, delta=1e-6, method="lloyd"),
        other={"scale": True},
    ),
    Example(
        "covariance-in-a-box",
        CovarianceMatrix(bounds={"speed": (0, 60), "fare": (0.0, 50.0)}, epsilon=1.0, delta=1e-6),
        other={"max_norm": 1.0},
    ),
    Example(
        "covariance-in-a-ball",
        CovarianceMatrix(["fare", "hour", "speed"], max_norm=60, n_components=2, epsilon=0.5, delta=1e-6),
        other={"n_components": 1},
    ),
    Example(
        "regression-on-a-column",
        AdaSSPRegressor(
            ["fare", "hour"],
            "speed",
            bounds=(0, 50),
            max_norm=1,
            label_bounds=(0, 60),
            epsilon=1.0,
            delta=1e-6,
        ),
        other={"label_bounds": (0, 61)},
    ),
    Example(
        "boosted-trees",
        TreeFeaturizer(
            label="long",
            classes=(False, True),
            bounds={"speed": (0, 60), "fare": (0.0, 50.0)},
            domains={"zone": ["a", "b", "c"]},
            n_estimators=3,
            max_depth=3,
            n_candidates=6,
            method="boosting",
            epsilon=1.0,
        ),
        other={"seed": 1},
    ),
    Example(
        "adaptive-trees",
        TreeFeaturizer(
            label="long",
            classes=(False, True),
            bounds={"speed": (0, 60), "fare": (0.0, 50.0)},
            domains={"zone": ["a", "b", "c"]},
            n_estimators=3,
            max_depth=2,
            method="adaptive",
            n_candidates=3,
            epsilon=1.0,
        ),
        other={"seed": 1},
    ),
    Example(
        "boosted-trees-of-a-number-gaussian",
        TreeFeaturizer(
            ["fare", "hour"],
            "speed",
            label_bounds=(0, 60),
            bounds=(0, 50),
            n_estimators=2,
            max_depth=2,
            n_candidates=5,
            output="leaf",
            epsilon=1.0,
            delta=1e-6,
        ),
        other={"label_bounds": (0, 61)},
    ),
    Example(
        "random-trees",
        TreeFeaturizer(
            classes=["no", "yes"],
            bounds={"speed": (0, 60)},
            thresholds={"speed": [15.0, 20.0, 25.0]},
            domains={"hour": range(4)},
            n_estimators=4,
            max_depth=2,
            method="random",
            output="tree",
            epsilon=1.0,
        ),
        other={"classes": ["yes", "no"]},
        label="long",
    ),
    Example(
        "greedy-trees-of-a-number",
        TreeFeaturizer(
            ["hour", "fare"],
            "speed",
            label_bounds=(0, 60),
            bounds=(0, 50),
            n_estimators=2,
            max_depth=2,
            n_candidates=8,
            method="greedy",
            output="leaf_index",
            epsilon=1.0,
        ),
        other={"max_depth": 3},
    ),
    Example(
        "factors-of-items",
        UserEmbeddings(
            "hour",
            "zone",
            users=range(4),
            items=["a", "b", "c"],
            n_factors=2,
            max_rows_per_user=50,
            rounds=2,
            epsilon=1.0,
            delta=1e-6,
        ),
        other={"max_rows_per_user": 40},
    ),
    Example(
        "vectors-of-users-by-the-row",
        UserEmbeddings(
            "zone",
            "hour",
            "fare",
            users=["c", "a"],
            items=(3, 0, 1, 2),
            n_factors=2,
            max_rows_per_user=100,
            bounds=(0, 50.0),
            guarantee="record",
            rounds=2,
            epsilon=0.5,
            delta=1e-6,
        ),
        other={"bounds": (0, 51.0)},
    ),
    Example(
        "logistic-regression-by-gradient-descent",
        DPSGDClassifier(
            label="long",
            classes=(False, True),
            bounds={"speed": (0, 60), "fare": (0.0, 50.0)},
            domains={"zone": ["a", "b", "c"]},
            batch_rate=0.9,
            epochs=1.8,
            epsilon=1.0,
            delta=1e-6,
        ),
        other={"clip_norm": 0.5},
    ),
    Example(
        "softmax-of-a-network-from-y",
        DPSGDClassifier(
            ["hour", "fare"],
            classes=["no", "yes", "maybe"],
            bounds=(0, 50),
            hidden_units=(4, 3),
            batch_rate=0.9,
            epochs=1.8,
            learning_rate=0.5,
            epsilon=1.0,
            delta=1e-6,
        ),
        other={"hidden_units": (4,)},
        label="long",
    ),
    Example(
        "regression-by-gradient-descent",
        DPSGDRegressor(
            ["fare", "hour"],
            "speed",
            max_norm=50,
            label_bounds=(0, 60),
            hidden_units=[3],
            batch_rate=1.0,
            epochs=3,
            epsilon=1.0,
            delta=1e-6,
        ),
        other={"label_bounds": (0, 61)},
    ),
    Example(
        "every-statistic-of-composite-keys",
        HistoricalStatistics(
            domains={"zone": ["a", "b", "c"], "hour": range(4)},
            bounds={"speed": (0, 60)},
            statistics=("count", "sum", "mean", "variance", "std", "histogram", "quantiles"),
            bins=5,
            quantiles=(0.1, 0.5, 0.9),
            epsilon=1.0,
        ),
        other={"bins": 6},
    ),
    Example(
        "quantiles-on-two-levels-gaussian",
        HistoricalStatistics(
            "hour",
            domains={"hour": range(4)},
            bounds={"speed": (0, 60), "fare": (0, 50)},
            statistics=["quantiles"],
            bins={"speed": 64, "fare": [0, 5, 20, 50]},
            epsilon=1.0,
            delta=1e-6,
        ),
        other={"quantiles": [0.25]},
    ),
]

LOCAL_EXAMPLES = [
    Example(
        "logistic-of-devices",
        DrawDiscardModel(
            {"speed": (0, 60), "zone": ["a", "b", "c"], "hour": {"hash_buckets": 4}},
            "long",
            crosses=[["zone", "hour"]],
            epsilon=2.0,
        ),
        other={"k": 5},
    ),
    Example(
        "softmax-of-devices-from-y",
        DrawDiscardModel(
            {"zone": ["a", "b", "c"], "fare": (0, 50)},
            classes=["no", "yes", "maybe"],
            clip="l2",
            noise="gaussian",
            epsilon=2.0,
            delta=1e-6,
        ),
        other={"classes": ["yes", "no", "maybe"]},
        label="long",
    ),
    Example(
        "linear-of-devices-by-each-weight",
        DrawDiscardModel(
            {"hour": range(4), "fare": [0, 50]},
            "speed",
            model="linear",
            label_bounds=(0, 60),
            clip="coordinate",
            epsilon=1.0,
        ),
        other={"label_bounds": (0, 61)},
    ),
    Example(
        "predictions-of-instances",
        DrawDiscardModel(
            {"hour": range(4), "fare": [0, 50]},
            "long",
            k=3,
            devices="zone",
            average="predictions",
            epsilon=1.0,
        ),
        other={"average": "weights"},
    ),
]
"""Those whose noise devices add: no block pays for them, so tests of central losses leave them out."""


def label_of(example: Example, data: pd.DataFrame) -> Any:
    """Return the `y` of an example, or None."""
    if example.label is None:
        return None
    return np.where(data[example.label], "yes", "no").astype(object)
