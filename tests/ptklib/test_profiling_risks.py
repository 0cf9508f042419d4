"""Losses of single rows, and the least sum of them over a class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ptklib import (
    AdaSSPRegressor,
    Clustering,
    CountFeaturizer,
    CovarianceMatrix,
    DPSGDClassifier,
    DPSGDRegressor,
    DrawDiscardModel,
    HistoricalStatistics,
    TreeFeaturizer,
)
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.risks import ExactRisk, WrongAnswers, risk_of
from ptklib.profiling.risks.linear import LeastSquaresRisk
from tests.support.families import rows

BOX = {"speed": (0, 60), "fare": (0, 50)}
MEANS = HistoricalStatistics(domains={"hour": range(4)}, bounds=BOX, epsilon=8.0)
COUNTS = HistoricalStatistics(domains={"hour": range(4)}, statistics="count", epsilon=8.0)
CLASSES = CountFeaturizer(
    label="long",
    classes=(False, True),
    domains={"hour": range(4)},
    hash_buckets={"zone": 2},
    epsilon=8.0,
)
LINE = AdaSSPRegressor(
    ["fare", "hour"], "speed", bounds=(0, 50), label_bounds=(0, 60), epsilon=8.0, delta=1e-6
)
CLUSTERS = Clustering(n_clusters=3, bounds=BOX, scale=True, epsilon=8.0)
TREES = TreeFeaturizer(
    label="long", classes=(False, True), bounds=BOX, n_estimators=2, max_depth=2, epsilon=8.0
)
TREES_OF_A_NUMBER = TreeFeaturizer(
    ["fare", "hour"], "speed", label_bounds=(0, 60), bounds=(0, 50), n_estimators=2, max_depth=2, epsilon=8.0
)
NETWORK = DPSGDClassifier(
    ["fare", "speed", "zone"],
    "long",
    classes=(False, True),
    bounds=(0, 60),
    domains={"zone": ["a", "b"]},
    hidden_units=(5,),
    batch_rate=0.5,
    epochs=2,
    epsilon=8.0,
    delta=1e-6,
)
DESCENT = DPSGDRegressor(
    ["fare", "hour"],
    "speed",
    bounds=(0, 50),
    label_bounds=(0, 60),
    batch_rate=0.5,
    epochs=2,
    epsilon=8.0,
    delta=1e-6,
)
DEVICES = DrawDiscardModel(
    {"speed": (0, 60), "zone": ["a", "b"]}, "long", crosses=[("speed", "zone")], epsilon=8.0
)
DEVICES_OF_CLASSES = DrawDiscardModel({"speed": (0, 60)}, "zone", classes=("a", "b", "c"), epsilon=8.0)
DEVICES_OF_A_NUMBER = DrawDiscardModel(
    {"fare": (0, 50)}, "speed", model="linear", label_bounds=(0, 60), epsilon=8.0
)
EXACT = {"means": MEANS, "counts": COUNTS, "classes": CLASSES, "line": LINE}
ALL = EXACT | {
    "clusters": CLUSTERS,
    "trees": TREES,
    "trees of a number": TREES_OF_A_NUMBER,
    "network": NETWORK,
    "descent": DESCENT,
    "devices": DEVICES,
    "devices of classes": DEVICES_OF_CLASSES,
    "devices of a number": DEVICES_OF_A_NUMBER,
}
HEURISTIC = [name for name in ALL if name not in EXACT]


def odd(n: int = 60) -> pd.DataFrame:
    """Return rows of which some are missing, infinite, outside of domains or of bounds."""
    frame = rows(n)
    frame["hour"] = frame["hour"].astype(object)
    frame["long"] = frame["long"].astype(object)
    frame.loc[0, "speed"] = np.nan
    frame.loc[1, "speed"] = np.inf
    frame.loc[2, "fare"] = 1e300
    frame.loc[3, "hour"] = 99
    frame.loc[4, "hour"] = None
    frame.loc[5, "long"] = None
    frame.loc[6, "speed"] = -1e9
    frame.loc[7, "fare"] = np.nan
    return frame


@pytest.mark.parametrize("name", ALL)
def test_losses_lie_in_their_range_and_depend_on_their_own_row(name: str) -> None:
    risk, frame = risk_of(ALL[name]), odd()
    state = ALL[name].fit(rows()).to_state()
    kept, losses = risk.examples(frame), risk.losses(state, frame)
    assert kept.shape == losses.shape == (60,)
    assert kept.any()
    assert ((losses[kept] >= 0) & (losses[kept] <= 1)).all()
    for place in np.flatnonzero(kept)[:20]:
        one = frame.iloc[[place]]
        assert risk.examples(one)[0]
        assert risk.losses(state, one)[0] == losses[place]  # to the last bit
    assert risk.losses(state, frame[:0]).shape == (0,)


@pytest.mark.parametrize("name", EXACT)
def test_no_state_has_a_lower_sum_than_the_least_one(name: str) -> None:
    risk, frame = risk_of(EXACT[name]), rows()
    assert isinstance(risk, ExactRisk)
    weights = np.random.default_rng(1).uniform(0.2, 1.0, len(frame)) * risk.examples(frame)
    least = risk.least_total(frame, weights)
    state = EXACT[name].fit(frame).to_state()
    sum_of_losses = float(risk.losses(state, frame) @ weights)
    assert least <= sum_of_losses + 1e-9
    assert least >= 0.9 * sum_of_losses  # epsilon 8: hardly any noise, so the minimum is nearly met
    assert risk.least_total(frame[:0], weights[:0]) == 0.0


@pytest.mark.parametrize("name", HEURISTIC)
def test_heuristics_have_no_least_sum(name: str) -> None:
    assert not isinstance(risk_of(ALL[name]), ExactRisk)


def test_the_least_sum_of_means_is_that_of_the_mean_of_each_group() -> None:
    frame = pd.DataFrame({"hour": [0, 0, 1, 2], "speed": [0.0, 60.0, 30.0, 90.0], "fare": [0.0, 50, 25, 25]})
    # Speeds of hour 0 are half a width from their mean, and fares too: 2 rows of 1/4 for each value.
    assert risk_of(MEANS).least_total(frame, np.ones(4)) == pytest.approx(0.5)  # type: ignore[attr-defined]
    assert risk_of(COUNTS).least_total(frame, np.ones(4)) == pytest.approx((4 - (4 + 1 + 1) / 4) / 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize("weight_max", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_least_sum_of_squares_is_that_of_a_general_solver(weight_max: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.uniform(-1, 1, (40, 4)), columns=["a", "b", "c", "y"])
    frame["c"] = frame["a"] - frame["b"] * (seed == 2)  # singular in one case
    frame["y"] = np.clip(0.7 * frame["a"] - 0.4 * frame["b"] + 0.2 * frame["y"] + 0.3, -1, 1)
    estimator = AdaSSPRegressor(
        ["a", "b", "c"], "y", bounds=(-2, 2), label_bounds=(-1, 1), epsilon=1.0, delta=1e-6
    )
    weights = random.uniform(0.5, 1, 40)
    risk = LeastSquaresRisk(estimator, weight_max)
    z, y = frame[["a", "b", "c"]].to_numpy() / 2, frame["y"].to_numpy()

    def total(p: Any) -> float:
        return float(weights @ ((y - p[0] - z @ p[1:]) ** 2)) / 4

    inside = {"type": "ineq", "fun": lambda p: weight_max**2 - p[1:] @ p[1:]}
    found = minimize(total, np.zeros(4), constraints=[inside], method="SLSQP", options={"maxiter": 500})
    assert risk.least_total(frame, weights) == pytest.approx(found.fun, abs=1e-5)


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), extreme=st.booleans(), size=st.integers(1, 3))
def test_one_privacy_unit_moves_the_least_sum_by_one_loss_at_most(
    name: str, seed: int, n: int, extreme: bool, size: int
) -> None:
    risk, random = risk_of(EXACT[name]), np.random.default_rng(seed)
    assert isinstance(risk, ExactRisk)
    frame = rows(n + size, seed)
    if extreme:
        for column in ("speed", "fare"):
            frame[column] = random.choice([-1e9, 0.0, 1e9], n + size)
    one = np.ones(n)
    before = risk.least_total(frame[:n], one)
    after = risk.least_total(frame, np.append(one, np.full(size, 1 / size)))
    assert -1e-6 <= after - before <= risk.loss_max + 1e-6


def test_one_row_adds_nearly_the_largest_loss_of_an_unclipped_line_and_no_more() -> None:
    line = AdaSSPRegressor(["x"], "y", bounds=(-1, 1), label_bounds=(-1, 1), epsilon=1.0, delta=1e-6)
    risk = LeastSquaresRisk(line)
    frame = pd.DataFrame({"x": [0.9, 1.0] * 10_000 + [-1.0], "y": [-1.0, -0.9] * 10_000 + [1.0]})
    added = risk.least_total(frame, np.ones(20_001)) - risk.least_total(frame[:-1], np.ones(20_000))
    assert risk.loss_max == 4.0
    assert 3.0 < added <= risk.loss_max


def test_values_outside_of_a_domain_are_a_value_of_their_own() -> None:
    estimator = CountFeaturizer(label="long", classes=(0, 1), domains={"hour": range(4)}, epsilon=1.0)
    frame = pd.DataFrame({"hour": [0, 0, 99, 98], "long": [0, 0, 1, 1]})
    assert risk_of(estimator).least_total(frame, np.ones(4)) == 0.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "estimator",
    [
        CovarianceMatrix(bounds=BOX, epsilon=1.0, delta=1e-6),
        HistoricalStatistics(domains={"hour": range(4)}, bounds=BOX, statistics="sum", epsilon=1.0),
        CountFeaturizer(["hour"], classes=[0, 1], domains={"hour": range(4)}, epsilon=1),
        CountFeaturizer(label="long", classes=[0, 1], select={"hour": "int64"}, epsilon=1, delta=1e-6),
        AdaSSPRegressor(bounds=BOX, label_bounds=(0, 1), epsilon=1.0, delta=1e-6),
        DPSGDRegressor(bounds=BOX, label_bounds=(0, 1), epsilon=1.0, delta=1e-6),
        TreeFeaturizer(classes=[0, 1], bounds=BOX, n_estimators=2, max_depth=2, epsilon=1.0),
    ],
)
def test_what_has_no_loss_of_rows_says_so(estimator: Any) -> None:
    with pytest.raises(InvalidParameterError, match="row"):
        risk_of(estimator)


@pytest.mark.parametrize("weight_max", [0, -1, float("nan")])
def test_weights_need_a_positive_bound(weight_max: float) -> None:
    with pytest.raises(InvalidParameterError):
        LeastSquaresRisk(LINE, weight_max)


PREDICTING = ("classes", "trees", "network", "devices", "devices of classes")


@pytest.mark.parametrize("name", PREDICTING)
def test_wrong_answers_are_those_of_the_likeliest_class_of_a_row_alone(name: str) -> None:
    frame, fitted = odd(), ALL[name].fit(rows())
    state = fitted.to_state()
    risk = WrongAnswers(risk_of(ALL[name]))
    kept, wrong = risk.examples(frame), risk.losses(state, frame)
    assert set(np.unique(wrong[kept])) <= {0.0, 0.5, 1.0}
    assert 0 < wrong[kept].mean() < 1
    for place in np.flatnonzero(kept)[:20]:
        assert risk.losses(state, frame.iloc[[place]])[0] == wrong[place]
    if name != "classes":  # whose features answer one by one
        answers = fitted.predict(frame)
        assert list(wrong[kept]) == [
            float(a != b) for a, b in zip(answers[kept], frame[ALL[name].label][kept], strict=True)
        ]


@pytest.mark.parametrize("name", sorted(set(ALL) - set(PREDICTING)))
def test_what_predicts_no_class_has_no_wrong_answers(name: str) -> None:
    with pytest.raises(InvalidParameterError, match="predict the class"):
        WrongAnswers(risk_of(ALL[name]))
