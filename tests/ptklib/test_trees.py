"""What tree featurization promises beyond the contract of every family."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import r2_score, roc_auc_score

from ptklib import DPEstimator, ReleasedState, TreeFeaturizer
from ptklib.arrays import Floats, Ints
from ptklib.checks.event_diff import differences
from ptklib.exceptions import (
    CorruptStateError,
    InvalidDomainError,
    InvalidParameterError,
    UnboundedSensitivityError,
)
from ptklib.mechanisms.recording import recorded_draws
from ptklib.release import ReleasePlan
from ptklib.trees.plans import RoundsPlan

METHODS = ["boosting", "random", "greedy"]
NAMES = [f"v{i}" for i in range(6)]


def task(n: int = 20_000, seed: int = 3) -> tuple[Floats, Ints, Floats]:
    """Return rows in [-1, 1], labels, and the chance of label 1: two effects, one interaction, two columns of noise."""
    random = np.random.default_rng(seed)
    rows = random.uniform(-1, 1, (n, len(NAMES)))
    score = 2 * np.tanh(3 * rows[:, 0]) + 1.5 * np.cos(3 * rows[:, 1]) - 0.8 + 3 * rows[:, 2] * rows[:, 3]
    chance = 1 / (1 + np.exp(-score))
    return rows, (random.random(n) < chance).astype(np.int64), chance


def classifier(method: str = "boosting", **keywords: Any) -> TreeFeaturizer:
    return TreeFeaturizer(
        **{
            "features": NAMES,
            "classes": [0, 1],
            "bounds": (-1, 1),
            "method": method,
            "epsilon": 1.0,
            **keywords,
        }
    )


def regressor(method: str = "boosting", **keywords: Any) -> TreeFeaturizer:
    return classifier(method, classes=None, label_bounds=(0, 1), **keywords)


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleasePlan, "draw", lambda self, units: dict(units))
    monkeypatch.setattr(RoundsPlan, "add_noise", lambda self, name, exact: exact)
    monkeypatch.setattr(RoundsPlan, "select", lambda self, name, scores: int(np.argmax(scores)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "delta", "least"),
    [("boosting", 0, 0.78), ("boosting", 1e-6, 0.79), ("random", 0, 0.68), ("greedy", 0, 0.68)],
)
def test_classes_are_ranked_nearly_as_well_as_by_their_true_chance(
    method: str, delta: float, least: float
) -> None:
    rows, label, _ = task()
    other, truth, chance = task(seed=4)
    assert roc_auc_score(truth, chance) == pytest.approx(0.889, abs=0.02)
    found = classifier(method, delta=delta).fit(rows, label).predict_proba(other)
    assert roc_auc_score(truth, found[:, 1]) >= least
    assert found.sum(axis=1) == pytest.approx(1)


def test_boosting_predicts_numbers_within_their_bounds() -> None:
    rows, _, chance = task()
    other, _, truth = task(seed=4)
    found = regressor().fit(rows, chance).predict(other)
    assert r2_score(truth, found) >= 0.8
    assert 0 <= found.min() <= found.max() <= 1


def test_boosting_tells_several_classes_apart() -> None:
    rows, _, chance = task()
    other, _, truth = task(seed=4)
    names = np.asarray(["low", "middle", "high"])
    cuts = [0.3, 0.7]
    model = classifier(classes=names.tolist()).fit(rows, names[np.digitize(chance, cuts)])
    assert (model.predict(other) == names[np.digitize(truth, cuts)]).mean() >= 0.6  # .48 by the most frequent
    assert model.predict_proba(other).shape == (len(other), 3)
    assert model.classes_.tolist() == names.tolist()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [classifier, regressor])
def test_noise_alone_predicts_the_same_for_all_rows(method: str, make: Any) -> None:
    rows, label, _ = task(n=300)
    few = {"epsilon": 1e-4, "n_estimators": 8, "n_candidates": 20}
    spread = [np.ptp(make(method, **few).fit(rows, label).transform(rows)[:, 0]) for _ in range(9)]
    assert np.median(spread) <= 0.25


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [0, 1, 400])
def test_no_row_one_row_and_equal_rows_release_trees_of_the_same_shape(method: str, n: int) -> None:
    for make, label in ((classifier, np.ones(n, dtype=int)), (regressor, np.full(n, 0.7))):
        model = make(method).fit(np.full((n, 6), 0.3), label)
        trees = {"boosting": 24, "random": 60, "greedy": 12}[method]
        assert model.tables_["trees"].num_rows == trees * 127
        assert np.isfinite(model.transform(np.zeros((3, 6)))).all()


def walked(table: pd.DataFrame, frame: pd.DataFrame, domain: list[str]) -> Ints:
    """Return leaves by reading the released table as its description says."""
    places = {value: place for place, value in enumerate(domain)}
    found = []
    for _, tree in table.groupby("tree"):
        nodes = tree.set_index("node")
        for _, row in frame.iterrows():
            node = 0
            while nodes.loc[node, "left"] >= 0:
                name = nodes.loc[node, "feature"]
                value = places.get(row[name]) if name == "kind" else np.clip(row[name], -1, 1)
                left = value is None or np.isnan(value) or value < nodes.loc[node, "threshold"]
                node = int(nodes.loc[node, "left" if left else "right"])
            found.append(node - (len(nodes) // 2))
    return np.reshape(found, (-1, len(frame))).T


@pytest.mark.parametrize("method", METHODS)
def test_the_released_table_says_where_a_row_goes(method: str) -> None:
    rows, label, _ = task(n=400)
    kinds = ["a", "b", "c", "d", "e"]
    frame = pd.DataFrame({"v": rows[:, 0], "w": rows[:, 1], "kind": np.resize(kinds, len(rows))})
    frame.loc[:5, "v"] = [np.nan, np.inf, -np.inf, 1.0, -1.0, 7.0]
    frame.loc[3:4, "kind"] = ["unknown", None]
    model = TreeFeaturizer(
        classes=[0, 1],
        bounds={"v": (-1, 1), "w": (-1, 1)},
        thresholds={"w": [-0.5, 0.1, 0.2]},
        domains={"kind": kinds},
        n_estimators=5,
        max_depth=4,
        method=method,
        output="leaf_index",
        epsilon=5.0,
    ).fit(frame, label)
    few = frame[:40]
    expected = walked(model.tables_["trees"].to_pandas(), few, kinds)
    assert np.array_equal(model.transform(few), expected)
    assert len(np.unique(expected)) > 2


def test_outputs_are_leaves_of_the_same_trees() -> None:
    rows, label, _ = task(n=2000)
    model = classifier("random", n_estimators=7, max_depth=3).fit(rows, label)
    index = model.set_params(output="leaf_index").transform(rows)
    leaves = model.set_params(output="leaf").transform(rows).reshape(-1, 7, 8)
    assert np.array_equal(leaves.argmax(axis=2), index)
    assert (leaves.sum(axis=2) == 1).all()
    trees = model.set_params(output="tree").transform(rows)
    table = model.tables_["trees"].to_pandas()
    first = table[(table["tree"] == 0) & (table["node"] >= 7)]
    assert np.array_equal(trees[:, :2], first[["p_0", "p_1"]].to_numpy()[index[:, 0].astype(int)])
    mean = model.set_params(output="prediction").transform(rows)
    assert mean == pytest.approx(trees.reshape(-1, 7, 2).mean(axis=1))
    assert model.get_feature_names_out().tolist() == ["p_0", "p_1"]
    assert model.predict(rows).tolist() == model.classes_[mean.argmax(axis=1)].tolist()


def test_scores_of_boosted_trees_add_up_to_log_odds() -> None:
    rows, label, _ = task(n=2000)
    model = classifier(n_estimators=5, output="tree").fit(rows, label)
    score = model.transform(rows).sum(axis=1)
    assert model.predict_proba(rows)[:, 1] == pytest.approx(1 / (1 + np.exp(-score)))


def test_a_numeric_label_has_no_class_probabilities() -> None:
    assert not hasattr(regressor(), "predict_proba")
    assert not hasattr(regressor(), "classes_")
    assert hasattr(classifier(), "predict_proba")


@pytest.mark.parametrize("method", METHODS)
def test_rows_with_an_unusable_label_change_nothing(method: str) -> None:
    rows, label, chance = task(n=60)
    model = classifier(method)
    clean = model.partial_statistics(rows, label).arrays
    odd = np.asarray([None, "1", 2, float("nan")], dtype=object)
    dirty = model.partial_statistics(np.vstack([rows, rows[:4]]), np.concatenate([label, odd])).arrays
    assert all(np.array_equal(clean[name], dirty[name]) for name in clean)
    numeric = regressor(method)
    clean = numeric.partial_statistics(rows, np.concatenate([chance[:-1], [1.0]])).arrays
    infinite = np.concatenate([chance[:-1], [np.inf, np.nan]])
    dirty = numeric.partial_statistics(np.vstack([rows, rows[:1]]), infinite).arrays
    assert all(np.array_equal(clean[name], dirty[name]) for name in clean)


@pytest.mark.usefixtures("no_noise")
def test_without_noise_random_trees_count_rows_and_windows_add_up() -> None:
    rows, label, chance = task(n=900)
    model = classifier("random", n_estimators=4, max_depth=2, output="leaf_index").fit(rows, label)
    leaves = model.transform(rows)
    counts = np.zeros((4, 4, 2))
    for tree in range(4):
        np.add.at(counts[tree], (leaves[:, tree].astype(int), label), 1)
    table = model.tables_["trees"].to_pandas()
    found = table[table["node"] >= 3][["count_0", "count_1"]].to_numpy().reshape(4, 4, 2)
    assert np.array_equal(found, counts)
    roots = table[table["node"] == 0]
    assert (roots["count_1"] == label.sum()).all()
    numbers = regressor("random", n_estimators=2, max_depth=1).fit(rows, chance)
    again = regressor("random", n_estimators=2, max_depth=1).fit(
        rows, chance, previous_state=ReleasedState.from_files(numbers.to_state().to_files())
    )
    for name in ("count", "sum"):
        assert again.tables_["trees"].column(name).to_numpy() == pytest.approx(
            2 * numbers.tables_["trees"].column(name).to_numpy()
        )
    assert numbers.tables_["trees"].column("sum").to_numpy()[0] == pytest.approx(
        (chance - 0.5).sum(), abs=1e-2
    )
    assert again.noise_variance_["sums"] == pytest.approx(2 * numbers.noise_variance_["sums"])


def test_random_trees_have_a_structure_known_before_data() -> None:
    rows, label, _ = task(n=100)
    one, other = (classifier("random").fit(rows[:n], label[:n]).tables_["trees"] for n in (10, 100))
    for name in ("feature", "threshold"):
        assert one.column(name).equals(other.column(name))
    seeded = classifier("random", seed=1).fit(rows, label).tables_["trees"]
    assert not one.column("threshold").equals(seeded.column("threshold"))


@pytest.mark.parametrize("method", ["boosting", "greedy"])
def test_shards_join_to_the_same_rows(method: str) -> None:
    rows, label, _ = task(n=50)
    model = classifier(method)
    parts = [
        model.partial_statistics(rows[a:b], label[a:b]) for a, b in ((0, 20), (20, 20), (20, 21), (21, 50))
    ]
    whole = model.partial_statistics(rows, label).arrays["rows"]
    assert np.array_equal(model.merge(parts).arrays["rows"], whole)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_continued_boosting_keeps_its_trees_and_learns_from_new_rows(make: Any) -> None:
    rows, label, chance = task(n=6000)
    target = label if make is classifier else chance
    first = make(delta=1e-6).fit(rows, target).to_state()
    frozen = first.tables["trees"]
    model = make(delta=1e-6, epsilon=2.0)
    with recorded_draws() as draws:
        model.fit(rows, 1 - target, previous_state=first)
    assert differences(model.declared_loss().event, draws) == []
    table = model.tables_["trees"]
    assert table.num_rows == frozen.num_rows
    for name in ("feature", "threshold"):
        assert table.column(name).equals(frozen.column(name))
    other, _, truth = task(seed=4)
    found = model.transform(other)[:, -1]
    assert np.corrcoef(found, truth)[0, 1] < 0.2  # it had learnt the opposite
    still = make(delta=1e-6).finalize([], previous_state=first)
    before = DPEstimator.from_state(first).transform(other)[:, -1]
    assert np.median(np.abs(still.transform(other)[:, -1] - before)) < 0.12


@pytest.mark.long
@pytest.mark.parametrize("method", ["random", "greedy"])
def test_five_hundred_classes_are_told_apart_and_no_more_are_taken(method: str) -> None:
    rows = np.repeat(
        np.random.default_rng(4).choice([-0.9, 0.9], (20_000, 1)), 6, axis=1
    )  # any split will do
    label = np.where(rows[:, 0] > 0, 7, 493)
    few: dict[str, Any] = {"method": method, "n_estimators": 2, "max_depth": 2, "epsilon": 8.0}
    fitted = classifier(classes=range(500), **few).fit(rows, label)
    chances = fitted.predict_proba(rows[:1000])
    assert chances.shape == (1000, 500)
    assert chances.sum(axis=1) == pytest.approx(1.0)
    assert (chances >= 0).all()
    assert np.mean(fitted.predict(rows[:1000]) == label[:1000]) > 0.9
    with pytest.raises(InvalidParameterError, match="500"):
        classifier(classes=range(501), **few).fit(rows[:10], label[:10])


def test_many_rare_classes_lean_on_their_overall_shares() -> None:
    random = np.random.default_rng(0)
    shares = np.arange(200, 0, -1.0) ** 2
    shares /= shares.sum()
    label = random.choice(200, 5000, p=shares)
    rows = random.uniform(-1, 1, (5000, 6))
    model = classifier("auto", classes=range(200), n_estimators=6, max_depth=3).fit(rows, label)
    table = model.tables_["trees"].to_pandas()
    leaves = table[table["node"] >= 7]
    found = leaves.filter(like="p_").to_numpy()
    raw = np.maximum(leaves.filter(like="count_").to_numpy(), 0)
    raw = raw / raw.sum(axis=1, keepdims=True)
    assert np.abs(found - shares).sum(axis=1).mean() < 0.5 * np.abs(raw - shares).sum(axis=1).mean()
    assert found.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [classifier, regressor])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_more_rows_per_unit_cost_so_much_more_noise(method: str, make: Any, delta: float) -> None:
    one = make(method, delta=delta).declared_loss()
    five = make(method, delta=delta, max_rows_per_unit=5).declared_loss()
    assert one.epsilon == five.epsilon == 1.0
    for few, many in zip(one.event.to_json()["events"], five.event.to_json()["events"], strict=True):
        assert many["scale"] == pytest.approx(5 * few["scale"], rel=0.01)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_what_is_drawn_is_what_was_declared(method: str, delta: float) -> None:
    rows, label, chance = task(n=50)
    for make, target in ((classifier, label), (regressor, chance)):
        model = make(method, delta=delta, n_estimators=3, max_depth=3)
        with recorded_draws() as draws:
            model.fit(rows, target)
        assert differences(model.declared_loss().event, draws) == []


def test_boosted_predictions_start_from_what_all_rows_have_in_common() -> None:
    random = np.random.default_rng(0)
    rows = random.uniform(-1, 1, (5000, 6))
    few = {"n_estimators": 2, "max_depth": 2}
    rare = classifier(**few).fit(rows, (random.random(5000) < 0.02).astype(int))
    # The medians have a standard deviation of .005 and .008; starting from one half, two trees end near .4 and .6.
    assert np.median(rare.predict_proba(rows)[:, 1]) == pytest.approx(0.02, abs=0.1)
    high = regressor(**few).fit(rows, np.full(5000, 0.9))
    assert np.median(high.predict(rows)) == pytest.approx(0.9, abs=0.1)


@pytest.mark.usefixtures("no_noise")
def test_the_true_error_is_the_loss_on_held_out_rows() -> None:
    rows, label, chance = task(n=300)
    for method in ("boosting", "greedy"):
        model = classifier(method).fit(rows, label)
        part = model.partial_statistics(rows, label)
        brier = np.mean((model.predict_proba(rows)[:, 1] - label) ** 2)
        assert model.error_from_true_value(part) == pytest.approx(brier)
        numeric = regressor(method).fit(rows, chance)
        error = np.sqrt(np.mean((numeric.predict(rows) - chance) ** 2))
        found = numeric.error_from_true_value(numeric.partial_statistics(rows, chance))
        assert found == pytest.approx(error, rel=0.01)
    random = classifier("random", n_estimators=1).fit(rows, label)
    brier = np.mean((random.predict_proba(rows)[:, 1] - label) ** 2)
    assert random.error_from_true_value(random.partial_statistics(rows, label)) == pytest.approx(brier)
    many = np.zeros((5000, 6))
    numeric = regressor("random", n_estimators=1, max_depth=1).fit(many, np.full(5000, 0.9))
    part = numeric.partial_statistics(many, np.full(5000, 0.4))
    assert numeric.error_from_true_value(part) == pytest.approx(0.5, abs=0.01)


def changed(state: ReleasedState, name: str, row: int, value: Any) -> ReleasedState:
    table = state.tables["trees"]
    values = table.column(name).to_pylist()
    values[row] = value
    place = table.schema.get_field_index(name)
    broken = table.set_column(
        place, table.schema.field(name), pa.array(values, table.schema.field(name).type)
    )
    return ReleasedState({"trees": broken}, state.meta)


@pytest.mark.parametrize("method", METHODS)
def test_states_that_split_elsewhere_than_at_public_thresholds_are_refused(method: str) -> None:
    rows, label, _ = task(n=100)
    state = classifier(method, n_estimators=2, max_depth=2).fit(rows, label).to_state()
    used = state.tables["trees"].column("feature").to_pylist()[1]
    other = next(name for name in NAMES if name != used)
    for name, row, value in (
        ("threshold", 0, 0.0123),
        ("threshold", 6, 1.0),
        ("feature", 0, "unknown"),
        ("feature", 0, ""),
        ("feature", 4, "v0"),
        ("feature", 1, other),
        ("left", 0, 2),
    ):
        with pytest.raises(CorruptStateError):
            DPEstimator.from_state(changed(state, name, row, value))
    meta = {**state.meta, "noise_variance": {"other": 1.0}}
    with pytest.raises(CorruptStateError):
        DPEstimator.from_state(ReleasedState(dict(state.tables), meta))


def test_random_trees_of_another_seed_are_refused() -> None:
    rows, label, _ = task(n=100)
    state, other = (classifier("random", seed=seed).fit(rows, label).to_state() for seed in (0, 1))
    with pytest.raises(CorruptStateError, match="seed"):
        DPEstimator.from_state(ReleasedState(dict(other.tables), state.meta))


def test_auto_boosts_a_few_classes_and_counts_many() -> None:
    assert "value" in classifier("auto").table_schemas()["trees"].schema.names
    assert "value" in regressor("auto").table_schemas()["trees"].schema.names
    assert "value_3" in classifier("auto", classes=range(16)).table_schemas()["trees"].schema.names
    assert "count_3" in classifier("auto", classes=range(17)).table_schemas()["trees"].schema.names
    assert classifier("auto", classes=range(500)).declared_loss().epsilon == 1.0


def test_unusable_parameters_are_refused_before_data_are_read() -> None:
    for wrong in (
        {"classes": None},
        {"label_bounds": (0, 1)},
        {"classes": range(501)},
        {"classes": [1]},
        {"method": "forest"},
        {"method": None},
        {"classes": range(17)},
        {"n_estimators": 0},
        {"n_estimators": True},
        {"max_depth": 13},
        {"max_depth": 2.0},
        {"n_bins": 1},
        {"n_candidates": 0},
        {"learning_rate": 0},
        {"learning_rate": 1.1},
        {"learning_rate": "1"},
        {"seed": -1},
        {"seed": None},
        {"output": "leaves"},
        {"output": "leaf", "n_estimators": 129},
        {"n_estimators": 1000, "max_depth": 12, "method": "random", "classes": range(17)},
        {"thresholds": {"v0": [0.5, 0.2]}},
        {"thresholds": {"v0": [-1.0]}},
        {"thresholds": {"v0": []}},
        {"thresholds": {"v0": "0.5"}},
        {"thresholds": {"v0": [float("nan")]}},
        {"thresholds": {"v9": [0.5]}},
        {"thresholds": [0.5]},
        {"label": "v0"},
        {"label": 3},
        {"features": ["v0", "v0"]},
    ):
        with pytest.raises(InvalidParameterError):
            classifier(**wrong).fit(object())
    for missing in ({"bounds": None}, {"bounds": {"v0": (0, 1)}}, {"features": None}, {"features": []}):
        with pytest.raises(UnboundedSensitivityError):
            classifier(**missing).fit(object())
    with pytest.raises(UnboundedSensitivityError):
        TreeFeaturizer(classes=[0, 1], bounds={"v": (0, 1)}, domains={"v": [1]}, epsilon=1.0).declared_loss()
    with pytest.raises(InvalidDomainError):
        TreeFeaturizer(classes=[0, 1], domains={"v": range(5000)}, epsilon=1.0).declared_loss()
    with pytest.raises(InvalidDomainError):
        TreeFeaturizer(classes=[0, 1], domains=[1, 2], epsilon=1.0).declared_loss()
