"""Linear regression from noisy moments."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import AdaSSPRegressor
from ptklib.exceptions import (
    InvalidParameterError,
    PrivacyParameterError,
    SchemaError,
    UnboundedSensitivityError,
)
from ptklib.linear import solve_noisy

NAMES = [f"x{i}" for i in range(20)]


def problem(n: int = 100_000, spectrum: Any = None, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return features and a label of which they explain .887."""
    random = np.random.default_rng(seed)
    spectrum = np.ones(20) if spectrum is None else np.asarray(spectrum) * 20 / np.sum(spectrum)
    turn = np.linalg.qr(random.normal(size=(20, 20)))[0]
    rows = random.normal(size=(n, 20)) * np.sqrt(spectrum) @ turn.T
    signal = rows @ random.normal(size=20)
    noise = random.normal(size=n) * signal.std() * np.sqrt(0.113 / 0.887)
    return rows, (signal + noise) / signal.std()


@pytest.mark.parametrize("spectrum", [np.ones(20), 1 / np.arange(1, 21), 0.7 ** np.arange(20)])
@pytest.mark.parametrize(("epsilon", "goal"), [(0.1, 0.75), (1.0, 0.877)])
def test_it_explains_nearly_what_least_squares_explains(spectrum: Any, epsilon: float, goal: float) -> None:
    rows, label = problem(spectrum=spectrum)
    regressor = AdaSSPRegressor(NAMES, max_norm=6.0, label_bounds=(-4, 4), epsilon=epsilon, delta=1e-6)
    assert regressor.fit(rows, label).score(rows, label) >= goal


def test_coefficients_and_intercept_come_in_the_units_of_the_columns() -> None:
    random = np.random.default_rng(4)
    data = pd.DataFrame({"km": random.uniform(0, 20, 20_000), "hour": random.integers(0, 24, 20_000)})
    data["fare"] = 3.0 + 2.5 * data["km"] - 0.1 * data["hour"] + random.normal(size=len(data))
    regressor = AdaSSPRegressor(
        label="fare",
        bounds={"km": (0, 20), "hour": (0, 24)},
        label_bounds=(-10, 70),
        epsilon=10.0,
        delta=1e-3,
    ).fit(data)
    assert regressor.coef_ == pytest.approx([2.5, -0.1], abs=0.03)
    assert regressor.intercept_ == pytest.approx(3.0, abs=0.3)
    rows = pd.DataFrame({"km": [10.0, 1e9, np.nan], "hour": [12, 12, 12]})
    at_mean = regressor.tables_["coefficients"]["mean"][0].as_py()
    expected = [regressor.intercept_ + regressor.coef_ @ [km, 12.0] for km in (10.0, 20.0, at_mean)]
    assert regressor.predict(rows) == pytest.approx(expected)


def test_the_label_may_come_beside_the_features() -> None:
    rows, label = problem(2000)
    regressor = AdaSSPRegressor(NAMES, max_norm=6.0, label_bounds=(-4, 4), epsilon=1.0, delta=1e-6)
    data = pd.DataFrame(rows, columns=NAMES).assign(fare=label)
    by_name = AdaSSPRegressor(**{**regressor.get_params(), "label": "fare"})
    one, other = regressor.partial_statistics(rows, label).arrays, by_name.partial_statistics(data).arrays
    assert all(np.array_equal(one[name], other[name]) for name in one)
    with pytest.raises(SchemaError, match="label"):
        regressor.fit(rows)


def test_predictions_stay_within_the_bounds_of_the_label() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    regressor = AdaSSPRegressor(["a", "b"], bounds=(-1, 1), label_bounds=(-1, 1), epsilon=10.0, delta=1e-3)
    regressor.fit(rows, 2 * rows.sum(axis=1))
    assert regressor.coef_.sum() > 1.3  # the corners lie beyond
    assert regressor.predict([[1.0, 1.0], [-9.0, -9.0]]).tolist() == [1.0, -1.0]


def test_without_rows_it_predicts_within_the_bounds_of_the_label() -> None:
    regressor = AdaSSPRegressor(NAMES, max_norm=1.0, label_bounds=(2.0, 3.0), epsilon=0.01, delta=1e-9)
    predicted = regressor.finalize([]).predict(np.random.default_rng(0).normal(size=(500, 20)) * 1e6)
    assert np.all((predicted >= 2.0) & (predicted <= 3.0))


def test_rows_without_a_finite_label_are_dropped() -> None:
    rows, label = problem(50)
    regressor = AdaSSPRegressor(NAMES, max_norm=6.0, label_bounds=(-4, 4), epsilon=1.0, delta=1e-6)
    spoilt = np.concatenate([label, [np.nan, np.inf]])
    more = np.concatenate([rows, rows[:2]])
    one, other = regressor.partial_statistics(rows, label), regressor.partial_statistics(more, spoilt)
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)


def test_without_noise_the_solution_is_least_squares() -> None:
    weights, ridge = solve_noisy(np.array([2.0, 0.5, 0.0]), np.array([1.0, 1.0, 1.0]), 0.0, 0.0)
    assert weights.tolist() == [0.5, 2.0, 0.0]
    assert ridge == 0.0


def test_directions_below_the_noise_fade_and_others_stay() -> None:
    weights, ridge = solve_noisy(np.array([1.0, 0.01, -0.01]), np.array([1.0, 0.01, 0.01]), 0.05, 0.01)
    assert weights[0] == pytest.approx(1.0, abs=0.02)
    assert abs(weights[1]) < 0.05
    assert weights[2] == 0.0
    assert 0.01 < ridge < 1.0


def test_a_target_of_nothing_has_no_weights() -> None:
    weights, _ = solve_noisy(np.array([1.0, 0.5]), np.zeros(2), 0.1, 0.1)
    assert weights.tolist() == [0.0, 0.0]


def test_the_error_from_the_true_value_is_the_unexplained_share() -> None:
    rows, label = problem(20_000)
    regressor = AdaSSPRegressor(NAMES, max_norm=12.0, label_bounds=(-9, 9), epsilon=10.0, delta=1e-3)
    regressor.fit(rows, label)
    error = regressor.error_from_true_value(regressor.partial_statistics(rows, label))
    assert error == pytest.approx(1 - regressor.score(rows, label), abs=1e-3)


def test_the_covariance_of_features_and_label_comes_with_it() -> None:
    rows, label = problem(50_000)
    regressor = AdaSSPRegressor(NAMES, max_norm=9.0, label_bounds=(-9, 9), epsilon=10.0, delta=1e-3)
    table = regressor.fit(rows, label).tables_["covariance"]
    true = np.cov(np.column_stack([rows, label]).T, bias=True)[np.triu_indices(21)]
    assert table["covariance"].to_numpy() == pytest.approx(true, abs=0.03)
    assert table["column"][20].as_py() == "y"


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"delta": 0.0}, PrivacyParameterError),
        ({"label_bounds": None}, UnboundedSensitivityError),
        ({"label_bounds": (1, 0)}, InvalidParameterError),
        ({"max_norm": None}, UnboundedSensitivityError),
        ({"features": None}, InvalidParameterError),
        ({"features": ["x", "Y"]}, InvalidParameterError),
        ({"label": "x"}, InvalidParameterError),
    ],
)
def test_unusable_parameters_are_refused_before_data(parameters: Any, error: Any) -> None:
    regressor = AdaSSPRegressor(["x", "z"], max_norm=1.0, label_bounds=(0, 1), epsilon=1.0, delta=1e-6)
    with pytest.raises(error):
        regressor.set_params(**parameters).fit(object())


def test_a_missing_delta_is_named() -> None:
    regressor = AdaSSPRegressor(["x"], max_norm=1.0, label_bounds=(0, 1), epsilon=1.0, delta=0)
    with pytest.raises(
        PrivacyParameterError, match="AdaSSPRegressor adds Gaussian noise and needs delta > 0"
    ):
        regressor.declared_loss()
