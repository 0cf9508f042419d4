"""Historical statistics: histograms and quantiles on public bins."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import HistoricalStatistics, ReleasedState
from ptklib.exceptions import InvalidDomainError, InvalidParameterError
from ptklib.privacy import Bounds
from ptklib.statistics.binning import Binning
from tests.support.families import rows
from tests.support.hourly import speeds_per_hour, table_of

EDGES = (0.0, 5.0, 15.0, 60.0)


per_hour = partial(speeds_per_hour, statistics="histogram")


@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize("bins", [3, EDGES, {"speed": np.array(EDGES)}], ids=str)
def test_bins_count_the_rows_between_public_edges(bins: Any) -> None:
    values = [-7.0, 0.0, 4.99, 5.0, 15.0, 19.99, 20.0, 40.0, 60.0, 1e300]
    data = pd.DataFrame({"hour": 2, "speed": values})
    estimator = per_hour(bins=bins, epsilon=10).fit(data)
    found = table_of(estimator).set_index("hour")
    expected = [6, 1, 3] if bins == 3 else [3, 1, 6]
    assert found.loc[2, [f"speed_bin_{i}" for i in range(3)]].tolist() == expected
    assert found["count"].tolist() == [0, 0, 10, 0]
    assert found.loc[0, [f"speed_bin_{i}" for i in range(3)]].tolist() == [0, 0, 0]
    assert "speed_sum" not in found.columns


@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize("n_bins", [2, 7, 32, 60, 64, 100, 1024])
def test_bins_of_equal_width_are_those_of_numpy(n_bins: int) -> None:
    values = np.r_[rows(3000).fare.to_numpy(), np.linspace(-3, 17, n_bins + 1)]
    bounds = (-3.0, 17.0)
    binning = Binning.of(n_bins, Bounds(*bounds), "x")
    found = np.bincount(binning.codes(values), minlength=n_bins)
    true = np.histogram(np.clip(values, *bounds), bins=binning.edges)[0]
    assert np.abs(np.cumsum(found - true)).max() <= 1  # an edge may round to either of its bins
    assert found.sum() == len(values)


@pytest.mark.usefixtures("without_noise")
def test_rows_that_are_dropped_are_in_no_bin() -> None:
    good = rows(50)
    odd = pd.DataFrame({"hour": [7, -1, 0, 1, 2], "speed": [9.0, 9.0, np.nan, np.inf, -np.inf]})
    both = pd.concat([good[["hour", "speed"]], odd], ignore_index=True)
    estimator = per_hour(statistics=("histogram", "quantiles"), bins=100)
    assert table_of(estimator.fit(both)).equals(table_of(estimator.fit(good)))


@pytest.mark.parametrize("n_bins", [5, 100])
def test_shares_are_at_least_zero_and_add_up_to_one(n_bins: int) -> None:
    estimator = per_hour(bins=n_bins, epsilon=0.05, domains={"hour": range(30)})
    for data in (rows(), rows()[:1], rows()[:0]):
        found = table_of(estimator.fit(data))[[f"speed_share_{i}" for i in range(n_bins)]].to_numpy()
        assert (found >= 0).all()
        assert found.sum(axis=1) == pytest.approx(np.ones(30))
        default = [estimator.defaults_["statistics"][f"speed_share_{i}"] for i in range(n_bins)]
        assert sum(default) == pytest.approx(1.0)


@pytest.mark.parametrize("n_bins", [16, 100])
def test_shares_of_large_groups_are_their_own_and_those_of_empty_ones_of_all(n_bins: int) -> None:
    random = np.random.default_rng(4)
    hour = np.repeat([0, 1], 200_000)
    data = pd.DataFrame({"hour": hour, "speed": random.normal(20 + 10 * hour, 4)})
    estimator = per_hour(bins=n_bins, domains={"hour": range(100)}).fit(data)
    found = table_of(estimator)[[f"speed_share_{i}" for i in range(n_bins)]].to_numpy()
    edges = np.linspace(0, 60, n_bins + 1)
    true = [np.histogram(data.speed[data.hour == h], edges)[0] / 200_000 for h in (0, 1)]
    assert np.abs(found[:2] - true).sum(axis=1).max() < 0.03
    empty = np.abs(found[2:] - np.mean(true, axis=0)).sum(axis=1) / 2
    assert np.median(empty) < 0.4


@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize("n_bins", [32, 600])
def test_quantiles_are_those_of_the_rows_but_for_the_width_of_a_bin(n_bins: int) -> None:
    data = rows(8000)
    orders = (0.05, 0.5, 0.9, 0.999)
    estimator = per_hour(statistics="quantiles", bins=n_bins, quantiles=orders, epsilon=10)
    found = table_of(estimator.fit(data))[["speed_p5", "speed_p50", "speed_p90", "speed_p99_9"]]
    true = data.groupby("hour")["speed"].quantile(list(orders)).unstack()
    assert np.abs(found.to_numpy() - true.to_numpy()).max() < 60 / n_bins + 1.0


@pytest.mark.usefixtures("without_noise")
def test_quantiles_are_interpolated_within_their_bin() -> None:
    data = pd.DataFrame({"hour": 0, "speed": [1.0] * 200_000 + [31.0] * 600_000})
    estimator = per_hour(
        statistics="quantiles", bins=2, quantiles=(0.125, 0.25, 0.5), domains={"hour": [0]}, epsilon=10
    )
    found = table_of(estimator.fit(data))[["speed_p12_5", "speed_p25", "speed_p50"]]
    assert found.to_numpy()[0] == pytest.approx([15.0, 30.0, 40.0], abs=0.05)


@pytest.mark.parametrize("n_bins", [3, 32, 200])
def test_quantiles_are_ordered_and_within_the_bounds_whatever_the_noise(n_bins: int) -> None:
    orders = tuple(np.linspace(0.01, 0.99, 15).round(2))
    estimator = per_hour(
        statistics="quantiles", bins=n_bins, quantiles=orders, epsilon=0.05, domains={"hour": range(50)}
    )
    for data in (rows(), rows()[:1], rows()[:0]):
        found = table_of(estimator.fit(data)).filter(like="speed_p").to_numpy()
        assert found.shape == (50, 15)
        assert ((found >= 0) & (found <= 60)).all()
        assert (np.diff(found, axis=1) >= 0).all()


def test_the_quantile_of_an_empty_group_is_about_that_of_all_rows() -> None:
    random = np.random.default_rng(8)
    hour = random.integers(0, 20, 100_000)
    data = pd.DataFrame({"hour": hour, "speed": random.normal(20, 4, len(hour))})
    estimator = per_hour(statistics="quantiles", domains={"hour": range(200)}).fit(data)
    found = table_of(estimator)["speed_p50"]
    assert found[:20].to_numpy() == pytest.approx(np.full(20, 20.0), abs=1.0)
    assert np.abs(found[20:] - 20.0).median() < 3.0
    assert estimator.defaults_["statistics"]["speed_p50"] == pytest.approx(20.0, abs=6.0)


@pytest.mark.parametrize("params", [{}, {"delta": 1e-6}], ids=str)
def test_many_bins_are_released_on_two_levels_and_read_as_one(params: dict[str, Any]) -> None:
    estimator = per_hour(bins=100, **params)
    assert [c.name for c in estimator._components()] == ["count", "speed_nodes", "speed_bins"]
    part = estimator.partial_statistics(rows())
    bins = part.arrays["speed_bins"].reshape(4, 100)
    assert part.arrays["speed_nodes"].reshape(4, 10).tolist() == bins.reshape(4, 10, 10).sum(2).tolist()
    one = estimator.fit(rows())
    again = estimator.fit(rows(), previous_state=ReleasedState.from_files(one.to_state().to_files()))
    assert again.n_releases_ == 2


def test_consistent_bins_have_the_noise_they_declare() -> None:
    """A bin of ten: 10 / 11 of the variance of a node; all bins: of 10 nodes, and of 100 bins, the better."""
    binning = Binning.of(100, Bounds(0, 1), "x")
    noise = np.random.default_rng(1).standard_normal((4000, 110))
    found = binning.consistent([noise[:, :10].reshape(-1), noise[:, 10:].reshape(-1)])
    assert found.var() == pytest.approx(10 / 11, rel=0.02)
    assert binning.bin_variance(1.0).tolist() == pytest.approx([10 / 11] * 100)
    assert found.sum(axis=1).var() == pytest.approx(binning.total_variance(1.0), rel=0.05)
    assert binning.total_variance(1.0) == pytest.approx(1 / (1 / 10 + 1 / 100))


@pytest.mark.parametrize("n_bins", [32, 60, 64, 100, 1024])
def test_levels_are_chosen_by_the_variance_of_sums_from_one_end(n_bins: int) -> None:
    binning = Binning.of(n_bins, Bounds(0, 1), "x")
    assert len(binning.levels) == (1 if n_bins < 64 else 2)
    exact = np.random.default_rng(0).integers(0, 9, 3 * n_bins)
    levels = [level.astype(np.float64) for level in binning.collect(exact)]
    assert [len(level) // 3 for level in levels] == list(binning.levels)
    assert binning.consistent(levels).reshape(-1).tolist() == exact.tolist()


def test_each_value_may_have_bins_of_its_own() -> None:
    estimator = HistoricalStatistics(
        domains={"hour": range(4)},
        bounds={"speed": (0, 60), "fare": (0, 50)},
        statistics=("count", "histogram", "quantiles"),
        bins={"speed": 2, "fare": [0, 10, 20, 50]},
        epsilon=1.0,
    )
    assert estimator.get_feature_names_out().tolist() == [
        "count",
        *["speed_bin_0", "speed_bin_1", "speed_share_0", "speed_share_1", "speed_p50"],
        *["fare_bin_0", "fare_bin_1", "fare_bin_2", "fare_share_0", "fare_share_1", "fare_share_2"],
        "fare_p50",
    ]
    assert estimator.fit(rows()).transform(rows()[:3]).shape == (3, 13)


@pytest.mark.usefixtures("without_noise")
def test_the_error_from_the_true_value_counts_moved_shares_and_moved_quantiles() -> None:
    train = pd.DataFrame({"hour": 0, "speed": [1.0] * 10_000})
    test = pd.DataFrame({"hour": 0, "speed": [1.0] * 75 + [31.0] * 25})
    histogram = per_hour(bins=6, epsilon=10, domains={"hour": [0]}).fit(train)
    assert histogram.error_from_true_value(histogram.partial_statistics(test)) == pytest.approx(
        0.25, abs=0.01
    )
    median = per_hour(statistics="quantiles", bins=6, epsilon=10, domains={"hour": [0]}).fit(train)
    # Half of the first bin of width 10 against two thirds of it.
    expected = (20 / 3 - 5) / 60
    assert median.error_from_true_value(median.partial_statistics(test)) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        *[({"bins": bins}, InvalidParameterError) for bins in (0, 1, 1025, True, "32", None, 2.0, {})],
        *[
            ({"bins": edges}, InvalidParameterError)
            for edges in (
                [0.0, 60.0],
                [0.0, 70.0, 60.0],
                [0.0, 30.0, 30.0, 60.0],
                [1.0, 30.0, 60.0],
                [0.0, 30.0, 61.0],
                [0.0, float("nan"), 60.0],
                [0.0, "30", 60.0],
                {"fare": 3},
            )
        ],
        *[
            ({"statistics": "quantiles", "quantiles": orders}, InvalidParameterError)
            for orders in ((), (0,), (1.0,), (0.5, 0.5), ("0.5",), None, (True,), 2, [float("nan")])
        ],
        ({"domains": {"speed_bin_0": range(3)}}, InvalidParameterError),
        ({"domains": {"hour": range(2**18)}, "bins": 256}, InvalidDomainError),
    ],
    ids=str,
)
def test_unusable_bins_and_quantiles_are_refused_before_data(
    params: dict[str, Any], error: type[Exception]
) -> None:
    estimator = per_hour(**params)
    with pytest.raises(error):
        estimator.declared_loss()
    with pytest.raises(error):
        estimator.fit(object())


def test_names_of_quantiles_are_percents() -> None:
    orders = (0.5, 0.05, 0.999, 0.125, 1e-4)
    names = per_hour(statistics="quantiles", bins=2, quantiles=orders).get_feature_names_out()
    assert names[1:].tolist() == ["speed_p50", "speed_p5", "speed_p99_9", "speed_p12_5", "speed_p0_01"]
    assert all(a != b for a, b in pairwise(names))


def test_bins_of_quantiles_are_features_only_when_they_are_asked_for() -> None:
    data = rows(200)
    asked = {"statistics": "quantiles", "bins": 8, "quantiles": (0.5, 0.9)}
    bins = [f"speed_bin_{i}" for i in range(8)]
    fitted = per_hour(**asked).fit(data)
    assert list(fitted.get_feature_names_out()) == ["count", "speed_p50", "speed_p90"]
    table = table_of(fitted).set_index("hour")
    assert set(bins) <= set(table.columns)  # released, and so in the state
    expected = table.loc[data["hour"], ["count", "speed_p50", "speed_p90"]].to_numpy()
    np.testing.assert_array_equal(fitted.transform(data), expected)
    assert "bin_features" not in fitted.to_spec()["params"]

    with_bins = per_hour(**asked, bin_features=True).fit(data)
    assert list(with_bins.get_feature_names_out()) == ["count", *bins, "speed_p50", "speed_p90"]
    again = HistoricalStatistics.from_state(ReleasedState.from_files(with_bins.to_state().to_files()))
    np.testing.assert_array_equal(again.transform(data), with_bins.transform(data))
    histogram = per_hour(**{**asked, "statistics": ("histogram", "quantiles")})
    assert set(bins) <= set(histogram.get_feature_names_out())
    for wrong in (1, None, "yes"):
        with pytest.raises(InvalidParameterError, match="bin_features must be True or False"):
            per_hour(**asked, bin_features=wrong).declared_loss()


def test_a_state_from_before_bins_could_be_left_out_is_read_and_can_give_them() -> None:
    """Its specification lacks the parameter, as that of every state without bins does."""
    data = rows(200)
    state = per_hour(statistics="quantiles", bins=8).fit(data).to_state()
    assert "bin_features" not in state.meta["params"]
    loaded = HistoricalStatistics.from_state(state)
    assert loaded.transform(data).shape == (200, 2)
    assert loaded.set_params(bin_features=True).transform(data).shape == (200, 10)
    per_hour(statistics="quantiles", bins=8).fit(data, previous_state=state)
