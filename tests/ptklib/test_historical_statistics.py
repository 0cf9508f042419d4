"""Historical statistics: what is counted, added and derived."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ptklib import HistoricalStatistics
from ptklib.exceptions import (
    InvalidDomainError,
    InvalidParameterError,
    SchemaError,
    UnboundedSensitivityError,
)
from tests.support.families import rows
from tests.support.hourly import speeds_per_hour as per_hour
from tests.support.hourly import table_of


@pytest.mark.usefixtures("without_noise")
def test_counts_sums_and_means_are_those_of_the_rows() -> None:
    data = rows(2000)
    found = table_of(per_hour(statistics=("count", "sum", "mean"), epsilon=10).fit(data))
    true = data.groupby("hour")["speed"].agg(["count", "sum", "mean"])
    assert list(found.columns) == ["hour", "count", "speed_sum", "speed_mean"]
    assert found["count"].tolist() == true["count"].tolist()
    assert found["speed_sum"].to_numpy() == pytest.approx(true["sum"].to_numpy(), rel=1e-6)
    assert found["speed_mean"].to_numpy() == pytest.approx(true["mean"].to_numpy(), abs=0.01)


@pytest.mark.usefixtures("without_noise")
def test_composite_keys_are_the_product_of_the_domains() -> None:
    data = rows()
    estimator = per_hour(domains={"zone": ["c", "a"], "hour": [3, 0]}, statistics="count").fit(data)
    found = table_of(estimator)
    assert found[["zone", "hour"]].to_numpy().tolist() == [["c", 3], ["c", 0], ["a", 3], ["a", 0]]
    expected = [((data.zone == z) & (data.hour == h)).sum() for z in "ca" for h in (3, 0)]
    assert found["count"].tolist() == expected


@pytest.mark.usefixtures("without_noise")
def test_values_are_clamped_to_their_bounds() -> None:
    data = pd.DataFrame({"hour": [0, 0, 1], "speed": [-5.0, 1e9, 30.0]})
    found = table_of(per_hour().fit(data))
    assert found["speed_sum"].tolist()[:2] == pytest.approx([60.0, 30.0])


@pytest.mark.usefixtures("without_noise")
def test_rows_with_unknown_keys_or_without_a_number_change_nothing() -> None:
    good = rows(50)
    odd = pd.DataFrame({"hour": [7, -1, 0, 1, 2], "speed": [9.0, 9.0, np.nan, np.inf, -np.inf]})
    both = pd.concat([good[["hour", "speed"]], odd], ignore_index=True)
    assert table_of(per_hour().fit(both)).equals(table_of(per_hour().fit(good)))


@pytest.mark.usefixtures("without_noise")
def test_missing_and_fractional_keys_change_nothing() -> None:
    data = pd.DataFrame({"hour": [0.0, np.nan, 1.5, 1e300, -np.inf, 3.0], "speed": 30.0})
    assert table_of(per_hour().fit(data))["count"].tolist() == [1, 0, 0, 1]


@pytest.mark.usefixtures("without_noise")
def test_missing_entries_of_nullable_columns_are_not_the_key_zero_or_false() -> None:
    data = pd.DataFrame(
        {
            "hour": pd.array([0, None, 3], dtype="Int64"),
            "flag": pd.array([False, None, True], dtype="boolean"),
        }
    )
    for table in (data, pa.Table.from_pandas(data)):
        hours = HistoricalStatistics(domains={"hour": range(4)}, statistics="count", epsilon=1).fit(table)
        assert table_of(hours)["count"].tolist() == [1, 0, 0, 1]
        flags = HistoricalStatistics(domains={"flag": [False, True]}, statistics="count", epsilon=1).fit(
            table
        )
        assert table_of(flags)["count"].tolist() == [1, 1]


@pytest.mark.usefixtures("without_noise")
def test_bytes_and_booleans_among_objects_are_no_strings_or_integers() -> None:
    data = pd.DataFrame({"zone": ["a", b"a", None, 1, "a"], "hour": [1, True, "1", 1.0, 1]}, dtype=object)
    strings = HistoricalStatistics(domains={"zone": ["a", "1"]}, statistics="count", epsilon=1).fit(data)
    assert table_of(strings)["count"].tolist() == [2, 0]
    # Without the integer the column looks like text; the code of a row must not depend on the other rows.
    assert table_of(strings.fit(data[:3]))["count"].tolist() == [1, 0]
    integers = HistoricalStatistics(domains={"hour": [1]}, statistics="count", epsilon=1).fit(data)
    assert table_of(integers)["count"].tolist() == [3]


@pytest.mark.usefixtures("without_noise")
def test_sparse_integer_domains_and_unsigned_columns_are_found() -> None:
    data = pd.DataFrame({"C14": np.array([2**64 - 1, 10, 99, 5], dtype=np.uint64)})
    estimator = HistoricalStatistics(domains={"C14": [99, -1, 5, 1000]}, statistics="count", epsilon=1)
    assert table_of(estimator.fit(data))["count"].tolist() == [1, 0, 1, 0]


def test_integer_and_string_keys_keep_their_type() -> None:
    for values, kind in (([1, 2], "int64"), (["1", "2"], "string"), ([True, False], "bool")):
        estimator = HistoricalStatistics(domains={"k": values}, statistics="count", epsilon=1)
        assert str(estimator.table_schemas()["statistics"].schema.field("k").type) == kind
        assert estimator.to_spec()["params"]["domains"]["k"] == values


def test_arrays_are_read_by_position() -> None:
    data = np.column_stack([np.array([0, 1, 1]), np.array([5.0, 6.0, 7.0])])
    named = per_hour(epsilon=10).partial_statistics(data)
    numbered = HistoricalStatistics(
        "x0", "x1", domains={"x0": range(4)}, bounds=(0, 60), epsilon=10
    ).partial_statistics(np.column_stack([data, data]))
    assert named.arrays["count"].tolist() == numbered.arrays["count"].tolist() == [1, 2, 0, 0]
    with pytest.raises(SchemaError):
        per_hour().partial_statistics(data[:, :1])
    with pytest.raises(SchemaError):
        per_hour().partial_statistics(data[:, 0])


def test_transform_gives_released_features_and_defaults_for_unknown_keys() -> None:
    estimator = per_hour().fit(rows())
    found = estimator.transform(pd.DataFrame({"hour": [2, 99]}))
    assert found[0].tolist() == table_of(estimator).loc[2, ["count", "speed_sum", "speed_mean"]].tolist()
    defaults = estimator.defaults_["statistics"]
    assert found[1].tolist() == [0.0, 0.0, defaults["speed_mean"]]


def test_means_stay_within_bounds_and_empty_groups_lean_on_all_groups() -> None:
    hour = np.arange(50_000) % 10
    data = pd.DataFrame({"hour": hour, "speed": 40.0 + 4 * (hour % 2)})
    estimator = per_hour(epsilon=0.5, domains={"hour": range(40)}).fit(data)
    found = table_of(estimator)["speed_mean"]
    assert found.between(0, 60).all()
    assert found[:10].tolist() == pytest.approx([40.0, 44.0] * 5, abs=0.7)
    assert found[10:].median() == pytest.approx(42.0, abs=6.0)


def test_means_at_the_edge_of_the_bounds_stay_within_them() -> None:
    data = pd.DataFrame({"hour": np.arange(8000) % 2000, "speed": [0.0, 60.0] * 4000})
    found = table_of(per_hour(domains={"hour": range(2000)}, epsilon=2.0).fit(data))
    assert found["speed_mean"].between(0, 60).all()
    assert found["speed_mean"].isin([0.0, 60.0]).any()


def test_shrunken_means_beat_plain_ratios_where_noise_prevails() -> None:
    random = np.random.default_rng(3)
    hour = random.integers(0, 500, 4000)
    data = pd.DataFrame({"hour": hour, "speed": random.normal(20, 5, 4000) + (hour % 2)})
    estimator = per_hour(domains={"hour": range(500)}, epsilon=0.5).fit(data)
    found, true = table_of(estimator), 20 + np.arange(500) % 2
    plain = np.clip(found["speed_sum"] / np.maximum(found["count"], 1), 0, 60)
    assert np.abs(found["speed_mean"] - true).mean() < 0.6 * np.abs(plain - true).mean()


def test_epsilon_is_divided_by_cube_roots_of_the_weights() -> None:
    events = per_hour().declared_loss().event.to_json()["events"]
    count = events[0]["l1_sensitivity"] / events[0]["scale"]
    total = events[1]["l1_sensitivity"] / events[1]["scale"]
    assert count + total == pytest.approx(1.0)
    assert count / total == pytest.approx((1 / 3) ** (1 / 3))
    only = per_hour(statistics="count", bounds=None).declared_loss().event.to_json()
    assert only == {"name": "DiscreteLaplace", "scale": 1.0, "l1_sensitivity": 1, "shape": [4]}


def test_gaussian_noise_is_used_only_where_it_is_smaller() -> None:
    few = per_hour(delta=1e-6).declared_loss()
    assert (few.delta, few.event.to_json()["events"][0]["name"]) == (0.0, "DiscreteLaplace")
    many = per_hour(bounds=(0, 60), values=[f"v{i}" for i in range(30)], delta=1e-6).declared_loss()
    assert (many.delta, many.event.to_json()["events"][0]["name"]) == (1e-6, "DiscreteGaussian")


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"domains": None}, InvalidDomainError),
        ({"domains": {}}, InvalidDomainError),
        ({"domains": {"hour": []}}, InvalidDomainError),
        ({"domains": {"hour": "abc"}}, InvalidDomainError),
        ({"domains": {"hour": [1, "1"]}}, InvalidDomainError),
        ({"domains": {"hour": [1, True]}}, InvalidDomainError),
        ({"domains": {"hour": [1, 1]}}, InvalidDomainError),
        ({"domains": {"hour": [1.5]}}, InvalidDomainError),
        ({"domains": {"hour": [None]}}, InvalidDomainError),
        ({"domains": {"hour": [2**63]}}, InvalidDomainError),
        ({"domains": {"hour": ["\ud800"]}}, InvalidDomainError),
        ({"domains": {"hour": range(2**13), "zone": range(2**13)}}, InvalidDomainError),
        ({"keys": ["zone"]}, InvalidDomainError),
        ({"keys": []}, InvalidDomainError),
        ({"keys": 3}, InvalidParameterError),
        ({"bounds": None}, UnboundedSensitivityError),
        ({"bounds": (0, 60)}, UnboundedSensitivityError),
        ({"bounds": {"speed": None}}, UnboundedSensitivityError),
        ({"values": ["fare"]}, UnboundedSensitivityError),
        ({"bounds": {}}, InvalidParameterError),
        ({"bounds": {"hour": (0, 1)}}, InvalidParameterError),
        ({"bounds": {"speed": (3, 3)}}, InvalidParameterError),
        ({"statistics": ()}, InvalidParameterError),
        ({"statistics": None}, InvalidParameterError),
        ({"statistics": ("median",)}, InvalidParameterError),
        ({"statistics": ("count", "count")}, InvalidParameterError),
        ({"domains": {"count": range(3)}}, InvalidParameterError),
        ({"domains": {"a b": range(3)}}, InvalidParameterError),
        ({"domains": {3: range(3)}}, InvalidParameterError),
    ],
    ids=str,
)
def test_unusable_parameters_are_refused_before_data(params: dict[str, Any], error: type[Exception]) -> None:
    estimator = per_hour(**params)
    with pytest.raises(error):
        estimator.declared_loss()
    with pytest.raises(error):
        estimator.fit(object())


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"hour": pd.to_datetime(["2024-01-01"]), "speed": [1.0]}),
        pd.DataFrame({"hour": pd.Series(["7f3c"], dtype="string"), "speed": [1.0]}),
        pd.DataFrame({"hour": [1], "speed": pd.Series(["7f3c"], dtype="string")}),
        pd.DataFrame({"hour": [True], "speed": [1.0]}),
        pd.DataFrame([[1, 2, 3.0]], columns=["hour", "hour", "speed"]),
    ],
)
def test_columns_of_the_wrong_type_are_named_without_their_values(data: pd.DataFrame) -> None:
    with pytest.raises(SchemaError, match=r"'(hour|speed)'") as caught:
        per_hour().fit(data)
    assert "7f3c" not in str(caught.value)
    assert "2024" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.usefixtures("without_noise")
def test_text_among_objects_is_a_missing_number_not_an_error() -> None:
    data = pd.DataFrame({"hour": [0, 0, 0], "speed": ["fast", 10**400, 7]}, dtype=object)
    assert table_of(per_hour().fit(data))["count"].tolist() == [1, 0, 0, 0]


@pytest.mark.usefixtures("without_noise")
def test_the_error_from_the_true_value_is_the_mean_miss_in_widths() -> None:
    train = pd.DataFrame({"hour": [0] * 10_000, "speed": [30.0] * 10_000})
    test = pd.DataFrame({"hour": [0] * 9 + [1], "speed": [36.0] * 10})
    estimator = per_hour(epsilon=10).fit(train)
    error = estimator.error_from_true_value(estimator.partial_statistics(test))
    assert error == pytest.approx(6 / 60, abs=1e-3)
    counts = per_hour(statistics="count").fit(train)
    assert counts.error_from_true_value(counts.partial_statistics(test)) == pytest.approx(0.1)
