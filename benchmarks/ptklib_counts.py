"""Count featurization: time of fit and transform, and what noise, buckets and thresholds cost a model."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler, TargetEncoder

from benchmarks.measuring import Row, measured, median_seconds, take_turns
from ptklib import CountFeaturizer

ROWS, FEATURES, VALUES, EPSILON, DELTA = 1_000_000, 8, 1_000, 1.0, 1e-6
FEW_ROWS, BUCKETS = 100_000, 16_384
FIELDS = [f"f{i}" for i in range(FEATURES)]
DOMAINS = {name: range(VALUES) for name in FIELDS}


def rows() -> list[Row]:
    train, test = clicks(ROWS, 1), clicks(200_000, 2)
    return [
        *speed_and_noise(train, test),
        *transforms(train),
        *buckets(train, test),
        *selection(train),
        *shrinkage(train[:FEW_ROWS], test),
    ]


def featurizer(**params: Any) -> CountFeaturizer:
    return CountFeaturizer(label="y", classes=(0, 1), epsilon=EPSILON, delta=DELTA, **params)


def speed_and_noise(train: pd.DataFrame, test: pd.DataFrame) -> list[Row]:
    ours, encoder = featurizer(domains=DOMAINS), TargetEncoder(target_type="binary")
    timed = take_turns(lambda: ours.fit(train), lambda: encoder.fit(train[FIELDS], train["y"]), 5)
    private, exact = auc(ours, train, test), auc(without_noise(train), train, test)
    return [
        measured(
            "counts-fit",
            "count featurization, 8 columns of 1,000 values, 1e6 rows",
            unit="ms",
            ours=timed.ours * 1e3,
            against="sklearn TargetEncoder.fit; judged: times faster",
            theirs=timed.theirs * 1e3,
            judged=1 / timed.ratio,
            goal=10,
            direction="max",
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
            direction="min",
        ),
    ]


def transforms(train: pd.DataFrame) -> list[Row]:
    found = []
    text = pd.Series([f"value {i}" for i in range(VALUES)], dtype=object)
    for kind, column, values, goal in (
        ("integer", train["f0"], range(VALUES), 5),
        ("string", train["f0"].map(text), text.tolist(), 1),
    ):
        frame = pd.DataFrame({"f0": column, "y": train["y"]})
        type_of = "int64" if kind == "integer" else "string"
        for way, params in (
            ("declared", {"domains": {"f0": values}}),
            ("hashed", {"hash_buckets": {"f0": BUCKETS}}),
            ("selected", {"select": {"f0": type_of}}),
        ):
            one = featurizer(**params).fit(frame)
            found.append(
                measured(
                    f"counts-transform-{kind}" + ("" if way == "declared" else f"-{way}"),
                    f"transform of one {way} {kind} column into counts",
                    unit="million rows/s",
                    ours=ROWS / median_seconds(lambda one=one, frame=frame: one.transform(frame), 5) / 1e6,
                    goal=goal,
                    direction="max",
                )
            )
    return found


def buckets(train: pd.DataFrame, test: pd.DataFrame) -> list[Row]:
    declared = auc(featurizer(domains=DOMAINS).fit(train), train, test)
    hashed = auc(featurizer(hash_buckets=dict.fromkeys(FIELDS, BUCKETS)).fit(train), train, test)
    two = auc(
        [
            CountFeaturizer(
                label="y",
                classes=(0, 1),
                hash_buckets=dict.fromkeys(FIELDS, BUCKETS // 2),
                hash_seed=seed,
                epsilon=EPSILON / 2,
                delta=DELTA / 2,
            ).fit(train)
            for seed in (1, 2)
        ],
        train,
        test,
    )
    return [
        measured(
            "counts-hashed-auc",
            f"AUC lost by {BUCKETS:,} hashed buckets for 1,000 values at epsilon 1, 1e6 rows",
            unit="AUC",
            ours=hashed,
            against="declared values",
            theirs=declared,
            judged=declared - hashed,
            goal=0.01,
            direction="min",
        ),
        measured(
            "counts-one-hash",
            "AUC won by one hash over two of half the buckets that share epsilon",
            unit="AUC",
            ours=hashed,
            against="two hashes, mean log odds",
            theirs=two,
            judged=hashed - two,
            goal=0,
            direction="max",
        ),
    ]


def selection(train: pd.DataFrame) -> list[Row]:
    few, found = train[:FEW_ROWS], []
    for n, part, goal in ((FEW_ROWS, few, 1.2), (ROWS, train, 1.0)):
        ours = featurizer(select=dict.fromkeys(FIELDS, "int64")).fit(part)
        kept = {name: set(ours.tables_[name][name].to_pylist()) for name in FIELDS}
        mine, theirs = share_of_rows(part, kept), share_of_rows(part, selected_by_opendp(part))
        found.append(
            measured(
                f"counts-selected-rows-{n:.0e}".replace("+0", ""),
                f"share of rows whose value is selected, 8 columns, epsilon 1, delta 1e-6, {n:,} rows",
                unit="share",
                ours=mine,
                against="OpenDP's threshold with half of epsilon, times",
                theirs=theirs,
                judged=mine / theirs,
                goal=goal,
                direction="max",
            )
        )
    return found


def shrinkage(train: pd.DataFrame, test: pd.DataFrame) -> list[Row]:
    ours = featurizer(domains=DOMAINS).fit(train)
    shrunken, plain = auc(ours, train, test), auc(clipped(ours), train, test)
    return [
        measured(
            "counts-shrinkage",
            "AUC won by shrinking rare values, epsilon 1, 1e5 rows",
            unit="AUC",
            ours=shrunken,
            against="the same release, clipped counts plus a half",
            theirs=plain,
            judged=shrunken - plain,
            goal=0.04,
            direction="max",
        )
    ]


def share_of_rows(frame: pd.DataFrame, kept: dict[str, set[int]]) -> float:
    """Return the share of cells whose value is kept."""
    return float(np.mean([frame[name].isin(kept[name]).mean() for name in FIELDS]))


def selected_by_opendp(frame: pd.DataFrame) -> dict[str, set[int]]:
    """Choose values by OpenDP's thresholded Laplace counts; the other half of epsilon is for counts per class."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = (
        dp.map_domain(dp.atom_domain(T="i64"), dp.atom_domain(T="i64")),
        dp.l01inf_distance(dp.absolute_distance(T="i64")),
    )
    scale = 2 * FEATURES / EPSILON

    def mechanism(threshold: int) -> Any:
        return dp.m.make_laplace_threshold(*space, scale=scale, threshold=threshold)

    threshold = dp.binary_search(
        lambda t: mechanism(t).map((1, 1, 1))[1] <= DELTA / FEATURES, bounds=(1, 10_000), T=int
    )
    chosen = mechanism(threshold)
    return {name: set(chosen(frame[name].value_counts().to_dict())) for name in FIELDS}


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


def clipped(fitted: CountFeaturizer) -> dict[str, np.ndarray]:
    """Return shares of clicks read from noisy counts as they are: negatives clipped, half a row of each class."""
    shares = {}
    for name in FIELDS:
        no, yes = (
            np.maximum(fitted.tables_[name].column(f"count_{c}").to_numpy(), 0.0) + 0.5 for c in (0, 1)
        )
        shares[name] = yes / (no + yes)
    return shares


def auc(source: Any, train: pd.DataFrame, test: pd.DataFrame) -> float:
    """Return the AUC of a logistic regression on the log odds of each feature.

    Parameters
    ----------
    source : dict, CountFeaturizer or list of CountFeaturizer
        Shares per value, or where they are read from; several are averaged.
    """

    def features(frame: pd.DataFrame) -> np.ndarray:
        if isinstance(source, dict):
            return log_odds(np.column_stack([source[name][frame[name]] for name in FIELDS]))
        several = source if isinstance(source, list) else [source]
        names = list(several[0].get_feature_names_out())
        places = [names.index(f"{name}_p_1") for name in FIELDS]
        return np.mean([log_odds(one.transform(frame)[:, places]) for one in several], axis=0)

    scale = StandardScaler().fit(features(train[:200_000]))
    model = LogisticRegression().fit(scale.transform(features(train[:200_000])), train["y"][:200_000])
    return float(roc_auc_score(test["y"], model.decision_function(scale.transform(features(test)))))


def log_odds(share: np.ndarray) -> np.ndarray:
    share = np.clip(share, 1e-3, 1 - 1e-3)
    return np.log(share / (1 - share))
