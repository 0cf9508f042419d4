"""A model of devices that begins with a central one predicts what that does, in its own units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import AdaSSPRegressor, DPSGDClassifier, DrawDiscardModel
from ptklib.draw_discard import start_instances
from ptklib.exceptions import InvalidParameterError
from ptklib.warm_start import check_warm_start, warm_start

ROWS = 4_000
BOUNDS = {"age": (10.0, 90.0), "length": (-3.0, 5.0)}
KINDS = ["mail", "text", "call"]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    age, length = rng.uniform(10, 90, ROWS), rng.uniform(-3, 5, ROWS)
    kind = rng.choice(KINDS, ROWS)
    score = 0.05 * (age - 50) + 0.6 * length + (kind == "mail")
    return pd.DataFrame(
        {
            "age": age,
            "length": length,
            "kind": kind,
            "spent": 200 + 2 * age - 10 * length,
            "spam": score > 0,
            "place": np.where(score > 1, "far", np.where(score < -1, "near", "here")),
        }
    )


def central(**other: Any) -> AdaSSPRegressor:
    fields = {"label": "spent", "bounds": BOUNDS, "label_bounds": (100.0, 500.0), "epsilon": 5, "delta": 1e-6}
    return AdaSSPRegressor(**{**fields, **other})


def classifier(**other: Any) -> DPSGDClassifier:
    fields = {"label": "spam", "classes": [False, True], "bounds": BOUNDS, "domains": {"kind": KINDS}}
    return DPSGDClassifier(**{**fields, "epsilon": 5, "delta": 1e-6, "epochs": 2, **other})


def linear(**other: Any) -> DrawDiscardModel:
    fields = {
        "features": BOUNDS,
        "label": "spent",
        "model": "linear",
        "label_bounds": (100.0, 500.0),
        "epsilon": 3,
    }
    return DrawDiscardModel(**{**fields, **other})


def logistic(**other: Any) -> DrawDiscardModel:
    fields = {"features": {**BOUNDS, "kind": ["text", "call", "mail"]}, "label": "spam", "epsilon": 3}
    return DrawDiscardModel(**{**fields, **other})


def begun(model: DrawDiscardModel, fitted: Any) -> Any:
    """The model as one instance without noise would be."""
    weights = warm_start(model.specification, fitted)
    units = np.rint(weights * 2.0**model.specification.grid_bits).astype(np.int32)
    instances = np.tile(units, (model.specification.k, 1))
    return type(model).from_state(model.average_of(instances))


def test_a_linear_model_predicts_what_the_regression_does(table: pd.DataFrame) -> None:
    fitted = central().fit(table)
    assert begun(linear(), fitted).predict(table) == pytest.approx(fitted.predict(table), abs=0.05)


@pytest.mark.parametrize("given", [None, ["length", "age"]])
def test_columns_are_matched_by_name(table: pd.DataFrame, given: list[str] | None) -> None:
    backwards = dict(reversed(BOUNDS.items()))
    fitted = central(bounds=backwards, features=given).fit(table)
    assert begun(linear(), fitted).predict(table) == pytest.approx(fitted.predict(table), abs=0.05)


def test_a_logistic_model_predicts_what_the_classifier_does(table: pd.DataFrame) -> None:
    fitted = classifier().fit(table)
    assert begun(logistic(), fitted).predict_proba(table) == pytest.approx(
        fitted.predict_proba(table), abs=1e-3
    )


@pytest.mark.parametrize("classes", [["near", "here", "far"], ["near", "far"]])
def test_a_softmax_model_predicts_what_the_classifier_does(table: pd.DataFrame, classes: list[str]) -> None:
    fitted = classifier(label="place", classes=classes).fit(table)
    found = begun(logistic(label="place", classes=classes), fitted)
    assert found.predict_proba(table) == pytest.approx(fitted.predict_proba(table), abs=1e-3)


def test_instances_begin_around_it(table: pd.DataFrame) -> None:
    one, fitted = linear(k=1000, grid_bits=24), central().fit(table)
    start = warm_start(one.specification, fitted)
    units = start_instances(one.specification, start).mean(axis=0) / 2.0**24
    deviation = np.sqrt(one.specification.instance_variance / 1000) / 2.0**24
    assert np.abs(units - start).max() < 7 * deviation


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        (linear(features={"age": (10, 90)}), central(), "has the columns age, length, and this one age"),
        (
            linear(features={**BOUNDS, "age": (0, 90)}),
            central(),
            r"\(0, 90\), and \(10, 90\) in the central model",
        ),
        (linear(), central(bounds=None, features=["age", "length"], max_norm=1.0), "and none in the central"),
        (linear(label_bounds=(0, 500)), central(), r"'spent' has the bounds \(0, 500\), and \(100, 500\)"),
        (linear(label="paid"), central(), "predicts 'spent', and this one 'paid'"),
        (linear(crosses=[["age", "length"]]), central(), "with crosses"),
        (logistic(), central(), "a logistic model cannot begin with AdaSSPRegressor, which is linear here"),
        (linear(), classifier(), "a linear model cannot begin with DPSGDClassifier, which is logistic here"),
        (logistic(), classifier(hidden_units=[4]), "hidden layers"),
        (
            logistic(),
            classifier(classes=[True, False]),
            "other classes in the central model, or in another order",
        ),
        (logistic(), classifier(classes=["no", "yes"]), "other classes"),
        (logistic(classes=[1, 0]), classifier(classes=[True, False]), "other classes"),
        (logistic(), classifier(domains={"kind": ["mail", "text"]}), "column 'kind' has other values"),
        (
            logistic(),
            classifier(bounds=None, domains={**{"kind": KINDS}, "age": [1, 2], "length": [3]}),
            "bounds",
        ),
        (logistic(features={**BOUNDS, "kind": {"hash_buckets": 3}}), classifier(), "other values, or none"),
        (linear(), linear(), "an AdaSSPRegressor or a DPSGDClassifier, and with no DrawDiscardModel"),
    ],
)
def test_another_model_is_refused_with_the_reason(one: DrawDiscardModel, other: Any, reason: str) -> None:
    with pytest.raises(InvalidParameterError, match=reason):
        check_warm_start(one.specification, other)


def test_a_label_of_0_and_1_is_that_of_a_boolean() -> None:
    check_warm_start(logistic().specification, classifier(classes=[0, 1]))


def test_weights_beyond_the_grid_are_refused(table: pd.DataFrame) -> None:
    fitted = classifier(learning_rate=100.0).fit(table)
    wide = logistic(grid_bits=29, learning_rate=0.00001)
    with pytest.raises(InvalidParameterError, match="beyond the grid"):
        warm_start(wide.specification, fitted)
