"""Count featurization: time of fit and transform, and what the noise costs a model that uses the features."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler, TargetEncoder

from benchmarks.measuring import Row, measured, median_seconds, take_turns
from ptklib import CountFeaturizer

ROWS, FEATURES, VALUES, EPSILON = 1_000_000, 8, 1_000, 1.0
FIELDS = [f"f{i}" for i in range(FEATURES)]


def rows() -> list[Row]:
    train, test = clicks(ROWS, 1), clicks(200_000, 2)
    domains = {name: range(VALUES) for name in FIELDS}

    def featurizer(**budget: float) -> CountFeaturizer:
        return CountFeaturizer(label="y", classes=(0, 1), domains=domains, **budget)

    ours, encoder = featurizer(epsilon=EPSILON, delta=1e-6), TargetEncoder(target_type="binary")
    timed = take_turns(lambda: ours.fit(train), lambda: encoder.fit(train[FIELDS], train["y"]), 5)
    private, exact = auc(ours, train, test), auc(without_noise(train), train, test)
    found = [
        measured(
            "counts-fit",
            "count featurization, 8 columns of 1,000 values, 1e6 rows",
            unit="ms",
            ours=timed.ours * 1e3,
            against="sklearn TargetEncoder.fit, times faster",
            theirs=timed.theirs * 1e3,
            judged=1 / timed.ratio,
            goal=10,
            direction=">=",
        ),
        measured(
            "counts-auc",
            "AUC lost by a logistic regression on the features at epsilon 1, 1e6 rows",
            unit="AUC",
            ours=private,
            against="the same without noise",
            theirs=exact,
            judged=exact - private,
            goal=0.01,
            direction="<=",
        ),
    ]
    text = pd.Series([f"value {i}" for i in range(VALUES)], dtype=object)
    for kind, column, values, goal in (
        ("integer", train["f0"], range(VALUES), 5),
        ("string", train["f0"].map(text), text.tolist(), 1),
    ):
        frame = pd.DataFrame({"f0": column, "y": train["y"]})
        one = CountFeaturizer(label="y", classes=(0, 1), domains={"f0": values}, epsilon=EPSILON).fit(frame)
        found.append(
            measured(
                f"counts-transform-{kind}",
                f"transform of one {kind} column into counts",
                unit="million rows/s",
                ours=ROWS / median_seconds(lambda one=one, frame=frame: one.transform(frame), 5) / 1e6,
                goal=goal,
                direction=">=",
            )
        )
    return found


def clicks(n: int, seed: int) -> pd.DataFrame:
    """Return rows of skewed categorical features whose values shift the odds of a click."""
    weights = np.random.default_rng(0).normal(0.0, 0.6, (FEATURES, VALUES))
    random = np.random.default_rng(seed)
    share = 1 / (np.arange(VALUES) + 10.0)
    fields = random.choice(VALUES, (n, FEATURES), p=share / share.sum())
    odds = weights[np.arange(FEATURES), fields].sum(axis=1) - 1.5
    frame = pd.DataFrame({name: np.ascontiguousarray(fields[:, i]) for i, name in enumerate(FIELDS)})
    frame["y"] = (random.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return frame


def without_noise(train: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the exact share of clicks of each value, shrunken by one row of the overall share."""
    overall = train["y"].mean()
    return {
        name: (np.bincount(train[name], weights=train["y"], minlength=VALUES) + overall)
        / (np.bincount(train[name], minlength=VALUES) + 1)
        for name in FIELDS
    }


def auc(source: CountFeaturizer | dict[str, np.ndarray], train: pd.DataFrame, test: pd.DataFrame) -> float:
    """Return the AUC of a logistic regression on the log odds of each feature."""

    def features(frame: pd.DataFrame) -> np.ndarray:
        if isinstance(source, dict):
            share = np.column_stack([source[name][frame[name]] for name in FIELDS])
        else:
            names = list(source.get_feature_names_out())
            share = source.transform(frame)[:, [names.index(f"{name}_p_1") for name in FIELDS]]
        share = np.clip(share, 1e-3, 1 - 1e-3)
        return np.log(share / (1 - share))

    scale = StandardScaler().fit(features(train[:200_000]))
    model = LogisticRegression().fit(scale.transform(features(train[:200_000])), train["y"][:200_000])
    return float(roc_auc_score(test["y"], model.decision_function(scale.transform(features(test)))))
