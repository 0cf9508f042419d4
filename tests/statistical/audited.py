"""Small estimators for audits: each way to draw noise in a family has one, and a training takes milliseconds."""

from dataclasses import dataclass
from typing import Any

from ptklib import (
    AdaSSPRegressor,
    Clustering,
    CountFeaturizer,
    CovarianceMatrix,
    DPSGDClassifier,
    DPSGDRegressor,
    HistoricalStatistics,
    TreeFeaturizer,
    UserEmbeddings,
)

MANY = list("uvwx")
DELTA = 5e-3


@dataclass(frozen=True)
class Audited:
    """An estimator at a budget where half its noise is found.

    Parameters
    ----------
    name : str
    estimator : DPEstimator
    runs : int
        Trainings behind one bound: so many that a twin is missed less than once in a million times, by the binomial
        law of its right guesses.
    divisor : float
        What the noise of the twin is divided by.
    """

    name: str
    estimator: Any
    runs: int
    divisor: float = 2.0


def statistics(**parameters: Any) -> HistoricalStatistics:
    """Return statistics of two groups."""
    return HistoricalStatistics(domains={"k": [0, 1]}, **{"epsilon": 2.0, **parameters})


def trees(method: str, **parameters: Any) -> TreeFeaturizer:
    """Return trees of one split."""
    label = {} if "label_bounds" in parameters else {"classes": (0, 1)}
    defaults = {"bounds": {"a": (0, 1)}, "n_estimators": 1, "max_depth": 1, "n_candidates": 2, "epsilon": 2.0}
    return TreeFeaturizer(label="y", method=method, **{**defaults, **label, **parameters})


def factors(**parameters: Any) -> UserEmbeddings:
    """Return one factor of two items."""
    defaults = {"max_rows_per_user": 1, "rounds": 1, "epsilon": 3.0, "delta": DELTA}
    return UserEmbeddings(
        "user", "item", users=range(3), items=range(2), n_factors=1, **{**defaults, **parameters}
    )


def descent(**parameters: Any) -> DPSGDClassifier:
    """Return logistic regression on one column.

    Nine of ten units are in a sample: where most are not, half the noise shows in events too rare for an audit.
    """
    defaults = {"batch_rate": 0.9, "epochs": 0.9, "epsilon": 3.0, "delta": DELTA}
    return DPSGDClassifier(["a"], "y", classes=(0, 1), bounds=(0, 1), **{**defaults, **parameters})


QUICK = [
    Audited(
        "counts-of-selected-keys",
        CountFeaturizer(
            label="y", classes=(0, 1), select={"k": "int64"}, max_values=4, epsilon=2.0, delta=DELTA
        ),
        1_100,
    ),
    Audited("a-random-tree", trees("random"), 1_100),
    Audited("covariance", CovarianceMatrix(["a"], max_norm=1, epsilon=3.0, delta=DELTA), 1_200),
]
"""For `make test`."""

LONG = [
    Audited(
        "statistics-of-units", statistics(bounds={"v": (0, 1)}, unit="rider", max_rows_per_unit=3), 1_500
    ),
    Audited(
        "statistics-gaussian",
        statistics(
            values=MANY,
            bounds=dict.fromkeys(MANY, (0, 1)),
            statistics=["count", "mean", "variance"],
            epsilon=3.0,
            delta=DELTA,
        ),
        1_200,
    ),
    Audited(
        "counts-gaussian",
        CountFeaturizer(
            label="y",
            classes=(0, 1),
            domains={name: range(2) for name in MANY},
            epsilon=2.5,
            delta=DELTA,
        ),
        1_300,
    ),
    Audited(
        "counts-of-selected-keys-gaussian",
        CountFeaturizer(
            label="y",
            classes=(0, 1),
            select={f"k{i}": "int64" for i in range(8)},
            max_values=4,
            epsilon=3.0,
            delta=DELTA,
        ),
        1_800,
    ),
    Audited("clusters-on-a-line-zoom", Clustering(["a"], 2, bounds=(0, 1), epsilon=2.0), 1_500),
    Audited(
        "clusters-on-a-line-grid", Clustering(["a"], 2, bounds=(0, 1), epsilon=2.0, method="grid"), 1_500
    ),
    Audited(
        "clusters-by-lloyd-laplace", Clustering(["a"], 2, bounds=(0, 1), epsilon=4.0, method="lloyd"), 1_700
    ),
    Audited(
        "clusters-by-lloyd-gaussian",
        Clustering(["a"], 2, bounds=(0, 1), epsilon=3.0, delta=DELTA, method="lloyd"),
        1_000,
    ),
    Audited(
        "regression",
        AdaSSPRegressor(["a"], "y", bounds=(0, 1), max_norm=1, label_bounds=(0, 1), epsilon=3.0, delta=DELTA),
        1_000,
    ),
    Audited("descent-on-samples", descent(), 2_000),
    Audited("descent-on-samples-of-units", descent(unit="rider", max_rows_per_unit=3), 2_000),
    Audited("descent-on-all-rows", descent(batch_rate=1.0, epochs=3), 1_500),
    Audited(
        "a-network-of-a-number",
        DPSGDRegressor(
            ["a"],
            "y",
            label_bounds=(0, 1),
            bounds=(0, 1),
            hidden_units=(2,),
            batch_rate=1.0,
            epochs=2,
            epsilon=3.0,
            delta=DELTA,
        ),
        1_500,
    ),
    Audited("an-adaptive-tree", trees("adaptive"), 1_500),
    Audited("adaptive-trees-gaussian", trees("adaptive", epsilon=3.0, delta=DELTA), 2_000),
    Audited("random-trees-gaussian", trees("random", n_estimators=8, epsilon=2.5, delta=DELTA), 1_400),
    Audited("random-trees-of-a-number", trees("random", label_bounds=(0, 1)), 1_300),
    Audited(
        "greedy-trees-gaussian",
        trees("greedy", label_bounds=(0, 1), n_estimators=4, epsilon=3.0, delta=DELTA),
        2_000,
    ),
    Audited("factors-of-all-users", factors(batch_rate=1.0), 1_400),
    Audited("factors-of-sampled-users", factors(), 1_400),
    Audited(
        "factors-of-records",
        factors(guarantee="record", rating="rating", bounds=(0, 1), max_rows_per_user=2),
        4_500,
    ),
]
"""For `make soak`."""
