"""Trees of small tables: counted where a released number says few rows, at the price of boosting."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from ptklib import DPEstimator, ReleasedState, TreeFeaturizer
from ptklib.accounting import epsilon_of
from ptklib.arrays import Floats, Ints
from ptklib.checks.event_diff import differences
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms.recording import recorded_draws
from ptklib.trees import boosting
from ptklib.trees.objectives import objective_of
from ptklib.trees.plans import Measure, RoundsPlan
from ptklib.trees.rounds import Settings, boosting_plan
from ptklib.trees.targets import Target

BINS = [4, 9, 1]
SETTINGS = Settings(18, 4, 0.5, 5, 0, n_counted=12)
UNEVEN = Settings(7, 4, 0.5, 5, 0, n_counted=7)
NAMES = ["a", "b", "c"]


def featurizer(**keywords: Any) -> TreeFeaturizer:
    defaults = {"features": NAMES, "classes": [0, 1], "bounds": (-1, 1), "epsilon": 1.0}
    return TreeFeaturizer(**{**defaults, **keywords})


def step_task(n: int, seed: int = 0) -> tuple[Floats, Ints]:
    """Return rows whose first column says the label nine times of ten."""
    random = np.random.default_rng(seed)
    rows = random.uniform(-1, 1, (n, 3))
    return rows, ((rows[:, 0] > 0) ^ (random.random(n) < 0.1)).astype(np.int64)


def small_tables_auc(load: Any, epsilon: float, n_splits: int) -> float:
    """Return the median AUC of the default on splits of a table of scikit-learn."""
    rows, label = load(return_X_y=True)
    names = [f"v{i}" for i in range(rows.shape[1])]
    ends = zip(names, rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), strict=True)
    bounds = {name: (low, max(high, low + 1.0)) for name, low, high in ends}
    found = []
    for seed in range(n_splits):
        train, test, y, truth = train_test_split(
            rows, label, test_size=0.3, random_state=seed, stratify=label
        )
        model = TreeFeaturizer(names, classes=np.unique(label).tolist(), bounds=bounds, epsilon=epsilon)
        chance = model.fit(train, y).predict_proba(test)
        found.append(
            roc_auc_score(truth, chance[:, 1] if chance.shape[1] == 2 else chance, multi_class="ovr")
        )
    return float(np.median(found))


@pytest.mark.parametrize(
    ("load", "epsilon", "least"),
    [
        (load_breast_cancer, 0.5, 0.93),
        (load_breast_cancer, 1.0, 0.95),
        (load_wine, 0.5, 0.78),
        (load_wine, 1.0, 0.9),
        (load_digits, 0.5, 0.78),
    ],
)
def test_the_default_learns_from_a_few_hundred_rows(load: Any, epsilon: float, least: float) -> None:
    """Boosting gives .50 for each. The least are at least five standard deviations below the mean of repetitions.

    False alarm about once in 10**6 runs.
    """
    assert small_tables_auc(load, epsilon, 7) >= least


def test_few_rows_are_counted_and_many_are_boosted() -> None:
    few, many = featurizer().fit(*step_task(300)), featurizer().fit(*step_task(30_000))
    assert few.chosen_.method == "counted"
    assert few.chosen_.n_estimators in (6, 12)
    assert few.chosen_.max_depth == 3
    assert many.chosen_ == ("boosting", 24, 6)
    assert featurizer().fit(*step_task(30_000)).declared_loss() == featurizer().declared_loss()
    other, truth = step_task(5000, seed=1)
    assert roc_auc_score(truth, many.predict_proba(other)[:, 1]) > 0.85
    assert featurizer(method="random").fit(*step_task(300)).chosen_ == ("random", 60, 6)


@pytest.mark.parametrize(("epsilon", "n"), [(1.0, 7_000), (0.5, 14_000)])
def test_trees_are_counted_below_eight_thousand_rows_by_epsilon(epsilon: float, n: int) -> None:
    """Measured (docs/guide/trees.md); the noise of the released number of rows is far below a thousand."""
    assert featurizer(epsilon=epsilon).fit(*step_task(n)).chosen_.method == "counted"
    assert featurizer(epsilon=epsilon).fit(*step_task(n + n // 4)).chosen_.method == "boosting"


def test_numbers_and_many_classes_are_not_counted_and_the_default_of_before_is_as_it_was() -> None:
    number = {"classes": None, "label_bounds": (0, 1)}
    assert featurizer(**number).declared_loss() == featurizer(**number, method="boosting").declared_loss()
    many = {"classes": range(17)}
    assert featurizer(**many).declared_loss() == featurizer(**many, method="random").declared_loss()
    assert featurizer(method="auto").declared_loss() == featurizer(method="boosting").declared_loss()
    assert featurizer(method="auto", **many).declared_loss() == featurizer(**many).declared_loss()
    with pytest.raises(InvalidParameterError, match="take 'random'"):
        featurizer(method="boosting", **many).declared_loss()


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("n", [0, 1, 200, 30_000])
@pytest.mark.parametrize("depth", [1, 6])
def test_both_ways_draw_what_was_declared(delta: float, n: int, depth: int) -> None:
    model = featurizer(delta=delta, max_depth=depth)
    with recorded_draws() as draws:
        model.fit(*step_task(n))
    assert differences(model.declared_loss().event, draws) == []
    with recorded_draws() as draws:
        model.fit(*step_task(n), previous_state=model.to_state())
    assert differences(model.declared_loss().event, draws) == []
    assert np.isfinite(model.transform(step_task(5)[0])).all()
    assert epsilon_of([model.declared_loss()], delta) <= 1.0 * (1 + 1e-9)


class Fixed:
    """Stands in for the draws of a plan: outputs are fixed, what enters the pool is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
        self.pool: list[Ints] = []
        self.rows = rows
        monkeypatch.setattr(RoundsPlan, "add_noise", self._add_noise)
        monkeypatch.setattr(RoundsPlan, "select", lambda plan, name, scores: len(self.pool) % len(scores))

    def _add_noise(self, name: str, exact: Ints) -> Ints:
        if name == "start":
            return np.full(exact.size, self.rows // exact.size, dtype=np.int64)
        assert name == "pool"
        self.pool.append(exact.copy())
        return (np.arange(1, exact.size + 1, dtype=np.int64) * 7919) % 2**16 * 2**12


@pytest.mark.parametrize("target", [Target.of("y", [0, 1], None), Target.of("y", range(5), None)])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("rows", [0, 40_000, 10**7])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("settings", [SETTINGS, UNEVEN])
def test_one_row_adds_no_more_to_the_whole_pool_than_declared(
    target: Target,
    delta: float,
    rows: int,
    again: bool,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over all draws together, and most of it is used. With outputs fixed, both runs decide alike."""
    loss, fixed = objective_of(target), Fixed(monkeypatch, rows)
    plan = boosting_plan(loss, settings, epsilon=0.01, delta=delta)
    part = next(part for part in plan.parts if part.name == "pool")
    assert isinstance(part, Measure)
    random = np.random.default_rng(0)

    def pool(codes: Any, label: Any, before: Any) -> list[Ints]:
        fixed.pool = []
        if again:
            boosting.boost_again(codes, label, BINS, before, loss, settings, plan)
        else:
            boosting.boost(codes, label, BINS, loss, settings, plan)
        return fixed.pool

    def sample(n: int) -> tuple[npt.NDArray[np.uint16], Ints]:
        codes = np.stack([random.integers(0, bins + 1, n) for bins in BINS]).astype(np.uint16)
        return codes, random.integers(0, target.n_classes, n)

    codes, label = sample(40)
    first = boosting.boost(codes, label, BINS, loss, settings, plan)
    one, most = pool(codes, label, first), 0.0
    assert sum(draw.size for draw in one) == part.size * part.count
    for _ in range(10):
        more, others = sample(1)
        wider = np.concatenate([codes, more], axis=1), np.concatenate([label, others])
        gaps = [np.abs(b - a).astype(object) for a, b in zip(one, pool(*wider, first), strict=True)]
        if delta:
            assert part.count == 1
            norm = float(sum((gap**2).sum() for gap in gaps)) ** 0.5 / part.l2
        else:
            norms = [int(gap.sum()) for gap in gaps]
            assert max(norms) <= part.l1
            norm = sum(norms) / (part.l1 * part.count)
        assert norm <= 1
        most = max(most, norm)
    if rows == 0 and not again:
        assert most > 0.95  # nothing is left of the budget where rows are counted


def test_as_many_equal_parts_are_declared_as_draws_can_be_grouped_to() -> None:
    def parts(**keywords: Any) -> tuple[int, int]:
        pool = featurizer(**keywords).declared_loss().event.to_json()["events"][-1]
        return pool.get("count", 1), pool.get("l1_sensitivity", 0)

    assert parts() == (6, 2**24 * 24 // 6)
    assert parts(n_estimators=9) == (3, 2**24 * 9 // 3)
    assert parts(n_estimators=7) == (1, 2**24 * 7)
    assert parts(delta=1e-6) == (1, 0)


def test_states_from_before_load_and_predict_the_same_and_go_on() -> None:
    """The default was ``method="auto"`` then."""
    other = step_task(50, seed=2)[0]
    boosted = featurizer(method="boosting", epsilon=3.0).fit(*step_task(3000))
    state = boosted.to_state()
    old = ReleasedState(state.tables, {**state.meta, "params": {**state.meta["params"], "method": "auto"}})
    read = DPEstimator.from_state(old)
    assert np.array_equal(read.transform(other), boosted.transform(other))
    assert read.chosen_.method == "boosting"
    for n, method in ((200, "adaptive"), (30_000, "adaptive"), (200, "auto")):
        model = featurizer(method=method).fit(*step_task(n), previous_state=old)
        for name in ("feature", "threshold"):
            assert model.tables_["trees"].column(name).equals(old.tables["trees"].column(name))


@pytest.mark.parametrize("n", [2000, 30_000])
@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_counted_trees_learn_from_new_rows(n: int, classes: list[int]) -> None:
    rows, label = step_task(2000)
    model = featurizer(classes=classes).fit(rows, label)
    assert model.chosen_.method == "counted"
    other, truth = step_task(5000, seed=1)
    before = roc_auc_score(truth, model.predict_proba(other)[:, 1])
    assert before > 0.8
    rows, label = step_task(n, seed=3)
    for _ in range(3):
        model = featurizer(classes=classes).fit(rows, 1 - label, previous_state=model.to_state())
    assert roc_auc_score(truth, model.predict_proba(other)[:, 1]) < before - 0.15


def test_an_empty_table_says_nearly_nothing() -> None:
    rows = step_task(500)[0]
    spread = [
        np.ptp(featurizer().fit(np.zeros((0, 3)), np.zeros(0)).predict_proba(rows)[:, 1]) for _ in range(9)
    ]
    assert np.median(spread) < 0.1


def test_below_the_counted_levels_nothing_changes_and_all_rows_go_right() -> None:
    model = featurizer().fit(*step_task(300))
    table = model.tables_["trees"].to_pandas().set_index(["tree", "node"])
    for tree in range(model.chosen_.n_estimators):
        for node in range(7, 63):
            parent, left, right = (table.loc[(tree, i)] for i in (node, 2 * node + 1, 2 * node + 2))
            assert parent["value"] == left["value"] == right["value"]
            assert (left["weight"], right["weight"]) == (0, parent["weight"])
            assert parent["threshold"] == -1
    silent = table.loc[model.chosen_.n_estimators :]
    assert not silent["value"].any()
    assert not silent["weight"].any()
