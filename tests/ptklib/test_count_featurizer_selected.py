"""Selected features: values nobody declared, released when enough rows have them."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ptklib import CountFeaturizer, DPEstimator, PartialStatistics, ReleasedState
from ptklib.exceptions import (
    CorruptStateError,
    InvalidDomainError,
    InvalidParameterError,
    PrivacyParameterError,
    SchemaError,
    StateMismatchError,
)
from ptklib.mechanisms.partition import PartitionSelection
from tests.support.families import rows

DIFFERENT_WIDTHS = ["int8", "int16", "int32", "int64", "uint8", "uint64", "float64", "object"]


def selected_trips(**params: Any) -> CountFeaturizer:
    given = {
        "label": "long",
        "classes": (False, True),
        "select": {"zone": "string", "hour": "int64"},
        "epsilon": 1.0,
        "delta": 1e-6,
        **params,
    }
    return CountFeaturizer(**given)


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the thresholds."""

    def draw(self: PartitionSelection, known: Any, found: Any) -> Any:
        passed = np.flatnonzero(found.sum(axis=1) > self.threshold)
        return known, found[passed], passed

    monkeypatch.setattr(PartitionSelection, "draw", draw)
    monkeypatch.setattr("ptklib.release.ReleasePlan.draw", lambda self, units: dict(units))


def zones(**counts: int) -> pd.DataFrame:
    """Return so many rows of each zone, every fourth of them long."""
    zone = np.repeat(list(counts), list(counts.values()))
    hour = np.arange(len(zone)) % 2
    return pd.DataFrame({"zone": zone, "hour": hour, "long": np.arange(len(zone)) % 4 == 0})


def pairs(estimator: CountFeaturizer, data: Any, name: str) -> list[tuple[Any, list[int]]]:
    """Return the exact keys and counts of a shard."""
    part = estimator.partial_statistics(data)
    feature = next(f for f in estimator._selected() if f.column == name)
    keys, counts = feature.unpack(part.arrays, 2)
    return list(zip(keys.to_pylist(), counts.tolist(), strict=True))


@pytest.mark.usefixtures("without_noise")
def test_values_above_the_threshold_are_released_in_order_with_their_counts() -> None:
    estimator = selected_trips().fit(zones(often=80, seldom=3, also=40))
    threshold = estimator.declared_loss().event.to_json()["events"][0]["threshold"]
    assert 3 < threshold < 40
    table = estimator.tables_["zone"]
    assert table.column_names == ["zone", "noise_std", "count_false", "count_true", "p_false", "p_true"]
    assert table["zone"].to_pylist() == ["also", "often"]
    assert table["count_false"].to_pylist() == [30.0, 60.0]
    assert table["count_true"].to_pylist() == [10.0, 20.0]
    std = estimator.noise_std_["zone"]["count_false"]
    assert table["noise_std"].to_pylist() == pytest.approx([std, std])
    assert estimator.tables_["hour"]["hour"].to_pylist() == [0, 1]
    assert estimator.released_keys() == ("zone", "hour")


@pytest.mark.usefixtures("without_noise")
def test_three_classes_are_counted_and_the_threshold_is_held_against_their_sum() -> None:
    data = rows(1000)
    data.loc[:20, "hour"] = 77
    estimator = selected_trips(label="zone", classes=["c", "a", "b"], select={"hour": "int64"}).fit(data)
    true = pd.crosstab(data.hour, data.zone)[["c", "a", "b"]]
    threshold = estimator.declared_loss().event.to_json()["threshold"]
    assert true.loc[77].sum() == 21 > threshold > true.loc[77].max()
    table = estimator.tables_["hour"].to_pandas().set_index("hour")
    assert table[["count_c", "count_a", "count_b"]].to_numpy().tolist() == true.to_numpy().tolist()


def test_thresholds_share_delta_and_counts_share_epsilon_with_declared_features() -> None:
    loss = selected_trips(domains={"fare": range(3)}, epsilon=0.9).declared_loss()
    events = loss.event.to_json()["events"]
    assert [e["name"] for e in events] == ["DiscreteLaplace", "ThresholdedLaplace", "ThresholdedLaplace"]
    assert [e["scale"] for e in events] == pytest.approx([3 / 0.9] * 3)
    assert [e["shape"] for e in events] == [[6], [2], [2]]
    assert loss.delta == 1e-6
    assert 0.999e-6 < sum(e["delta"] for e in events[1:]) <= 1e-6


def test_many_features_take_gaussian_noise_and_leave_half_of_delta_for_thresholds() -> None:
    names = [f"f{i}" for i in range(30)]
    loss = selected_trips(select=dict.fromkeys(names, "int64")).declared_loss()
    events = loss.event.to_json()["events"]
    assert {e["name"] for e in events} == {"ThresholdedGaussian"}
    assert (loss.epsilon, loss.delta) == (1.0, 1e-6)
    assert 0.499e-6 < sum(e["delta"] for e in events) <= 0.5e-6
    declared = selected_trips(select=None, domains=dict.fromkeys(names, range(3)), delta=0.5e-6)
    assert events[0]["scale"] == declared.declared_loss().event.to_json()["events"][0]["scale"]


def test_more_rows_per_unit_raise_noise_and_threshold() -> None:
    one, five = (
        selected_trips(max_rows_per_unit=n).declared_loss().event.to_json()["events"][0] for n in (1, 5)
    )
    assert (one["l1_sensitivity"], five["l1_sensitivity"]) == (1, 5)
    assert five["scale"] == pytest.approx(5 * one["scale"])
    assert five["threshold"] > 4 * one["threshold"]


@pytest.mark.usefixtures("without_noise")
def test_a_continued_state_keeps_its_values_and_counts_new_ones_from_then_on() -> None:
    first = selected_trips().fit(zones(b=100, c=2))
    state = ReleasedState.from_files(first.to_state().to_files())
    second = selected_trips().fit(zones(a=100, c=60), previous_state=state)
    table = second.tables_["zone"]
    assert table["zone"].to_pylist() == ["a", "b", "c"]
    assert table["count_false"].to_pylist() == [75.0, 75.0, 45.0]
    std = first.noise_std_["zone"]["count_false"]
    assert table["noise_std"].to_pylist() == pytest.approx([std, std * 2**0.5, std])
    assert second.noise_std_["zone"]["count_false"] == pytest.approx(std * 2**0.5)
    third = selected_trips(epsilon=0.5).fit(
        zones(b=1), previous_state=ReleasedState.from_files(second.to_state().to_files())
    )
    assert third.tables_["zone"]["zone"].to_pylist() == ["a", "b", "c"]
    assert third.tables_["zone"]["count_true"].to_pylist() == [25.0, 26.0, 15.0]
    assert third.n_releases_ == 3


def test_values_known_before_get_noise_whether_rows_have_them_or_not() -> None:
    first = selected_trips().fit(zones(**{f"z{i}": 200 for i in range(40)}))
    empty = selected_trips().finalize([], previous_state=first.to_state())
    before = first.tables_["zone"]["count_false"].to_numpy()
    after = empty.tables_["zone"]["count_false"].to_numpy()
    assert len(before) == 40
    assert np.count_nonzero(after - before) > 10


@pytest.mark.usefixtures("without_noise")
def test_the_largest_values_stay_when_more_pass_than_fit() -> None:
    data = zones(a=50, b=90, c=70, d=60)
    first = selected_trips(max_values=2).fit(data)
    assert first.tables_["zone"]["zone"].to_pylist() == ["b", "c"]
    more = zones(a=500, b=1)
    again = selected_trips(max_values=2).fit(more, previous_state=first.to_state())
    assert again.tables_["zone"]["zone"].to_pylist() == ["b", "c"]


def test_a_rare_value_is_never_released_and_a_frequent_one_always() -> None:
    data = zones(often=400, once=1)
    for _ in range(20):
        assert selected_trips(max_rows_per_unit=1).fit(data).tables_["zone"]["zone"].to_pylist() == ["often"]


@pytest.mark.usefixtures("without_noise")
def test_transform_looks_released_values_up_and_gives_others_the_overall_share() -> None:
    estimator = selected_trips().fit(zones(often=80, seldom=3))
    found = estimator.transform(pd.DataFrame({"zone": ["often", "seldom", None], "hour": [1, 7, 0]}))
    names = estimator.get_feature_names_out().tolist()
    assert names[:4] == ["zone_count_false", "zone_count_true", "zone_p_false", "zone_p_true"]
    row = estimator.tables_["zone"].to_pylist()[0]
    assert found[0, :4].tolist() == [row[n] for n in ("count_false", "count_true", "p_false", "p_true")]
    default = estimator.defaults_["zone"]
    for i in (1, 2):
        assert found[i, :4].tolist() == [
            default[n] for n in ("count_false", "count_true", "p_false", "p_true")
        ]
    assert found[1, 4:6].tolist() == [0.0, 0.0]


def test_without_any_value_all_rows_get_the_overall_share() -> None:
    estimator = selected_trips().finalize([])
    assert [len(t) for t in estimator.tables_.values()] == [0, 0]
    again = DPEstimator.from_state(ReleasedState.from_files(estimator.to_state().to_files()))
    assert again.transform(rows(4))[:, :4].tolist() == [[0.0, 0.0, 0.5, 0.5]] * 4
    assert estimator.error_from_true_value(estimator.partial_statistics(rows())) > 0.1


@pytest.mark.usefixtures("without_noise")
def test_the_error_from_the_true_value_counts_rows_of_values_that_are_not_released() -> None:
    data = zones(often=8000, seldom=3)
    estimator = selected_trips(select={"zone": "string"}).fit(data)
    seldom = zones(seldom=4)
    share = estimator.defaults_["zone"]["p_true"]
    error = estimator.error_from_true_value(estimator.partial_statistics(seldom))
    assert error == pytest.approx(abs(share - 0.25))


@pytest.mark.usefixtures("without_noise")
def test_shards_merge_exactly_whatever_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows(300)
    estimator = selected_trips()
    whole = estimator.partial_statistics(data)
    shards = [
        estimator.partial_statistics(part) for part in (data[:100], data[100:101], data[:0], data[101:])
    ]
    stored = [PartialStatistics.from_table(part.to_table()) for part in shards]
    for parts in ([estimator.merge(stored[:2]), *stored[2:]], stored[::-1]):
        merged = estimator.merge(parts)
        assert merged.arrays.keys() == whole.arrays.keys()
        assert all(np.array_equal(merged.arrays[n], whole.arrays[n]) for n in whole.arrays)
    assert estimator.merge([]).arrays["zone"].tolist() == []
    assert repr(whole) == "PartialStatistics(family='CountFeaturizer')"


def test_noise_is_drawn_once_over_merged_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    draws: list[int] = []
    draw = PartitionSelection.draw

    def counted(self: PartitionSelection, known: Any, found: Any) -> Any:
        draws.append(len(found))
        return draw(self, known, found)

    monkeypatch.setattr(PartitionSelection, "draw", counted)
    estimator = selected_trips()
    parts = [estimator.partial_statistics(rows(100, seed=s)) for s in (1, 2, 3)]
    assert draws == []
    estimator.finalize(parts)
    assert draws == [3, 4]


ODD_STRINGS = ["", "a", "nul\0l", "é", "e\u0301", "\U0001f695" * 9, "x" * 1024, "\ufeff", " a", "12345678"]


def test_strings_of_all_kinds_survive_shards_and_tables() -> None:
    data = pd.DataFrame({"zone": ODD_STRINGS * 2, "hour": 1, "long": [True, False] * len(ODD_STRINGS)})
    estimator = selected_trips()
    part = PartialStatistics.from_table(estimator.partial_statistics(data).to_table())
    feature = estimator._selected()[0]
    keys, counts = feature.unpack(estimator.merge([part, part]).arrays, 2)
    assert keys.to_pylist() == sorted(ODD_STRINGS, key=str.encode)
    assert counts.sum(axis=1).tolist() == [4] * len(ODD_STRINGS)


@pytest.mark.usefixtures("without_noise")
def test_odd_strings_survive_states() -> None:
    data = pd.DataFrame({"zone": ODD_STRINGS * 100, "hour": 1, "long": True})
    estimator = selected_trips().fit(data)
    again = DPEstimator.from_state(ReleasedState.from_files(estimator.to_state().to_files()))
    assert again.tables_["zone"]["zone"].to_pylist() == sorted(ODD_STRINGS, key=str.encode)
    found = again.transform(data[: len(ODD_STRINGS)])[:, 1]
    assert found.tolist() == [100.0] * len(ODD_STRINGS)


def test_entries_that_are_no_keys_are_dropped() -> None:
    zone = ["a", None, float("nan"), b"a", 1, "\ud800", "x" * 1025, True, "b", pd.NA]
    hour = [1, 2.0, 2.5, None, "1", True, 2**63, float("inf"), -(2**63), float("nan")]
    data = pd.DataFrame({"zone": zone, "hour": hour, "long": True}, dtype=object)
    estimator = selected_trips()
    assert pairs(estimator, data, "zone") == [("a", [0, 1]), ("b", [0, 1])]
    assert pairs(estimator, data, "hour") == [(-(2**63), [0, 1]), (1, [0, 1]), (2, [0, 1])]
    unknown = data.assign(long=pd.Series(["?"] * 10, dtype=object))
    assert pairs(estimator, unknown, "zone") == []


@pytest.mark.parametrize("dtype", DIFFERENT_WIDTHS)
def test_integers_of_every_width_are_the_same_keys(dtype: str) -> None:
    hour = np.array([0, 5, 100, 5])
    base = pd.DataFrame({"zone": ["a"] * 4, "hour": hour, "long": True})
    expected = [(0, [0, 1]), (5, [0, 2]), (100, [0, 1])]
    frame = base.assign(hour=hour.astype(dtype))
    assert pairs(selected_trips(), frame, "hour") == expected
    assert pairs(selected_trips(), pa.Table.from_pandas(frame), "hour") == expected


def test_integers_beyond_64_signed_bits_are_dropped() -> None:
    hour = np.array([2**64 - 1, 2**63, 2**63 - 1], dtype=np.uint64)
    data = pd.DataFrame({"zone": "a", "hour": hour, "long": True})
    for table in (data, pa.Table.from_pandas(data), data.astype({"hour": object})):
        assert pairs(selected_trips(), table, "hour") == [(2**63 - 1, [0, 1])]


def test_columns_of_another_type_are_refused() -> None:
    estimator = selected_trips()
    for wrong in (
        {"zone": np.arange(4)},
        {"zone": [True] * 4},
        {"hour": ["a"] * 4},
        {"hour": [True] * 4},
        {"hour": pd.date_range("2020", periods=4)},
    ):
        frame = rows(4).assign(**{n: pd.Series(v) for n, v in wrong.items()})
        for table in (frame, pa.Table.from_pandas(frame)):
            if table is frame and "hour" in wrong and frame["hour"].dtype == object:
                continue  # strings among objects are entries, not a type
            with pytest.raises(SchemaError):
                estimator.partial_statistics(table)


def test_a_column_of_nothing_but_nulls_has_no_key() -> None:
    nulls = pa.nulls(400)
    table = pa.Table.from_pandas(rows()).set_column(0, "zone", nulls).set_column(1, "hour", nulls)
    part = selected_trips().partial_statistics(table)
    assert all(len(array) == 0 for array in part.arrays.values())
    assert len(selected_trips().fit(table).tables_["zone"]) == 0


def test_a_key_in_every_row_is_neither_slow_nor_released() -> None:
    n = 100_000
    data = pd.DataFrame({"zone": [f"id {i}" for i in range(n)], "hour": np.arange(n), "long": True})
    estimator = selected_trips(delta=1e-14).fit(
        data
    )  # each of 2e5 keys passes with probability delta at most
    assert [len(t) for t in estimator.tables_.values()] == [0, 0]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: {**a, "zone": a["zone"][:-1]},
        lambda a: {**a, "zone.text": a["zone.text"][:-1]},
        lambda a: {**a, "zone": np.where(a["zone"] > 0, -a["zone"], a["zone"])},
        lambda a: {**a, "zone": a["zone"] * 2000},
        lambda a: {**a, "zone.text": np.full_like(a["zone.text"], -1)},
    ],
)
def test_malformed_parts_are_refused(change: Any) -> None:
    estimator = selected_trips()
    part = estimator.partial_statistics(rows(20))
    broken = PartialStatistics(part.family, part.fingerprint, change(dict(part.arrays)))
    with pytest.raises(StateMismatchError):
        estimator.finalize([broken])


def test_states_with_other_keys_than_a_release_has_are_refused() -> None:
    state = selected_trips(max_values=3).fit(rows()).to_state()
    table = state.tables["zone"]
    assert len(table) == 3
    negative = pa.array([-1.0] * 3)
    for broken in (
        table.take([1, 0, 2]),
        table.take([0, 0, 1]),
        pa.concat_tables([table, table.set_column(0, table.schema.field(0), pa.array(["x", "y", "z"]))]),
        table.set_column(1, pa.field("noise_std", pa.float64(), nullable=False), negative),
    ):
        forged = ReleasedState({**state.tables, "zone": broken.cast(table.schema)}, state.meta)
        with pytest.raises(CorruptStateError):
            DPEstimator.from_state(forged)
        with pytest.raises(CorruptStateError):
            selected_trips(max_values=3).finalize([], previous_state=forged)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"delta": 0}, PrivacyParameterError),
        ({"delta": 1.0}, PrivacyParameterError),
        ({"select": ("zone",)}, InvalidDomainError),
        ({"select": {"zone": None}}, InvalidDomainError),
        ({"select": {"zone": "bool"}}, InvalidDomainError),
        ({"select": {"zone": ["string"]}}, InvalidDomainError),
        ({"select": {}}, InvalidDomainError),
        ({"select": {"noise_std": "int64"}}, InvalidParameterError),
        ({"select": {"long": "int64"}}, InvalidParameterError),
        ({"features": ["zone"]}, InvalidDomainError),
        ({"domains": {"zone": ["a"]}}, InvalidParameterError),
        ({"features": ["zone", "hour"], "domains": {"zone": ["a"]}}, InvalidParameterError),
        ({"max_values": 0}, InvalidParameterError),
        ({"max_values": 1.5}, InvalidParameterError),
        ({"max_values": True}, InvalidParameterError),
        ({"max_values": 2**24}, InvalidDomainError),
        ({"max_values": 2**25}, InvalidDomainError),
    ],
    ids=str,
)
def test_unusable_parameters_are_refused_before_data(params: dict[str, Any], error: type[Exception]) -> None:
    estimator = selected_trips(**params)
    with pytest.raises(error):
        estimator.declared_loss()
    with pytest.raises(error):
        estimator.fit(object())
