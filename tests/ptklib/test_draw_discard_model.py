"""The estimator that devices train: what it declares, releases and predicts."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from ptklib import DPEstimator, DrawDiscardModel, ReleasedState, bucket_of
from ptklib.accounting import event_delta, pure_epsilon, renyi_curve, zcdp_rho
from ptklib.checks import check_ptk_estimator
from ptklib.draw_discard import (
    Categorical,
    Hashed,
    Numeric,
    Specification,
    average_instances,
    report_loss,
    start_instances,
)
from ptklib.events import LocalReport
from ptklib.exceptions import (
    CorruptStateError,
    InvalidParameterError,
    PrivacyParameterError,
    SchemaError,
    StateMismatchError,
)
from tests.support.families import LOCAL_EXAMPLES, Example, label_of, rows

every_model = pytest.mark.parametrize("example", LOCAL_EXAMPLES, ids=lambda example: example.name)

FEATURES: dict[str, Any] = {"speed": (0, 60), "zone": ["a", "b", "c"], "hour": {"hash_buckets": 4}}


def model(**other: Any) -> DrawDiscardModel:
    return DrawDiscardModel(**({"features": FEATURES, "label": "long", "epsilon": 3.47} | other))


def fitted(example: Example, data: pd.DataFrame | None = None, **keywords: Any) -> Any:
    data = rows() if data is None else data
    return clone(example.estimator).fit(data, label_of(example, data), **keywords)


EXPECTED = {
    "check_event_is_what_was_drawn": "the event is of one report, and each device draws",
}
COLUMNS = {
    "speed": (0, 60),
    "fare": (0, 50),
    "zone": ["a", "b", "c"],
    "hour": range(4),
    "long": [False, True],
    "y": [False, True],
}


@every_model
def test_the_conformance_suite_finds_what_a_local_model_cannot_have_and_nothing_else(
    example: Example,
) -> None:
    columns = dict(COLUMNS)
    if example.estimator.model == "linear":
        columns["speed"] = (0, 60)
    if example.estimator.classes is not None:
        columns["y"] = list(example.estimator.classes)
    expected = dict(EXPECTED)
    if example.estimator.clip == "coordinate":
        expected["check_loss_is_declared_before_data"] = (
            "epsilon is that of one weight, the whole report loses more"
        )
    if example.estimator.devices is not None:
        expected["check_shards_merge"] = "a shard holds all rows of its devices, and these are cut anywhere"
    results = check_ptk_estimator(
        example.estimator, columns=columns, expected_failed_checks=expected, runs=0, on_fail=None
    )
    ours = [one for one in results if not one.name.startswith("sklearn_")]
    assert {(one.name, one.reason) for one in ours if one.status == "failed"} == set()
    assert {one.name for one in ours if one.status == "xfail"} == set(expected)


def test_the_specification_is_what_the_parameters_say() -> None:
    one = model(
        crosses=[["zone", "hour"]], k=5, clip="l2", noise="gaussian", delta=1e-6, epsilon=2.0
    ).specification
    assert one == Specification(
        features=(Hashed("hour", 4), Numeric("speed", 0, 60), Categorical("zone", ["a", "b", "c"])),
        label=Numeric("long", 0, 1),
        crosses=(("zone", "hour"),),
        k=5,
        clip="l2",
        noise="gaussian",
        delta=1e-6,
        epsilon=2.0,
    )
    classes = model(label=None, classes=["no", "yes"]).specification
    assert (classes.link, classes.label, classes.n_weights) == (
        "softmax",
        Categorical("y", ["no", "yes"]),
        18,
    )
    linear = model(label="fare", model="linear", label_bounds=(0, 50)).specification
    assert (linear.link, linear.label) == ("linear", Numeric("fare", 0, 50))


def test_order_of_features_and_json_change_no_weight() -> None:
    """JSON objects have no order, so columns are in the order of their names."""
    backwards = model(features=dict(reversed(FEATURES.items())))
    assert backwards.specification == model().specification
    spec = json.loads(json.dumps(model().to_spec(), sort_keys=True))
    assert DrawDiscardModel(**spec["params"]).specification == model().specification


@pytest.mark.parametrize(
    ("given", "column"),
    [
        ([0, 24], Numeric("c", 0, 24)),
        (np.array([0.5, 2.5]), Numeric("c", 0.5, 2.5)),
        ({"values": [0, 24]}, Categorical("c", [0, 24])),
        ([False, True], Categorical("c", [False, True])),
        (range(3), Categorical("c", [0, 1, 2])),
        ((7,), Categorical("c", [7])),
        (["a", "b"], Categorical("c", ["a", "b"])),
        ({"hash_buckets": np.int64(8)}, Hashed("c", 8)),
    ],
    ids=str,
)
def test_a_column_is_bounds_values_or_buckets(given: Any, column: Any) -> None:
    assert model(features={"c": given}).specification.features == (column,)


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"features": {}}, "features"),
    ({"features": ["speed"]}, "features"),
    ({"features": {"a b": (0, 1)}}, "name"),
    ({"features": {"c": "abc"}}, "list"),
    ({"features": {"c": 5}}, "list"),
    ({"features": {"c": {}}}, "hash_buckets or values"),
    ({"features": {"c": {"hash_buckets": 1}}}, "hash_buckets"),
    ({"features": {"c": {"hash_buckets": 2**20}}}, "hash_buckets"),
    ({"features": {"c": {"hash_buckets": 8, "values": [1]}}}, "hash_buckets or values"),
    ({"features": {"c": [60, 0]}}, "low < high"),
    ({"features": {"c": [0.5, 1.5, 2.5]}}, "texts, integers"),
    ({"features": {"c": [1j, 1]}}, "no JSON form"),
    ({"features": {"long": (0, 1)}}, "repeat"),
    ({"model": "poisson"}, "model"),
    ({"average": "median"}, "average"),
    ({"model": "linear"}, "label_bounds"),
    ({"model": "linear", "label_bounds": (0, 1), "classes": [0, 1]}, "no classes"),
    ({"label_bounds": (0, 1)}, "linear"),
    ({"classes": [1]}, "classes"),
    ({"classes": range(257)}, "classes"),
    ({"classes": ["a b", "c"]}, "class"),
    ({"crosses": "zone"}, "crosses"),
    ({"crosses": [["zone", "nobody"]]}, "columns of features"),
    ({"devices": 5}, "devices"),
    ({"label": "a b"}, "label"),
    ({"k": 0}, "k must"),
]


@pytest.mark.parametrize(("other", "told"), HOSTILE, ids=str)
def test_parameters_that_cannot_be_used_are_refused_before_data(other: dict[str, Any], told: str) -> None:
    for use in (lambda: model(**other).declared_loss(), lambda: model(**other).fit(object())):
        with pytest.raises(InvalidParameterError, match=told):
            use()


@every_model
def test_its_loss_is_that_of_a_report_and_no_accountant_composes_it(example: Example) -> None:
    declared = example.estimator.declared_loss()
    loss = report_loss(example.estimator.specification)
    assert (declared.epsilon, declared.delta) == (loss.whole.epsilon, loss.whole.delta)
    assert declared.event == LocalReport(whole=loss.whole.event, one_weight=loss.one_weight.event)  # type: ignore[arg-type]
    for account in (renyi_curve, pure_epsilon, event_delta, zcdp_rho):
        with pytest.raises(PrivacyParameterError, match="no block of rows pays for it"):
            account(declared.event)


def test_the_state_says_what_is_promised_of_a_report_and_of_one_weight() -> None:
    (example,) = (one for one in LOCAL_EXAMPLES if one.estimator.clip == "coordinate")
    told = fitted(example).to_state().meta["guarantee"]
    n = example.estimator.specification.n_weights
    assert (told["model"], told["unit"]) == ("local", "device")
    assert told["one_weight"]["epsilon"] == pytest.approx(example.estimator.epsilon)
    assert told["report"]["epsilon"] == pytest.approx(n * example.estimator.epsilon)
    assert told["specification"] == example.estimator.specification.digest
    whole = model(epsilon=2.0).local_guarantee()
    assert whole["report"]["epsilon"] == pytest.approx(2.0)
    assert whole["report"]["epsilon"] <= 2.0


@every_model
def test_a_state_that_promises_something_else_is_refused(example: Example) -> None:
    state = fitted(example).to_state()
    without = {name: value for name, value in state.meta.items() if name != "guarantee"}
    better = {**state.meta, "guarantee": {**state.meta["guarantee"], "model": "central"}}
    for meta in (without, better):
        with pytest.raises(CorruptStateError, match="guarantee"):
            DPEstimator.from_state(ReleasedState(state.tables, meta))
    assert type(DPEstimator.from_state(state)) is DrawDiscardModel


def test_rows_of_a_device_are_one_report_in_the_order_of_its_first_row() -> None:
    data = pd.DataFrame(
        {"zone": ["a", "b", "a", "c", "b"], "who": ["u2", "u1", "u2", None, "u1"], "long": [1, 0, 1, 0, None]}
    )
    one = DrawDiscardModel({"zone": ["a", "b", "c"]}, label="long", devices="who", epsilon=1.0)
    assert one.input_columns() == ("zone", "long", "who")
    found = one.partial_statistics(data).arrays["rows"].reshape(-1, 3)
    assert found.tolist() == [[0, 2**20, 1], [0, 2**20, 0], [1, 0, 1], [1, -1, 0], [2, 0, 1]]
    assert len(one._devices_of({"rows": found.ravel()})) == 3


def test_a_service_averages_the_instances_of_its_server() -> None:
    one = model(k=5)
    instances = start_instances(one.specification)
    state = one.average_of(instances)
    assert not hasattr(one, "tables_")
    assert np.array_equal(state.tables["weights"]["weight"], average_instances(one.specification, instances))
    again = one.average_of(instances, state)
    assert (state.meta["n_releases"], again.meta["n_releases"]) == (1, 2)
    assert DPEstimator.from_state(state).transform(rows()).shape == (400, 1)
    with pytest.raises(InvalidParameterError, match="int32"):
        one.average_of(instances[:4])
    with pytest.raises(StateMismatchError):
        model(k=6).average_of(start_instances(model(k=6).specification), state)


def test_weights_are_found_by_class_input_and_value() -> None:
    one = model(crosses=[["zone", "hour"]], classes=[False, True], k=1)
    instances = np.arange(42, dtype=np.int32)[np.newaxis] << 10
    state = one.average_of(instances)
    table = state.tables["weights"].to_pandas().set_index(["class", "input", "value"])["weight"]
    unit = 2.0**-14
    assert table.is_unique
    assert table["false", "1", ""] == 0
    assert table["false", "hour", "3"] == 4 * unit
    assert table["false", "speed", ""] == 5 * unit
    assert table["true", "zone", "b"] == (21 + 7) * unit
    assert table["true", "zone*hour", '["c", 3]'] == (21 + 20) * unit


def test_a_number_in_a_cross_multiplies_the_weight_of_its_values() -> None:
    one = model(crosses=[["zone", "speed"]], classes=None, k=1)
    instances = np.zeros((1, one.specification.n_weights), dtype=np.int32)
    instances[0, -2] = 2**24  # the second of the zones
    state = one.average_of(instances)
    table = state.tables["weights"].to_pandas().set_index(["input", "value"])["weight"]
    assert table["zone*speed", '["b"]'] == 1
    released = DPEstimator.from_state(state)
    low, high = one.features["speed"]
    asked = {"zone": ["b", "b", "a"], "hour": [0, 0, 0], "speed": [low, high, high]}
    chances = released.predict_proba(pd.DataFrame(asked))[:, 1]
    assert chances == pytest.approx([0.5, 1 / (1 + math.exp(-1)), 0.5])


def exact(example: Example, state: ReleasedState, row: dict[str, Any]) -> list[float]:
    """Predictions from the table of weights as a reader of it would compute them."""
    spec = example.estimator.specification
    weights = state.tables["weights"].to_pandas().set_index(["class", "input", "value"])["weight"]
    inputs = {("1", ""): 1.0}
    texts = {}
    for feature in spec.features:
        entry = row[feature.column]
        if isinstance(feature, Numeric):
            share = (min(max(entry, feature.low), feature.high) - feature.low) / (feature.high - feature.low)
            inputs[feature.column, ""] = share
            continue
        value = int(bucket_of([entry], len(feature))[0]) if isinstance(feature, Hashed) else entry
        texts[feature.column] = value
        inputs[feature.column, str(value).lower() if isinstance(value, bool) else str(value)] = 1.0
    for cross in spec.crosses:
        inputs["*".join(cross), json.dumps([texts[name] for name in cross])] = 1.0
    classes = [""] if example.estimator.classes is None else list(example.estimator.classes)
    scores = [sum(weights[(c, *name)] * share for name, share in inputs.items()) for c in classes]
    if example.estimator.model == "linear":
        low, high = example.estimator.label_bounds
        return [low + min(max(scores[0], 0), 1) * (high - low)]
    if example.estimator.classes is None:
        return [1 / (1 + math.exp(-scores[0]))]
    total = sum(map(math.exp, scores))
    return [math.exp(score) / total for score in scores]


@every_model
def test_predictions_follow_from_the_table_of_weights(example: Example) -> None:
    if example.estimator.average == "predictions":
        pytest.skip("its predictions are those of each instance")
    spec = example.estimator.specification
    random = np.random.default_rng(2)
    instances = random.integers(-(2**25), 2**25, (spec.k, spec.n_weights)).astype(np.int32)
    state = example.estimator.average_of(instances)
    found = DPEstimator.from_state(state).transform(rows(20))
    expected = [exact(example, state, row) for row in rows(20).to_dict("records")]
    assert found == pytest.approx(np.array(expected), abs=2e-3)


def test_predictions_may_be_averaged_over_instances() -> None:
    one = model(k=2, average="predictions")
    spec = one.specification
    instances = np.zeros((2, spec.n_weights), dtype=np.int32)
    instances[0, 0], instances[1, 0] = 3 * 2**24, -2 * 2**24
    found = DPEstimator.from_state(one.average_of(instances)).transform(rows(1))[0, 0]
    logistic = [1 / (1 + math.exp(-score)) for score in (3, -2, 0.5)]
    assert found == pytest.approx((logistic[0] + logistic[1]) / 2)
    weights = model(k=2).average_of(instances)
    assert DPEstimator.from_state(weights).transform(rows(1))[0, 0] == pytest.approx(logistic[2])


def test_instances_of_a_state_go_on_where_they_were() -> None:
    one = model(k=3, average="predictions")
    instances = start_instances(one.specification)
    state = ReleasedState.from_files(one.average_of(instances).to_files())
    again = clone(one).fit(rows(0), previous_state=state)
    assert np.array_equal(again._start(again.to_state()), instances)
    assert again.n_releases_ == 2
    weights = state.tables["instances"]["weight"].to_numpy().copy()
    weights[0] += 2.0**-24
    column = state.tables["instances"].set_column(4, state.tables["instances"].schema.field(4), [weights])
    with pytest.raises(CorruptStateError, match="means of its instances"):
        DPEstimator.from_state(ReleasedState({**state.tables, "instances": column}, state.meta))
    weights[0] += 2.0**-30
    column = column.set_column(4, column.schema.field(4), [weights])
    with pytest.raises(CorruptStateError, match="never released"):
        DPEstimator.from_state(ReleasedState({**state.tables, "instances": column}, state.meta))


def test_instances_start_around_the_weights_of_a_previous_state() -> None:
    one = model(k=50, epsilon=10.0)
    far = np.full((50, one.specification.n_weights), 100 * 2**24, dtype=np.int32)
    again = clone(one).finalize([], previous_state=one.average_of(far))
    assert again.weights_ == pytest.approx(100, abs=0.1)
    assert clone(one).finalize([]).weights_ == pytest.approx(0, abs=0.1)


def test_a_model_learns_what_devices_see() -> None:
    """Chance is .55, and the best of all rules is right for .68 of rows; .62 was passed by each of 30 fits by .02."""
    random = np.random.default_rng(3)
    zone = random.choice(["a", "b", "c"], 30_000)
    rate = pd.Series({"a": 0.2, "b": 0.8, "c": 0.55})
    data = pd.DataFrame({"zone": zone, "long": random.uniform(size=30_000) < rate[zone].to_numpy()})
    one = DrawDiscardModel(
        {"zone": ["a", "b", "c"]}, label="long", k=5, learning_rate=0.02, grid_bits=20, epsilon=8.0
    )
    one.fit(data)
    assert one.score(data) > 0.62
    assert one.predict_proba(data[:3]).sum(axis=1) == pytest.approx(1)
    assert set(one.predict(data)) <= {0, 1}
    softmax = clone(one).set_params(classes=[False, True]).fit(data)
    assert softmax.score(data) > 0.62
    assert softmax.predict(data).dtype == bool


def test_loss_and_score_of_rows_without_a_label() -> None:
    one = model(k=1)
    spec = one.specification
    weights = np.zeros((1, spec.n_weights), dtype=np.int32)
    weights[0, 0] = 20 * 2**24
    done = DPEstimator.from_state(one.average_of(weights))
    data = rows(6).assign(long=[True, 1, 0, None, "x", 0.25]).astype(object)
    assert done.usable_rows(data).tolist() == [True, True, True, False, False, True]
    assert done.losses_of_rows(data)[[0, 1, 2, 5]] == pytest.approx([0, 0, 1, 0.5625], abs=1e-6)
    assert done.score(data) == pytest.approx(2 / 6)
    part = one.partial_statistics(data)
    assert done.error_from_true_value(part) == pytest.approx(1.5625 / 4, abs=1e-6)


def test_a_linear_model_has_neither_classes_nor_probabilities() -> None:
    one = model(label="fare", model="linear", label_bounds=(0, 50), k=1)
    weights = np.zeros((1, one.specification.n_weights), dtype=np.int32)
    weights[0, 0] = 2**23
    done = DPEstimator.from_state(one.average_of(weights))
    assert done.predict(rows(3)) == pytest.approx(25)
    assert done.get_feature_names_out().tolist() == ["fare_prediction"]
    assert done.score(rows(400)) == pytest.approx(0, abs=0.1)
    for use in (lambda: done.classes_, lambda: done.predict_proba(rows(3))):
        with pytest.raises(AttributeError):
            use()


def test_what_a_row_loses_does_not_depend_on_other_rows() -> None:
    done = model(crosses=[["zone", "hour"]]).fit(rows())
    data = rows(500)
    together = done.losses_of_rows(data)
    alone = [done.losses_of_rows(data[i : i + 1])[0] for i in range(0, 500, 7)]
    assert together[::7].tolist() == alone


def test_columns_are_needed_by_name() -> None:
    with pytest.raises(SchemaError, match="'zone' is missing"):
        model().fit(rows().drop(columns="zone"))
    assert model(label=None).fit(rows(), rows()["long"]).transform(
        rows(2)[["speed", "zone", "hour"]]
    ).shape == (2, 1)
