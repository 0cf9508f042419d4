"""Where released counts show no row of a column, `fit` warns: alike for every family and table, of releases alone."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from ptklib import CountFeaturizer, HistoricalStatistics, TreeFeaturizer, UserEmbeddings
from ptklib.exceptions import UnmatchedWarning
from tests.support.families import EXAMPLES, rows
from tests.support.plugins.repeatable import replayed_noise
from tests.support.tables import NAMED

MANY = 20_000


def warned(estimator: Any, X: Any, y: Any = None) -> list[str]:
    """Fit, and return what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y)
    return [str(w.message) for w in caught if issubclass(w.category, UnmatchedWarning)]


def label_of(example: Any, data: pd.DataFrame) -> Any:
    return None if example.label is None else np.where(data[example.label], "yes", "no")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_every_family_warns_of_all_its_columns_when_there_is_no_row(example: Any) -> None:
    estimator, data = clone(example.estimator), rows(0)
    (told,) = warned(estimator, data, label_of(example, data))
    assert all(repr(name) in told for name in estimator.required_columns())


FULL = [e for e in EXAMPLES if not isinstance(e.estimator, UserEmbeddings)]  # four users are never seen


@pytest.mark.parametrize("example", FULL, ids=lambda e: e.name)
def test_no_family_warns_of_a_column_whose_rows_stand_out(example: Any) -> None:
    data = rows(MANY).assign(fare=lambda d: d["fare"].round())  # whole, as the values of a domain are
    assert warned(clone(example.estimator), data, label_of(example, data)) == []


def test_embeddings_of_many_users_do_not_warn() -> None:
    data = pd.DataFrame({"user": np.arange(MANY) % 5_000, "item": np.arange(MANY) % 7})
    model = UserEmbeddings(
        users=range(5_000),
        items=range(7),
        n_factors=2,
        max_rows_per_user=4,
        rounds=2,
        epsilon=1.0,
        delta=1e-6,
    )
    assert warned(clone(model), data) == []
    (told,) = warned(clone(model), data.assign(item=data["item"] + 100))
    assert "'user', 'item'" in told


@pytest.mark.parametrize("kind", NAMED)
def test_every_kind_of_table_gets_the_same_warning(kind: str) -> None:
    data = rows(MANY // 4)[["zone", "hour", "long"]]
    estimator = CountFeaturizer(
        label="long", classes=(False, True), domains={"zone": ["x", "y"], "hour": range(4)}, epsilon=1.0
    )
    told = []
    for table in (data, NAMED[kind](data)):
        with replayed_noise("the same"):
            told.append(warned(clone(estimator), table))
    assert told[0] == told[1]
    assert len(told[0]) == 1
    assert "'zone': they" in told[0][0]


@pytest.mark.parametrize("dtype", ["object", "category", "string"])
@pytest.mark.parametrize("method", ["adaptive", "boosting", "random", "greedy"])
def test_trees_tell_a_feature_and_a_label_that_match_nothing(dtype: str, method: str) -> None:
    data = rows(MANY).assign(
        zone=lambda d: d["zone"].astype(dtype), answer=lambda d: np.where(d["long"], "y", "n")
    )

    def trees(**given: Any) -> Any:
        parameters = {"classes": ["n", "y"], "domains": {"zone": ["a", "b", "c"]}, **given}
        return TreeFeaturizer(
            label="answer", **parameters, n_estimators=4, max_depth=2, method=method, epsilon=4.0
        )

    assert warned(trees(), data) == []
    (told,) = warned(trees(domains={"zone": ["x", "y", "z"]}), data)
    assert "'zone': they" in told
    (told,) = warned(trees(classes=["no", "yes"]), data)
    assert "'zone', 'answer': they" in told


def clean(n_rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(n_rows)
    data = pd.DataFrame({"region": rng.choice(list("abcd"), n_rows), "plan": rng.choice(list("fbp"), n_rows)})
    data["age"], data["spend"] = rng.integers(18, 80, n_rows), rng.gamma(2, 30, n_rows)
    return data.assign(left=np.where(rng.random(n_rows) < data["spend"] / 200, "yes", "no"))


def churn(epsilon: float, **given: Any) -> TreeFeaturizer:
    parameters = {"label": "left", "classes": ["no", "yes"], "bounds": {"age": (18, 80), "spend": (0, 300)}}
    domains = {"region": list("abcd"), "plan": list("fbp")}
    return TreeFeaturizer(**{**parameters, "domains": domains, **given}, epsilon=epsilon)


def test_trees_do_not_warn_of_a_feature_where_rows_are_too_few_to_tell() -> None:
    told = [message for _ in range(4) for message in warned(churn(0.5), clean(5_000))]
    assert told == []


def test_trees_still_warn_of_a_feature_where_rows_are_enough_to_tell() -> None:
    (told,) = warned(churn(2.0, domains={"region": list("ABCD"), "plan": list("fbp")}), clean(MANY))
    assert told.startswith("there are too few rows for this epsilon, or values match nothing")
    assert "'region': they" in told


@pytest.mark.parametrize("named", [True, False], ids=["column", "y"])
@pytest.mark.parametrize("family", ["trees", "counts"])
def test_classes_that_match_nothing_are_named_before_the_features(family: str, named: bool) -> None:
    data = clean(5_000)
    features = {"domains": {"region": list("abcd"), "plan": list("fbp")}, "label": "left" if named else None}
    wrong = ["No", "Yes"]
    estimator = (
        churn(2.0, **features, classes=wrong)
        if family == "trees"
        else CountFeaturizer(**features, classes=wrong, epsilon=2.0)
    )
    (told,) = warned(estimator, data if named else data.drop(columns="left"), None if named else data["left"])
    assert f"check the classes or bounds of {'left' if named else 'y'!r} first" in told


def test_text_under_a_domain_of_integers_is_told_as_missing_groups_are() -> None:
    hours = np.arange(MANY) % 3
    data = pd.DataFrame({"hour": pd.Series(hours.astype(str), dtype=object), "speed": 30.0})
    model = HistoricalStatistics(domains={"hour": range(3)}, bounds={"speed": (0, 60)}, epsilon=1.0)
    (text,) = warned(clone(model), data)
    (other,) = warned(clone(model), data.assign(hour=hours + 100))
    assert text == other
    assert warned(clone(model), data.assign(hour=pd.Series(hours, dtype=object))) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_what_is_warned_of_follows_from_the_state_alone(example: Any) -> None:
    data = rows()
    estimator = clone(example.estimator)
    told = warned(estimator, data, label_of(example, data))
    again = type(estimator).from_state(estimator.to_state())
    assert bool(again._unseen()) == bool(told)
    assert all(repr(name) in told[0] for name in again._unseen())


def test_services_that_train_on_parts_are_not_warned() -> None:
    estimator = clone(EXAMPLES[0].estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.finalize([estimator.partial_statistics(rows(0))])


def test_whoever_calls_fit_is_named_as_the_place() -> None:
    with pytest.warns(UnmatchedWarning) as caught:
        clone(EXAMPLES[0].estimator).fit(rows(0))
    assert [w.filename for w in caught] == [__file__]
