"""Scenario 1, retention: count PTKs of a long past let a click model do with few recent rows.

An advertising company keeps raw impressions for a short time only. Before the past is deleted, a
`CountFeaturizer` learns from it how often each value of each category was clicked. The click model then trains
on a share of the recent rows, with or without these counts as features.

Rows in the order of time: the first 60 % train the PTK, the next 20 % are the task's own, the last 20 % test. No
row of the task has been in the PTK, so no label leaks into a feature. `Past kept too` is what the company gives
up: the model without PTK, trained on all rows before the test.

The values of a category are hashed into public buckets. Epsilon is that of all categories together. The
non-private PTK is scikit-learn's `TargetEncoder`, with exact counts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from _common import arguments, clicks, losses, models, runs
from _common.clicks import LABEL, Clicks
from _common.curves import Featurizer, Task
from sklearn.preprocessing import TargetEncoder

from ptklib import CountFeaturizer

DELTA = 1e-6
PAST, OWN = 0.6, 0.2
PATHS = {
    "attribution": "Criteo attribution log (cat1 .. cat9, click)",
    "display": "Criteo Display Advertising Challenge (label, i1 .. i13, c1 .. c26)",
    "avazu": "Avazu click log (click, site_id, ..., c21)",
}
BUCKETS = 512
# Which categories are counted is a public choice: few, as each takes its part of the budget.
COUNTED = {
    "display": ("c2", "c14", "c15", "c17", "c18", "c26"),
    "avazu": ("site_id", "site_domain", "app_id", "c14", "c17", "device_model"),
}


def task_of(log: Clicks, counted: Sequence[str]) -> Task:
    """Split a log by time and count its past."""
    first, last = round(PAST * len(log.rows)), round((PAST + OWN) * len(log.rows))
    past, own, later = log.rows[:first], log.rows[first:last], log.rows[last:]
    return Task(
        name=f"retention: {log.name}",
        loss="log loss",
        ptk=f"CountFeaturizer of {len(counted)} categories, {BUCKETS} buckets each",
        n_ptk_rows=len(past),
        train=own,
        test=later,
        label=LABEL,
        model=lambda names: models.ClickModel(log.categories, log.numbers, names),
        row_loss=losses.log_loss,
        train_ptk=partial(count_ptk, past, tuple(counted)),
        references={"Past kept too": log.rows[:last]},
    )


def count_ptk(past: pd.DataFrame, counted: tuple[str, ...], epsilon: float | None) -> Featurizer:
    """Train the count PTK on the past; features are counts and log odds of a click per category, and a score.

    A count enters as far as it stands out of its noise, whose size the state tells.
    """
    if epsilon is None:
        return _exact(past, counted)
    ptk = CountFeaturizer(
        counted, LABEL, classes=[0, 1], hash_buckets=BUCKETS, epsilon=epsilon, delta=DELTA
    ).fit(past)

    def featurize(rows: pd.DataFrame) -> pd.DataFrame:
        table = pd.DataFrame(ptk.transform(rows), columns=ptk.get_feature_names_out())
        return pd.concat(
            [
                _features(
                    c,
                    table[f"{c}_count_0"] + table[f"{c}_count_1"],
                    float(np.hypot(ptk.noise_std_[c]["count_0"], ptk.noise_std_[c]["count_1"])),
                    table[f"{c}_p_1"],
                )
                for c in counted
            ],
            axis=1,
        ).assign(score=_score)

    return featurize


def _exact(past: pd.DataFrame, counted: tuple[str, ...]) -> Featurizer:
    encoder = TargetEncoder(target_type="binary").fit(past[list(counted)], past[LABEL])
    sizes = {c: past[c].value_counts() for c in counted}

    def featurize(rows: pd.DataFrame) -> pd.DataFrame:
        p = pd.DataFrame(encoder.transform(rows[list(counted)]), columns=list(counted))
        return pd.concat(
            [
                _features(c, rows[c].map(sizes[c]).fillna(0).reset_index(drop=True), 0.0, p[c])
                for c in counted
            ],
            axis=1,
        ).assign(score=_score)

    return featurize


def _features(column: str, count: pd.Series, noise_std: float, probability: pd.Series) -> pd.DataFrame:
    p = np.clip(probability, 1e-3, 1 - 1e-3)
    seen = np.log1p(np.maximum(count - 3 * noise_std, 0.0) / 100)
    return pd.DataFrame({f"{column}_seen": seen, f"{column}_log_odds": np.log(p / (1 - p))})


def _score(features: pd.DataFrame) -> pd.Series:
    """Add the log odds up, as naive Bayes would: one feature that needs hardly any row of its own."""
    return features.filter(like="_log_odds").sum(axis=1)


def main(argv: list[str] | None = None) -> int:
    """Measure each given log; print tables, save a plot and the numbers."""
    asked = arguments.checked(arguments.parser(__doc__, PATHS), argv, PATHS)
    logs = [(n, clicks.load(getattr(asked, n))) for n in PATHS if getattr(asked, n)]
    if asked.generated is not None:
        logs = [("generated", clicks.generate(asked.generated))]
    tasks = (task_of(log, COUNTED.get(name, log.categories)) for name, log in logs)
    return runs.measure("retention", tasks, asked)


if __name__ == "__main__":
    sys.exit(main())
