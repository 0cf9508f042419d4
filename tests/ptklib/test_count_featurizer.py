"""Count featurization: contingency tables and what is read from them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import CountFeaturizer, DPEstimator, ReleasedState
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, SchemaError
from tests.support.families import rows


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptklib.release.ReleasePlan.draw", lambda self, units: dict(units))


def long_trips(**params: Any) -> CountFeaturizer:
    given = {
        "label": "long",
        "classes": (False, True),
        "domains": {"zone": ["a", "b", "c"], "hour": range(4)},
        "epsilon": 1.0,
        **params,
    }
    return CountFeaturizer(**given)


@pytest.mark.usefixtures("without_noise")
def test_each_feature_has_a_table_of_counts_per_class() -> None:
    data = rows(3000)
    estimator = long_trips().fit(data)
    assert list(estimator.tables_) == ["zone", "hour"]
    found = estimator.tables_["hour"].to_pandas()
    assert list(found.columns) == ["hour", "count_false", "count_true", "p_false", "p_true"]
    true = pd.crosstab(data.hour, data.long)
    assert found[["count_false", "count_true"]].to_numpy().tolist() == true.to_numpy().tolist()
    share = true[True] / true.sum(axis=1)
    assert found["p_true"].to_numpy() == pytest.approx(share.to_numpy(), abs=0.02)


def test_probabilities_are_probabilities_even_when_noise_prevails() -> None:
    estimator = long_trips(epsilon=1e-6).fit(rows(20))
    for name, table in estimator.tables_.items():
        p = np.column_stack([table["p_false"].to_numpy(), table["p_true"].to_numpy()])
        assert np.all(p >= 0)
        assert p.sum(axis=1) == pytest.approx(np.ones(len(p)))
        defaults = estimator.defaults_[name]
        assert defaults["p_false"] + defaults["p_true"] == pytest.approx(1.0)


def test_probabilities_at_the_edge_stay_within_it() -> None:
    data = pd.DataFrame({"hour": np.arange(20_000) % 1000, "long": np.arange(20_000) % 1000 < 500})
    table = long_trips(domains={"hour": range(1000)}).fit(data).tables_["hour"]
    p = table["p_true"].to_numpy()
    assert p.min() == 0.0
    assert p.max() == 1.0


def test_rare_values_lean_on_the_overall_share() -> None:
    zones = pd.DataFrame({"zone": ["a"] * 20_000 + ["b"] * 20_000, "long": [True] * 40_000})
    zones.loc[::4, "long"] = False
    estimator = long_trips(domains={"zone": ["a", "b", "never"]}, epsilon=0.5).fit(zones)
    assert estimator.tables_["zone"]["p_true"].to_pylist()[2] == pytest.approx(0.75, abs=0.1)
    assert estimator.defaults_["zone"]["p_true"] == pytest.approx(0.75, abs=0.01)


def test_shrunken_probabilities_beat_ratios_of_clipped_counts() -> None:
    random = np.random.default_rng(5)
    hour = random.integers(0, 400, 8000)
    true = 0.3 + 0.1 * (np.arange(400) % 2)
    data = pd.DataFrame({"hour": hour, "long": random.random(8000) < true[hour]})
    estimator = long_trips(domains={"hour": range(400)}, epsilon=0.3).fit(data)
    table = estimator.tables_["hour"].to_pandas()
    clipped = table[["count_false", "count_true"]].clip(lower=0)
    plain = (clipped["count_true"] + 1) / (clipped.sum(axis=1) + 2)
    assert np.abs(table["p_true"] - true).mean() < 0.5 * np.abs(plain - true).mean()


def test_the_loss_is_joint_over_all_tables() -> None:
    events = long_trips(epsilon=0.5).declared_loss().event.to_json()["events"]
    assert [e["scale"] for e in events] == [4.0, 4.0]
    assert [e["l1_sensitivity"] for e in events] == [1, 1]
    assert [e["shape"] for e in events] == [[6], [8]]


def test_many_features_take_gaussian_noise_when_delta_allows() -> None:
    domains = {f"f{i}": range(3) for i in range(39)}
    laplace = long_trips(domains=domains).declared_loss()
    gaussian = long_trips(domains=domains, delta=1e-6).declared_loss()
    assert laplace.event.to_json()["events"][0]["scale"] == pytest.approx(39.0)
    assert laplace.delta == 0.0
    assert gaussian.event.to_json()["events"][0]["name"] == "DiscreteGaussian"
    assert gaussian.event.to_json()["events"][0]["scale"] < 29.0
    assert gaussian.delta == 1e-6
    assert long_trips(delta=1e-6).declared_loss().delta == 0.0


def test_boolean_integer_and_string_classes_survive_files() -> None:
    data = rows().assign(month=lambda d: d["hour"] - 1)
    for label, classes, columns in (
        ("long", (False, True), ["count_false", "count_true"]),
        ("hour", range(4), ["count_0", "count_1", "count_2", "count_3"]),
        ("month", [-1, 0], ["count_minus_1", "count_0"]),
        ("zone", ["b", "a"], ["count_b", "count_a"]),
    ):
        estimator = CountFeaturizer("fare", label, classes=classes, domains={"fare": [3, 4]}, epsilon=1).fit(
            data
        )
        state = ReleasedState.from_files(estimator.to_state().to_files())
        assert state.tables["fare"].column_names[1 : 1 + len(columns)] == columns
        again = DPEstimator.from_state(state)
        assert again.classes == list(classes)
        assert [type(v) for v in again.classes] == [type(v) for v in classes]


@pytest.mark.usefixtures("without_noise")
def test_unknown_values_miss_their_table_and_unknown_labels_all_tables() -> None:
    data = pd.DataFrame(
        {"zone": ["a", "z", None, "a"], "hour": [0, 1, 2, 3], "long": [True, True, False, None]}, dtype=object
    )
    part = long_trips().partial_statistics(data)
    assert part.arrays["zone"].tolist() == [0, 1, 0, 0, 0, 0]
    assert part.arrays["hour"].tolist() == [0, 1, 0, 1, 1, 0, 0, 0]


def test_transform_replaces_values_by_counts_and_probabilities() -> None:
    estimator = long_trips().fit(rows())
    found = estimator.transform(pd.DataFrame({"zone": ["b", "?"], "hour": [3, 99]}))
    zone, hour = estimator.tables_["zone"].to_pylist()[1], estimator.tables_["hour"].to_pylist()[3]
    assert found[0].tolist() == [*list(zone.values())[1:], *list(hour.values())[1:]]
    assert found[1].tolist() == [
        *estimator.defaults_["zone"].values(),
        *estimator.defaults_["hour"].values(),
    ]
    assert estimator.get_feature_names_out().tolist()[:2] == ["zone_count_false", "zone_count_true"]


def test_a_label_may_come_as_y() -> None:
    data = rows()
    by_column = long_trips().partial_statistics(data).arrays
    by_y = long_trips(label=None).partial_statistics(data, data["long"]).arrays
    assert all(np.array_equal(by_y[n], by_column[n]) for n in by_y)
    with pytest.raises(SchemaError, match="label"):
        long_trips(label=None).fit(data)
    with pytest.raises(SchemaError, match="lengths"):
        long_trips(label=None).fit(data, data["long"][:-1])
    assert long_trips(label=None).required_columns() == ("zone", "hour")
    assert long_trips().required_columns() == ("zone", "hour", "long")


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"classes": None}, InvalidDomainError),
        ({"classes": [True]}, InvalidDomainError),
        ({"classes": [0.5, 1.5]}, InvalidDomainError),
        ({"classes": ["Yes", "yes"]}, InvalidParameterError),
        ({"classes": ["a b", "c"]}, InvalidParameterError),
        ({"domains": None}, InvalidDomainError),
        ({"domains": {"hour": None}}, InvalidDomainError),
        ({"features": ["zone"]}, InvalidDomainError),
        ({"features": ["zone", "zone"]}, InvalidParameterError),
        ({"domains": {"Hour": range(3), "hour": range(3)}}, InvalidParameterError),
        ({"domains": {"long": [1, 2]}}, InvalidParameterError),
        ({"domains": {"count_true": [1, 2]}}, InvalidParameterError),
        ({"domains": {"../x": [1, 2]}}, InvalidParameterError),
        ({"domains": {"hour": range(2**24)}}, InvalidDomainError),
        ({"hash_buckets": 1024}, InvalidDomainError),
        ({"label": 3}, InvalidParameterError),
    ],
    ids=str,
)
def test_unusable_parameters_are_refused_before_data(params: dict[str, Any], error: type[Exception]) -> None:
    estimator = long_trips(**params)
    with pytest.raises(error):
        estimator.declared_loss()
    with pytest.raises(error):
        estimator.fit(object())


@pytest.mark.usefixtures("without_noise")
def test_the_error_from_the_true_value_is_the_mean_distance_of_probabilities() -> None:
    train = pd.DataFrame({"zone": ["a"] * 40_000, "long": [True, False] * 20_000})
    test = pd.DataFrame({"zone": ["a"] * 10, "long": [True] * 10})
    estimator = long_trips(domains={"zone": ["a", "b"]}, epsilon=10).fit(train)
    assert estimator.error_from_true_value(estimator.partial_statistics(test)) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("method", ["fit", "partial_statistics"])
def test_a_label_that_is_passed_as_y_although_a_column_is_named_says_what_to_do(method: str) -> None:
    estimator = CountFeaturizer(label="click", classes=(0, 1), domains={"hour": range(4)}, epsilon=1.0)
    rows = pd.DataFrame({"hour": [1, 2, 3]})
    with pytest.raises(SchemaError, match="add that column to X, or leave label out and pass y") as told:
        getattr(estimator, method)(rows, [0, 1, 0])
    assert str(told.value).startswith(
        "column 'click' is missing: needed are 'hour', 'click', and the table has"
    )
    with pytest.raises(SchemaError, match=r"the table has 'hour'\n"):
        getattr(estimator, method)(rows)
