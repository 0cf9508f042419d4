"""Covariance matrix and principal components."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import CovarianceMatrix, DPEstimator, moments
from ptklib.accounting import joint_multiplier, profile_epsilon, renyi_curve
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError, UnboundedSensitivityError
from ptklib.moments import Moments, settled_mean, settled_spectrum


def correlated(n: int, spectrum: Any, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    size = len(spectrum)
    turn = np.linalg.qr(random.normal(size=(size, size)))[0]
    return np.asarray(random.normal(size=(n, size)) * np.sqrt(spectrum) @ turn.T)


def named(rows: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[f"x{i}" for i in range(rows.shape[1])])


def wigner(size: int, noise: float, seed: int = 0) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).normal(size=(size, size)) * noise, 1)
    diagonal = np.random.default_rng(seed + 1).normal(size=size) * noise * 2**0.5
    return np.asarray(upper + upper.T + np.diag(diagonal))


@pytest.mark.parametrize(
    "clipping", [{"max_norm": 30.0}, {"bounds": (-9.0, 11.0)}, {"bounds": (-9.0, 11.0), "max_norm": 1.5}]
)
def test_with_little_noise_it_is_the_covariance(clipping: dict[str, Any]) -> None:
    data = named(correlated(50_000, [4.0, 1.0, 0.25]) + np.array([1.0, 2.0, 0.0]))
    estimator = CovarianceMatrix(list(data), **clipping, epsilon=10.0, delta=1e-3).fit(data)
    true = np.cov(data.T, bias=True)
    assert estimator.covariance_ == pytest.approx(true, abs=0.05)
    assert estimator.mean_ == pytest.approx(data.mean().to_numpy(), abs=0.02)
    assert estimator.explained_variance_ == pytest.approx(np.linalg.eigvalsh(true)[::-1], abs=0.05)
    assert estimator.explained_variance_ratio_.sum() == pytest.approx(1.0)
    assert estimator.components_ @ estimator.components_.T == pytest.approx(np.eye(3), abs=1e-9)


@pytest.mark.long
def test_two_thousand_columns_are_fitted_and_no_more_are_taken() -> None:
    """The first direction has a sum of squares of about 3,000, and noise alone up to 59."""
    random, size, n = np.random.default_rng(5), 2000, 4000
    direction = np.full(size, size**-0.5)
    rows = random.normal(size=(n, 1)) * direction + random.normal(size=(n, size)) * 0.2 * size**-0.5
    names = [f"x{i}" for i in range(size)]
    few: dict[str, Any] = {"max_norm": 1.5, "n_components": 2, "epsilon": 10.0, "delta": 1e-3}
    fitted = CovarianceMatrix(names, **few).fit(rows)
    assert fitted.covariance_.shape == (size, size)
    assert fitted.components_.shape == (2, size)
    assert abs(float(fitted.components_[0] @ direction)) > 0.99
    assert fitted.transform(rows[:3]).shape == (3, 2)
    with pytest.raises(InvalidParameterError, match="2000"):
        CovarianceMatrix([*names, "more"], **few).declared_loss()


def test_columns_of_different_width_come_back_in_their_units() -> None:
    rows = correlated(50_000, [1.0, 0.5]) * [100.0, 0.1] + [1000.0, 5.0]
    bounds = {"x0": (500.0, 1500.0), "x1": (4.5, 5.5)}
    estimator = CovarianceMatrix(bounds=bounds, epsilon=10.0, delta=1e-3).fit(named(rows))
    true = np.cov(rows.T, bias=True)
    assert np.sqrt(np.diagonal(estimator.covariance_) / np.diagonal(true)) == pytest.approx([1, 1], rel=0.02)
    assert estimator.covariance_[0, 1] == pytest.approx(true[0, 1], abs=0.1)
    assert estimator.mean_ == pytest.approx([1000.0, 5.0], rel=1e-3)
    assert np.abs(estimator.components_[0]) == pytest.approx([1.0, 0.0], abs=0.01)


def test_a_tenth_of_epsilon_finds_the_principal_components() -> None:
    data = named(correlated(100_000, 1 / np.arange(1, 21)))
    estimator = CovarianceMatrix(list(data), max_norm=2.5, n_components=5, epsilon=0.1, delta=1e-6).fit(data)
    true = np.cov(data.T)
    captured = np.trace(estimator.components_ @ true @ estimator.components_.T)
    assert captured / np.linalg.eigvalsh(true)[-5:].sum() > 0.99


@pytest.mark.parametrize("size", [1, 2, 30])
def test_without_rows_the_release_stays_within_its_bounds(size: int) -> None:
    names = [f"x{i}" for i in range(size)]
    estimator = CovarianceMatrix(names, max_norm=2.0, epsilon=0.01, delta=1e-9).finalize([])
    spectrum = np.linalg.eigvalsh(estimator.covariance_)
    assert spectrum.min() >= -1e-9
    assert spectrum.max() <= 4.0 + 1e-9
    assert np.linalg.norm(estimator.mean_) <= 2.0 + 1e-9
    assert np.all(estimator.explained_variance_ >= 0)
    ratio = estimator.explained_variance_ratio_
    assert np.all((ratio >= 0) & (ratio <= 1))


def test_equal_columns_and_single_rows_release_finite_tables() -> None:
    for rows in (np.full((100, 3), 7.0), np.ones((1, 3)), np.full((5, 3), np.nan)):
        estimator = CovarianceMatrix(["x0", "x1", "x2"], max_norm=1.0, epsilon=1.0, delta=1e-6).fit(rows)
        assert np.isfinite(estimator.covariance_).all()


def test_transform_projects_centred_rows_and_clamps_them_to_public_bounds() -> None:
    data = named(correlated(5000, [4.0, 1.0]))
    estimator = CovarianceMatrix(
        ["x0", "x1"], bounds=(-8.0, 8.0), n_components=1, epsilon=10.0, delta=1e-3
    ).fit(data)
    rows = np.array([[1.0, 2.0], [100.0, -np.inf], [np.nan, 2.0]])
    mean, weights = estimator.mean_, estimator.components_[0]
    expected = [([1.0, 2.0] - mean) @ weights, (8.0 - mean[0]) * weights[0], (2.0 - mean[1]) * weights[1]]
    assert estimator.transform(rows)[:, 0] == pytest.approx(expected)
    assert list(estimator.get_feature_names_out()) == ["component_0"]


def test_pairs_stand_once_in_the_order_of_the_columns() -> None:
    estimator = CovarianceMatrix(["b", "a"], max_norm=1.0, epsilon=1.0, delta=1e-6).finalize([])
    table = estimator.tables_["covariance"]
    pairs = zip(table["row"].to_pylist(), table["column"].to_pylist(), strict=True)
    assert list(pairs) == [("b", "b"), ("b", "a"), ("a", "a")]
    assert estimator.tables_["components"]["column"].to_pylist() == ["b", "a"]
    again = DPEstimator.from_state(estimator.to_state())
    assert np.array_equal(again.covariance_, estimator.covariance_)


def test_the_declared_event_costs_what_is_promised_and_no_less_than_nearly_that() -> None:
    for epsilon, delta, size in ((0.1, 1e-6, 20), (1.0, 1e-9, 1), (3.0, 1e-5, 200)):
        names = [f"x{i}" for i in range(size)]
        loss = CovarianceMatrix(names, max_norm=1.0, epsilon=epsilon, delta=delta).declared_loss()
        multiplier = joint_multiplier([loss.event])
        assert multiplier is not None
        assert profile_epsilon(multiplier, delta) == pytest.approx(epsilon, rel=1e-7)
        assert profile_epsilon(multiplier * (1 - 1e-6), delta) > epsilon
        rho = float(renyi_curve(loss.event, [2.0])[0]) / 2
        assert (2 * rho) ** -0.5 == pytest.approx(multiplier, rel=0.03)
        assert (loss.epsilon, loss.delta) == (epsilon, delta)


def test_noise_beside_the_diagonal_is_smaller_by_the_root_of_two() -> None:
    plan = CovarianceMatrix(["a", "b"], max_norm=1.0, epsilon=1.0, delta=1e-6)._plan()
    assert plan.scales["products_0"] / plan.scales["products_0_pairs"] == pytest.approx(2**0.5, rel=1e-9)
    assert plan.scales["products_0"] <= 2**0.5 * plan.scales["products_0_pairs"]


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"delta": 0}, PrivacyParameterError),
        ({"max_norm": None}, UnboundedSensitivityError),
        ({"columns": None}, InvalidParameterError),
        ({"columns": ["x", "X"]}, InvalidParameterError),
        ({"columns": []}, InvalidParameterError),
        ({"bounds": {"x": (0, 1)}}, UnboundedSensitivityError),
        ({"n_components": 0}, InvalidParameterError),
        ({"n_components": 3}, InvalidParameterError),
        ({"n_components": True}, InvalidParameterError),
        ({"n_components": 1.0}, InvalidParameterError),
    ],
)
def test_unusable_parameters_are_refused_before_data(parameters: Any, error: Any) -> None:
    estimator = CovarianceMatrix(["x", "y"], max_norm=1.0, epsilon=1.0, delta=1e-6).set_params(**parameters)
    with pytest.raises(error):
        estimator.fit(object())


def test_the_error_from_the_true_value_is_relative() -> None:
    data = named(correlated(20_000, [4.0, 1.0, 0.25]))
    estimator = CovarianceMatrix(list(data), max_norm=9.0, epsilon=10.0, delta=1e-3).fit(data)
    assert estimator.error_from_true_value(estimator.partial_statistics(data)) < 0.01
    other = named(np.random.default_rng(1).normal(size=(1000, 3)) * 0.01)
    assert estimator.error_from_true_value(estimator.partial_statistics(other)) == 1.0


def test_a_spectrum_without_noise_is_not_touched() -> None:
    spectrum = np.array([0.0, 0.2, 1.0, 5.0])
    assert settled_spectrum(spectrum, 0.0, 10.0) == pytest.approx(spectrum)


def test_the_spectrum_of_noise_alone_becomes_nearly_flat() -> None:
    noisy = np.linalg.eigvalsh(3 * np.eye(400) + wigner(400, 0.05))
    settled = settled_spectrum(noisy, 0.05, 10_000.0)
    assert np.std(noisy) == pytest.approx(1.0, rel=0.02)
    assert np.std(settled) < 0.1


def test_a_component_is_credited_with_the_variance_it_really_explains() -> None:
    true = np.diag([6.0] + [1.0] * 299)
    values, vectors = np.linalg.eigh(true + wigner(300, 0.1))
    explained = float(vectors[:, -1] @ true @ vectors[:, -1])
    assert settled_spectrum(values, 0.1, 1000.0)[-1] == pytest.approx(explained, rel=0.02)
    assert values[-1] > 1.1 * explained


def test_a_mean_under_noise_is_drawn_to_the_centre_and_a_clear_one_is_not() -> None:
    noisy = Moments(100.0, np.array([30.0]), np.zeros((1, 1)), {"count": 1.0, "sums_0": 2500.0})
    clear = Moments(100.0, np.array([30.0]), np.zeros((1, 1)), {"count": 1.0, "sums_0": 1e-6})
    assert settled_mean(noisy, 0, noisy.sums, 1.0) == pytest.approx([0.15])
    assert settled_mean(clear, 0, clear.sums, 1.0) == pytest.approx([0.3])


@pytest.mark.parametrize(
    ("noisy", "possible"),
    [
        ([1.0, 2.0], [1.0, 2.0]),
        ([3.0, 3.0], [1.5, 1.5]),
        ([5.0, 1.0], [3.0, 0.0]),
        ([4.0, 3.5, -9.0], [1.75, 1.25, 0.0]),
    ],
)
def test_a_spectrum_adds_up_to_no_more_than_rows_are_long(noisy: list[float], possible: list[float]) -> None:
    assert np.allclose(moments._possible(np.array(noisy), 3.0), possible)


def test_far_below_its_noise_a_covariance_is_no_larger_than_one_can_be() -> None:
    rows = np.random.default_rng(3).normal(size=(600, 20)) * 0.05
    model = CovarianceMatrix(
        bounds={f"c{i}": (-1.0, 1.0) for i in range(20)}, max_norm=1.0, epsilon=0.01, delta=1e-6
    )
    for _ in range(5):
        assert np.trace(model.fit(rows).covariance_) <= 1.0 + 1e-9
