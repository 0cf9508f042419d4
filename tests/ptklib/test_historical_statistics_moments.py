"""Historical statistics: variances, standard deviations and the division of the budget."""

import json
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import DPEstimator, HistoricalStatistics, ReleasedState
from ptklib.exceptions import InvalidParameterError
from tests.support.families import rows
from tests.support.hourly import speeds_per_hour, table_of

per_hour = partial(speeds_per_hour, statistics=("count", "mean", "variance", "std"))


@pytest.mark.usefixtures("without_noise")
def test_variances_are_those_of_the_rows_around_the_mean_of_their_group() -> None:
    data = rows(40_000)
    found = table_of(per_hour(epsilon=10).fit(data))
    true = data.groupby("hour")["speed"].agg(lambda v: v.var(ddof=0))
    assert list(found.columns) == [
        "hour",
        "count",
        "speed_sum",
        "speed_mean",
        "speed_squares",
        "speed_variance",
        "speed_std",
    ]
    squares = data.assign(d=(data.speed - 30.0) ** 2).groupby("hour")["d"].sum()
    assert found["speed_squares"].to_numpy() == pytest.approx(squares.to_numpy(), rel=1e-6)
    assert found["speed_variance"].to_numpy() == pytest.approx(true.to_numpy(), abs=0.3)
    assert found["speed_std"].to_numpy() == pytest.approx(np.sqrt(found["speed_variance"]), rel=1e-12)


@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize(
    ("values", "variance"), [([0.0] * 400, 0.0), ([0.0, 60.0] * 200, 900.0), ([-9e9, 9e9] * 200, 900.0)]
)
def test_variances_of_equal_and_of_extreme_values_are_the_ends_of_what_bounds_allow(
    values: list[float], variance: float
) -> None:
    data = pd.DataFrame({"hour": 0, "speed": values})
    found = table_of(per_hour(epsilon=10, domains={"hour": [0]}).fit(data))
    assert found["speed_variance"].tolist() == pytest.approx([variance], abs=1.0)


@pytest.mark.usefixtures("without_noise")
def test_squares_stay_exact_where_bounds_are_far_from_zero() -> None:
    data = pd.DataFrame({"hour": 0, "speed": 1e6 + np.tile([0.25, 0.75], 500)})
    estimator = per_hour(epsilon=10, domains={"hour": [0]}, bounds={"speed": (1e6, 1e6 + 1)})
    found = table_of(estimator.fit(data))
    assert found["speed_squares"].tolist() == pytest.approx([1000 / 16], rel=1e-6)
    assert found["speed_variance"].tolist() == pytest.approx([1 / 16], rel=0.02)


def test_variances_stay_within_what_their_bounds_allow_whatever_the_noise() -> None:
    few = pd.DataFrame({"hour": np.arange(600) % 300, "speed": [0.0, 60.0] * 300})
    many = pd.concat([few] * 200, ignore_index=True)
    for data, epsilon in ((few, 0.05), (few[:0], 0.05), (many, 1.0)):
        found = table_of(per_hour(epsilon=epsilon, domains={"hour": range(300)}).fit(data))
        z = found["speed_mean"] - 30
        assert (found["speed_variance"] >= 0).all()
        assert (found["speed_variance"] <= 900 - z * z + 1e-9).all()


def test_variances_of_sparse_groups_lean_on_those_of_all_groups() -> None:
    random = np.random.default_rng(5)
    hour = np.repeat(np.arange(200), np.r_[np.full(20, 2000), np.full(180, 3)])
    data = pd.DataFrame({"hour": hour, "speed": random.normal(30, 5, len(hour))})
    found = table_of(per_hour(epsilon=2.0, domains={"hour": range(200)}).fit(data))
    assert np.abs(found["speed_std"][20:] - 5).median() < 6.0
    assert found["speed_std"][:20].to_numpy() == pytest.approx(np.full(20, 5.0), abs=2.0)


def test_a_variance_alone_releases_no_mean() -> None:
    names = per_hour(statistics="variance").get_feature_names_out().tolist()
    assert names == ["count", "speed_sum", "speed_squares", "speed_variance"]


def shares(estimator: HistoricalStatistics) -> list[float]:
    events = estimator.declared_loss().event.to_json()["events"]
    return [event["l1_sensitivity"] / event["scale"] for event in events]


@pytest.mark.parametrize(
    ("params", "weights"),
    [
        ({"statistics": ("mean", "variance")}, [1 / 3 + 89 / 45, 1 + 16 / 3, 1]),
        ({"statistics": ("variance", "std")}, [89 / 45, 16 / 3, 1]),
        ({"statistics": "histogram", "bins": 4}, [4 / 16, 4]),
        ({"statistics": "quantiles", "bins": 32}, [4 / 3, 4 * (32**2 - 1) / (6 * 32)]),
        ({"statistics": "quantiles", "bins": 64}, [4 / 3, *[4 * 2 * (8**2 - 1) / (6 * 8) / 2] * 2]),
    ],
    ids=str,
)
def test_epsilon_is_divided_by_cube_roots_of_the_summed_weights(
    params: dict[str, Any], weights: list[float]
) -> None:
    roots = np.cbrt(weights)
    assert shares(per_hour(epsilon=2.0, **params)) == pytest.approx((2.0 * roots / roots.sum()).tolist())


def test_the_weights_make_the_summed_error_of_mean_and_variance_least() -> None:
    """Simulated errors of means and variances, over half of their ranges, at the chosen split and around it."""
    random = np.random.default_rng(2)
    z = random.uniform(-1, 1, 40_000)
    v = random.uniform(0, 1, len(z)) * (1 - z * z)
    noise = random.laplace(size=(3, len(z)))

    def error(split: Any) -> float:
        count, total, squares = noise / (np.asarray(split)[:, None] * [[1.0], [1.0], [2.0]])
        mean = total - z * count
        variance = 2 * (squares - 2 * z * total + (z * z + 0.5 - v) * count)
        return float(np.mean(mean**2) + np.mean(variance**2))

    best = np.asarray(shares(per_hour(statistics=("mean", "variance"))))
    for i, j in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)):
        other = best.copy()
        other[i], other[j] = best[i] + 0.08, best[j] - 0.08
        assert error(best) < error(other)


@pytest.mark.parametrize("bounds", [(-1e150, 1e150), (0.0, 1e-150)])
def test_bounds_whose_squares_leave_float64_are_refused_before_data(bounds: tuple[float, float]) -> None:
    with pytest.raises(InvalidParameterError, match="too wide or too narrow"):
        per_hour(bounds={"speed": bounds}).fit(object())


@pytest.mark.usefixtures("without_noise")
def test_the_error_from_the_true_value_is_the_mean_over_statistics() -> None:
    train = pd.DataFrame({"hour": 0, "speed": [20.0, 40.0] * 5000})
    test = pd.DataFrame({"hour": 0, "speed": [15.0, 45.0] * 500})
    estimator = per_hour(epsilon=10, domains={"hour": [0]}).fit(train)
    error = estimator.error_from_true_value(estimator.partial_statistics(test))
    assert error == pytest.approx(np.mean([0.0, 125 / 900, 5 / 30]), abs=2e-3)


def test_states_from_before_further_statistics_load_and_are_continued() -> None:
    estimator = per_hour(statistics=("count", "sum", "mean")).fit(rows())
    files = estimator.to_state().to_files()
    params = json.loads(files["state.json"])["params"]
    assert not {"bins", "quantiles"} & set(params)
    state = ReleasedState.from_files(files)
    assert DPEstimator.from_state(state).to_state().to_files() == files
    assert estimator.fit(rows(), previous_state=state).n_releases_ == 2


def test_parameters_that_are_read_are_part_of_a_state() -> None:
    asked = per_hour(statistics="quantiles", bins=5, quantiles=[0.25]).to_spec()["params"]
    assert (asked["bins"], asked["quantiles"]) == (5, [0.25])
    histogram = per_hour(statistics="histogram", bins=5).to_spec()["params"]
    assert histogram["bins"] == 5
    assert "quantiles" not in histogram
