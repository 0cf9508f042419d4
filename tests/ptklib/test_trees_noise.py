"""What trees draw: sensitivities, budget and the reading of noisy leaves."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ptklib.accounting import epsilon_of, gaussian_epsilon
from ptklib.arrays import Ints
from ptklib.domains import Domain
from ptklib.inputs import InputTable
from ptklib.privacy import Bounds
from ptklib.trees import boosting, forest, greedy, structure
from ptklib.trees.binning import Feature, encode, pack, unpack
from ptklib.trees.candidates import Grids
from ptklib.trees.objectives import Logistic, Objective, Softmax, Squared, objective_of
from ptklib.trees.plans import Choice, Measure, RoundsPlan
from ptklib.trees.rounds import Settings, boosting_plan
from ptklib.trees.structure import Partition, grid_tree
from ptklib.trees.targets import UNITS, Target
from ptklib.trees.values import node_means, node_sums

BINS = [4, 9, 1]
TARGETS = {
    "two classes": Target.of("y", [0, 1], None),
    "five classes": Target.of("y", range(5), None),
    "a number": Target.of("y", None, (0, 1)),
}
every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def sample(target: Target, n: int, seed: int) -> tuple[npt.NDArray[np.uint16], Ints]:
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(0, bins + 1, n) for bins in BINS]).astype(np.uint16)
    if target.n_classes:
        return codes, random.integers(0, target.n_classes, n)
    return codes, random.integers(-UNITS, UNITS + 1, n)


class Recorder:
    """Stands in for the draws of a plan: outputs are fixed, inputs kept with the limits that were declared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, npt.NDArray[Any]]] = []
        monkeypatch.setattr(RoundsPlan, "add_noise", self._add_noise)
        monkeypatch.setattr(RoundsPlan, "select", self._select)

    def _add_noise(self, name: str, exact: Ints) -> Ints:
        self.seen.append((name, exact.copy()))
        return (np.arange(1, exact.size + 1, dtype=np.int64) * 7919) % UNITS * 40

    def _select(self, name: str, scores: Ints) -> int:
        self.seen.append((name, scores.copy()))
        return len(self.seen) % len(scores)


def released(
    target: Target, codes: Any, label: Any, method: str, recorder: Recorder, plan: RoundsPlan
) -> list[tuple[str, npt.NDArray[Any]]]:
    recorder.seen = []
    loss = objective_of(target)
    if method == "greedy":
        greedy.grown_trees(codes, label, BINS, loss, greedy.Growth(3, 2, 6, 0), plan)
    else:
        settings = Settings(3, 3, 0.5, 7, 0)
        found = boosting.boost(codes, label, BINS, loss, settings, plan)
        if method == "continued":
            recorder.seen = []
            boosting.boost_again(codes, label, BINS, found, loss, settings, plan)
    return recorder.seen


@every_target
@pytest.mark.parametrize("method", ["boosting", "continued", "greedy"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_one_row_moves_no_draw_by_more_than_its_declared_sensitivity(
    target: Target, method: str, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With outputs fixed, both runs choose the same trees and start from the same scores."""
    recorder, loss = Recorder(monkeypatch), objective_of(target)
    if method == "greedy":
        plan = greedy.greedy_plan(
            forest.Leaves(target, 2), loss, greedy.Growth(3, 2, 6, 0), epsilon=1.0, delta=delta
        )
    else:
        plan = boosting_plan(loss, Settings(3, 3, 0.5, 7, 0), epsilon=1.0, delta=delta)
    parts = {part.name: part for part in plan.parts}
    codes, label = sample(target, 60, seed=1)
    before = released(target, codes, label, method, recorder, plan)
    extremes = [0, target.n_classes - 1] if target.n_classes else [-UNITS, UNITS]
    for place in range(12):
        more, others = sample(target, 1, seed=place + 2)
        if place < 2:
            others[:] = extremes[place]
        wider = np.concatenate([codes, more], axis=1), np.concatenate([label, others])
        after = released(target, *wider, method, recorder, plan)
        assert [name for name, _ in before] == [name for name, _ in after]
        for (name, exact), (_, moved) in zip(before, after, strict=True):
            gap, part = np.abs(moved - exact).astype(object), parts[name]
            if isinstance(part, Choice):
                assert gap.max() <= part.sensitivity, name
            else:
                assert gap.sum() <= part.l1, name
                assert (gap**2).sum() <= part.l2**2, name


@every_target
def test_draws_are_as_many_and_as_long_as_declared(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    plan = boosting_plan(objective_of(target), Settings(3, 3, 0.5, 7, 0), epsilon=1.0, delta=0)
    seen = released(target, *sample(target, 40, 0), "boosting", recorder, plan)
    for part in plan.parts:
        sizes = [exact.size for name, exact in seen if name == part.name]
        assert sizes == [part.size if isinstance(part, Measure) else part.n_candidates] * part.count


@every_target
@pytest.mark.parametrize("method", ["boosting", "greedy"])
def test_all_draws_together_cost_the_declared_epsilon(target: Target, method: str) -> None:
    def plan(delta: float) -> RoundsPlan:
        if method == "boosting":
            return boosting_plan(objective_of(target), Settings(20, 5, 0.5, 50, 0), 0.7, delta, factor=3)
        growth = greedy.Growth(20, 5, 50, 0)
        return greedy.greedy_plan(
            forest.Leaves(target, 5), objective_of(target), growth, 0.7, delta, factor=3
        )

    pure = plan(0).loss
    assert 0.699 < epsilon_of([pure], 0.0) <= 0.7 * (1 + 1e-9)
    gaussian = plan(1e-6)
    rho = 0.0
    for event, part in zip(gaussian.loss.event.to_json()["events"], gaussian.parts, strict=True):
        if isinstance(part, Choice):
            each = (2 * event["sensitivity"] / event["scale"]) ** 2 / 8
        else:
            each = (event["l2_sensitivity"] / event["scale"]) ** 2 / 2
        rho += each * part.count
    assert 0.69 < gaussian_epsilon((2 * rho) ** -0.5, 1e-6) <= 0.7
    assert epsilon_of([gaussian.loss], 1e-6) <= 0.7 * (1 + 1e-9)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3), Softmax(16), Squared()])
def test_no_row_pulls_harder_than_declared(loss: Objective) -> None:
    random = np.random.default_rng(0)
    n = 4000
    scores = random.choice([-loss.limit, loss.limit, 0, 7, -301], (loss.n_scores, n))
    label = random.integers(-UNITS, UNITS + 1, n) if loss.adaptive else random.integers(0, loss.n_starts, n)
    for radius in (UNITS, 999, 1):
        steps, weights = (part.astype(np.float64) for part in loss.pull(scores, label, radius))
        assert np.abs(steps).sum(axis=0).max() <= loss.step_l1
        assert np.linalg.norm(steps, axis=0).max() <= loss.step_l2
        assert weights.min() >= 0
        assert weights.sum(axis=0).max() <= loss.weight_l1
        assert np.linalg.norm(weights, axis=0).max() <= loss.weight_l2


def test_steps_are_gradients_of_the_log_loss() -> None:
    scores = np.asarray([[-2048, 0, 500, 8192]])
    chance = 1 / (1 + np.exp(-scores[0] / 1024))
    for label in (0, 1):
        steps, weights = Logistic().pull(scores, np.full(4, label), UNITS)
        assert steps[0] / UNITS == pytest.approx(label - chance, abs=1e-4)
        assert weights[0] / UNITS == pytest.approx(chance * (1 - chance), abs=1e-4)
    three = np.asarray([[0, 512], [1024, -3000], [-700, 100]])
    odds = np.exp(three / 1024)
    chance = odds / odds.sum(axis=0)
    steps, weights = Softmax(3).pull(three, np.asarray([2, 0]), UNITS)
    assert steps / UNITS == pytest.approx(np.asarray([[0, 1], [0, 0], [1, 0]]) - chance, abs=1e-4)
    assert weights / UNITS == pytest.approx(chance * (1 - chance), abs=1e-4)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(5), Squared()])
def test_noise_alone_starts_scores_in_the_middle(loss: Objective) -> None:
    random, std = np.random.default_rng(4), 1e6
    noise = random.laplace(0, std / 2**0.5, (4000, loss.n_starts))
    starts = np.stack([loss.start_score(noisy, std) for noisy in noise]) / loss.score_unit
    assert np.mean((starts != 0).any(axis=1)) < 0.03
    assert np.mean(starts**2) < 0.01


@pytest.mark.parametrize("rows", [3.0, 1000.0])
def test_sums_start_scores_where_rows_are_as_far_as_they_stand_out_of_the_noise(rows: float) -> None:
    """With three deviations of noise in all, scores start in the middle; with a thousand, where rows are."""
    counts = np.asarray([0.2, 0.5, 0.3]) * rows
    exact = np.log([0.2, 0.5, 0.3])
    three = Softmax(3).start_score(counts, 1.0) / Softmax.score_unit
    two = Logistic().start_score(counts[:2], 1.0) / Logistic.score_unit
    mean = Squared().start_score(np.asarray([rows, -0.4 * rows]), 1.0) / UNITS
    if rows < 10:
        assert not three.any()
        assert not two.any()
        assert not mean.any()
    else:
        assert three == pytest.approx(exact - exact.mean(), abs=2e-3)
        assert two == pytest.approx([np.log(2.5)], abs=2e-3)
        assert mean == pytest.approx([-0.4], abs=2e-3)


def test_a_smaller_budget_spends_a_larger_part_on_what_all_rows_have_in_common() -> None:
    def share(epsilon: float) -> float:
        plan = boosting_plan(Logistic(), Settings(4, 3, 0.5, 7, 0), epsilon, 0)
        return float(plan.epsilons["start"]) / epsilon

    parts = [share(epsilon) for epsilon in (10.0, 1.0, 0.1, 0.01, 1e-4)]
    assert parts == pytest.approx(
        [0.01 / 0.99, 0.01 / 0.99, 0.0316 / 1.0116, 0.1 / 1.08, 0.1 / 1.08], rel=2e-3
    )


def test_a_row_pulls_the_same_whatever_rows_stand_beside_it() -> None:
    random = np.random.default_rng(3)
    scores, label = random.integers(-8000, 8000, (5, 1001)), random.integers(0, 5, 1001)
    whole = Softmax(5).pull(scores, label, UNITS)
    for cut in (1, 17, 500):
        parts = [Softmax(5).pull(scores[:, s], label[s], UNITS) for s in (slice(cut), slice(cut, None))]
        for i in range(2):
            assert np.array_equal(whole[i], np.concatenate([part[i] for part in parts], axis=1))


def test_codes_follow_public_bins_row_by_row() -> None:
    even = Feature.between("v", Bounds(-1, 1), 4)
    values = np.asarray([-9, -1, -0.51, -0.5, 0.0, 0.49, 0.5, 1.0, 9, np.inf, -np.inf, np.nan])
    assert even.codes(InputTable(values[:, None], ["v"])).tolist() == [1, 1, 1, 2, 3, 3, 4, 4, 4, 4, 1, 0]
    cut = Feature.cut_at("v", Bounds(-1, 1), np.asarray([0.2]))
    assert cut.codes(InputTable(values[:, None], ["v"])).tolist() == [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 0]
    named = Feature.of_domain("v", Domain.of("v", ["b", "a"]))
    words = np.asarray([["a"], ["b"], ["c"], [None], [3]], dtype=object)
    assert named.codes(InputTable(words, ["v"])).tolist() == [2, 1, 0, 0, 0]
    together = encode([even, cut], InputTable(values[:, None], ["v"]))
    assert together.shape == (2, 12)


@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 20])
def test_rows_survive_packing(n_features: int) -> None:
    random = np.random.default_rng(n_features)
    codes = random.integers(0, 2**16, (n_features, 30)).astype(np.uint16)
    label = random.integers(-(2**40), 2**40, 30)
    again = unpack(pack(codes, label), n_features)
    assert np.array_equal(again[0], codes)
    assert np.array_equal(again[1], label)
    assert len(pack(codes[:, :0], label[:0])) == 0


@pytest.mark.parametrize("table_max", [1, 60, 2**16])
def test_leaves_are_the_cells_of_a_grid_however_they_are_looked_up(
    table_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structure, "_TABLE_MAX", table_max)
    random = np.random.default_rng(5)
    codes, _ = sample(TARGETS["a number"], 300, 6)
    parts = [
        Partition.random(random, feature, BINS[feature], depth, warp)
        for feature, depth, warp in ((1, 3, 1.0), (0, 2, 4.0), (2, 1, 1.0))
    ]
    expected = np.zeros(300, dtype=np.int64)
    for part in parts:
        expected = expected * 2**part.depth + part.lookup[codes[part.feature]]
    assert np.array_equal(grid_tree(parts).leaves(0, codes, BINS), expected)
    for part in parts:
        assert (np.diff(part.lookup.astype(int)) >= 0).all()
        for level, split in enumerate(part.splits):
            assert len(split) == 2**level
            assert ((split >= 1) & (split <= BINS[part.feature])).all()


def test_sums_of_candidates_are_those_of_their_trees() -> None:
    random = np.random.default_rng(7)
    codes, _ = sample(TARGETS["a number"], 40_000, 8)
    units = random.integers(-UNITS, UNITS, (2, 40_000))
    grids = Grids.random(random, BINS, 5, 12)
    assert len(grids.members) == 12
    sums = grids.sums(codes, units)
    for place in range(12):
        leaves = grids.tree(place).leaves(0, codes, BINS)
        for score in range(2):
            exact = np.zeros(32, dtype=np.int64)
            np.add.at(exact, leaves, units[score])
            assert np.array_equal(sums[place, :, score], exact)


def test_small_sets_of_features_are_all_candidates() -> None:
    grids = Grids.random(np.random.default_rng(0), [8] * 4, 6, 40)
    looked = {frozenset(grids.partitions[p].feature for p in member) for member in grids.members}
    assert sum(len(each) == 1 for each in looked) == 4
    assert sum(len(each) == 2 for each in looked) == 6
    assert len(grids.members) == 40


def test_without_noise_nodes_have_the_means_of_their_rows() -> None:
    random = np.random.default_rng(9)
    sizes = random.uniform(1e6, 2e6, (8, 1))
    means = random.uniform(-1, 1, (8, 2))
    found = node_means(means * sizes, sizes, 1e-9, 1e-9, np.full(2, 1e-9), np.zeros(2), 1e12)
    assert found[7:] == pytest.approx(means, rel=1e-4)
    whole = (means * sizes).sum(axis=0) / sizes.sum()
    assert found[0] == pytest.approx(whole, rel=1e-4)
    flat = sizes[:, 0]
    levels = [[flat.sum()], flat.reshape(2, 4).sum(axis=1), flat.reshape(4, 2).sum(axis=1), flat]
    assert node_sums(sizes)[:, 0] == pytest.approx(np.concatenate(levels))


def test_noise_alone_leaves_nodes_at_the_start() -> None:
    random = np.random.default_rng(10)
    start = np.asarray([0.3])
    far = [
        np.abs(
            node_means(
                random.laplace(0, 70, (32, 1)),
                random.laplace(0, 20, (32, 1)),
                2 * 70**2,
                2 * 20**2,
                np.ones(1),
                start,
                4.0,
            )
            - start
        ).max()
        for _ in range(400)
    ]
    assert np.quantile(far, 0.9) <= 1e-9


def test_a_small_node_leans_on_its_parent() -> None:
    sizes = np.asarray([[1000.0], [1000.0], [1000.0], [3.0]])
    sums = sizes * np.asarray([[0.8], [-0.8], [0.8], [-0.8]])
    found = node_means(sums, sizes, 50.0, 50.0, np.ones(1), np.zeros(1), 4.0)[3:, 0]
    assert found[:3] == pytest.approx([0.8, -0.8, 0.8], abs=0.1)
    assert found[3] > 0.5
