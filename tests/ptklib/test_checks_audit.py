"""The audit: bounds hold as often as they say, honest trainers pass, trainers with half the noise do not."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ptklib import (
    AdaSSPRegressor,
    CountFeaturizer,
    CovarianceMatrix,
    HistoricalStatistics,
    PrivacyLoss,
    TreeFeaturizer,
    UserEmbeddings,
)
from ptklib.accounting import discrete_scale, gaussian_multiplier, renyi_curve
from ptklib.checks import audit, epsilon_lower_bound, examine, twin
from ptklib.checks.bounds import ApproximateTest, Bound, GaussianTest, PureTest, RenyiTest, Rule, choose_test  # type: ignore[attr-defined]
from ptklib.checks.rows import Column, Synthetic, neighbours
from ptklib.checks.rules import likely_rule
from ptklib.exceptions import InvalidParameterError

pytestmark = pytest.mark.long

PURE = PrivacyLoss(1.0, 0.0, {"name": "DiscreteLaplace", "scale": 1.0, "l1_sensitivity": 1, "shape": [1]})
SCALE = discrete_scale(gaussian_multiplier(2.0, 1e-3) * 2**15)
GAUSS = PrivacyLoss(
    2.0, 1e-3, {"name": "DiscreteGaussian", "scale": SCALE, "l2_sensitivity": 2**15, "shape": [1]}
)
MIXED = PrivacyLoss(
    1.5,
    1e-3,
    {
        "name": "Composed",
        "events": [{**PURE.event.to_json(), "scale": 2.0}, {**GAUSS.event.to_json(), "scale": 2 * SCALE}],
    },
)
MANY = PrivacyLoss(
    2.0,
    0.0,
    {"name": "DiscreteLaplace", "scale": 4000.0, "l1_sensitivity": 1000, "shape": [1], "count": 8},
)
LOOSE = PrivacyLoss(1.0, 1e-3, {"name": "EpsilonDelta", "epsilon": 1.0, "delta": 1e-3})

LOOSE_SUM = PrivacyLoss(2.0, 0.0, {"name": "EpsilonDelta", "epsilon": 2.0, "delta": 0.0})


def coins(n: int, random: np.random.Generator) -> Any:
    return random.random(n) < 0.5


def laplace_scores(inside: Any, random: np.random.Generator, scale: float = 1.0) -> Any:
    """Outputs of the epsilon-DP mechanism that loses most: the sign of Laplace noise around 0 or 1."""
    noisy = random.laplace(scale=scale, size=len(inside)) + inside
    return np.clip(noisy, 0, 1)


def gauss_scores(inside: Any, random: np.random.Generator, factor: float = 1.0) -> Any:
    return random.normal(scale=factor * SCALE / 2**15, size=len(inside)) + inside


def mixed_scores(inside: Any, random: np.random.Generator, factor: float = 1.0) -> Any:
    laplace, gauss = laplace_scores(inside, random, 2 * factor), gauss_scores(inside, random, 2 * factor)
    return laplace / factor + gauss * (2**15 / (2 * factor * SCALE)) ** 2


def many_scores(inside: Any, random: np.random.Generator, factor: float = 1.0) -> Any:
    """The log-likelihood ratio of eight numbers with a quarter of epsilon each."""
    distance = 0.25 / factor
    noise = random.laplace(size=(len(inside), 8)) + distance * inside[:, None]
    return (np.abs(noise) - np.abs(noise - distance)).sum(axis=1)


def pure_bound(scores: Any, inside: Any, rule: Rule) -> Bound:
    test = PureTest(1.0)
    return test.bound(test.strength(scores, inside, rule, 0.001))


def test_all_right_guesses_give_the_bound_of_clopper_and_pearson() -> None:
    scores, inside = np.array([1.0] * 60 + [-1.0] * 40), np.array([True] * 60 + [False] * 40)
    share = 0.001 ** (1 / 100)
    found = pure_bound(scores, inside, Rule(0.0, 0.0))
    assert found.epsilon == pytest.approx(math.log(share / (1 - share)))
    assert found.exceeds
    assert pure_bound(scores, inside, Rule(0.0, -math.inf)).epsilon < found.epsilon
    assert pure_bound(scores, ~inside, Rule(0.0, 0.0)).epsilon == 0.0


def test_nothing_guessed_is_nothing_proved() -> None:
    scores, inside = np.zeros(200), np.arange(200) % 2 == 0
    for loss in (PURE, MANY, GAUSS, MIXED, LOOSE):
        assert epsilon_lower_bound(scores, inside, loss).epsilon == 0.0
        assert epsilon_lower_bound(np.arange(200.0), inside, loss).epsilon < 0.5


def test_each_loss_has_its_test() -> None:
    kinds = [(PureTest, PURE), (GaussianTest, GAUSS), (RenyiTest, MIXED), (RenyiTest, MANY)]
    assert all(type(choose_test(loss)) is kind for kind, loss in [*kinds, (ApproximateTest, LOOSE)])
    two = {**MANY.event.to_json(), "scale": 1000.0, "count": 2}
    assert type(choose_test(PrivacyLoss(2.0, 0.0, two))) is PureTest


@pytest.mark.parametrize(
    "loss", [PURE, MANY, GAUSS, MIXED, LOOSE], ids=["pure", "many", "gaussian", "mixed", "approximate"]
)
def test_bounds_are_wrong_no_more_often_than_they_say(loss: PrivacyLoss) -> None:
    """Mechanisms that lose all they declare; a false alarm of this test has probability 1e-6."""
    random, wrong, n = np.random.default_rng(3), 0, 100
    for _ in range(n):
        inside = coins(600, random)
        if loss is GAUSS:
            scores = gauss_scores(inside, random)
        elif loss is MANY:
            scores = many_scores(inside, random)
        elif loss is MIXED:
            scores = mixed_scores(inside, random)
        else:
            scores = laplace_scores(inside, random)
        wrong += epsilon_lower_bound(scores, inside, loss, confidence=0.9).exceeds
    assert wrong <= stats.binom.ppf(1 - 1e-6, n, 0.1)


def test_bounds_come_near_what_is_lost() -> None:
    random = np.random.default_rng(5)
    inside = coins(60_000, random)
    assert 0.9 < epsilon_lower_bound(laplace_scores(inside, random), inside, PURE).epsilon <= 1.0
    assert 1.3 < epsilon_lower_bound(gauss_scores(inside, random), inside, GAUSS).epsilon <= 2.0
    assert 0.8 < epsilon_lower_bound(laplace_scores(inside, random), inside, LOOSE).epsilon <= 1.0


def test_half_the_noise_contradicts_a_loss() -> None:
    random = np.random.default_rng(6)
    inside = coins(6_000, random)
    assert epsilon_lower_bound(laplace_scores(inside, random, 0.5), inside, PURE).exceeds
    assert epsilon_lower_bound(gauss_scores(inside, random, 0.5), inside, GAUSS).exceeds
    assert epsilon_lower_bound(laplace_scores(inside, random, 0.5), inside, LOOSE).exceeds
    assert epsilon_lower_bound(many_scores(inside, random, 0.5), inside, MANY).exceeds
    inside = coins(20_000, random)
    assert epsilon_lower_bound(mixed_scores(inside, random, 0.5), inside, MIXED).exceeds


def test_half_the_noise_of_many_parts_is_no_loss_of_all_of_them_at_once() -> None:
    """What the sum of their epsilons would need many more trainings for."""
    random = np.random.default_rng(8)
    inside = coins(2_500, random)
    scores = many_scores(inside, random, 0.5)
    found = epsilon_lower_bound(scores, inside, MANY)
    assert 2.0 < found.epsilon <= 4.0
    assert not epsilon_lower_bound(scores, inside, LOOSE_SUM).exceeds


@pytest.mark.parametrize("c", [0.2, 0.5, 1.5, 2.0, 6.0])
def test_noise_divided_by_c_multiplies_a_curve_by_no_more_than_is_said(c: float) -> None:
    """By ``c**2`` at most where c is above 1, and by c at most where it is below."""
    for epsilon in np.geomspace(0.01, 6, 25):
        laplace = {"name": "DiscreteLaplace", "l1_sensitivity": 1000, "shape": [1]}
        chosen = {"name": "ExponentialMechanism", "sensitivity": 1000, "monotonic": True, "shape": [3]}
        for event in (laplace, chosen):
            before, after = (
                renyi_curve({**event, "scale": 1000 / (factor * epsilon)}, (1.1, 2.0, 8.0, 64.0))
                for factor in (1.0, c)
            )
            assert np.all(after <= before * max(c, c * c) * (1 + 1e-6) + 1e-12)


def test_guesses_are_chosen_from_coins_that_are_not_counted() -> None:
    """All trials of a rule may be right by chance where it is chosen; elsewhere half of them are."""
    random = np.random.default_rng(9)
    inside, noise = coins(4_000, random), random.normal(size=4_000)
    told = np.where(np.arange(4_000) < 800, np.where(inside, 3.0, -3.0) + noise, noise)
    assert epsilon_lower_bound(told, inside, PURE).epsilon < 0.3
    rule = likely_rule(told, told[:800], inside[:800])
    assert rule.below <= rule.above
    flipped = likely_rule(told, told[:800], ~inside[:800])
    assert (flipped.above, flipped.below) == (math.inf, -math.inf)


def counts(epsilon: float = 2.0, **parameters: Any) -> HistoricalStatistics:
    return HistoricalStatistics(domains={"k": range(2)}, statistics="count", epsilon=epsilon, **parameters)


def test_an_honest_trainer_is_consistent_and_its_twin_is_not() -> None:
    found = audit(counts(), runs=1_100, confidence=1 - 1e-8)  # at 99.9 % one bound of a thousand is wrong
    assert (found.verdict, found.epsilon, found.delta, found.runs) == ("consistent", 2.0, 0.0, 1_100)
    assert 0.3 < found.lower_bound <= 2.0
    claimed = counts().declared_loss()
    caught = audit(twin(counts()), runs=1_100, declared=claimed)
    assert (caught.verdict, caught.epsilon, caught.runs) == ("contradicted", 2.0, 2_200)
    assert 2.0 < caught.lower_bound <= 4.0


class WithoutNoise(CountFeaturizer):
    """Forgets the noise of one of its two features."""

    def _release(self, exact: Any, previous: Any) -> Any:
        release = super()._release(exact, previous)
        values = exact["a"].reshape(-1, 2)
        table = release.tables["a"]
        for i in range(2):
            table = table.set_column(1 + i, table.schema.field(1 + i), [values[:, i].astype(np.float64)])
        release.tables["a"] = table
        return release


def test_forgotten_noise_is_found_at_once() -> None:
    domains = {"a": range(3), "b": range(3)}
    faulty = WithoutNoise(classes=[0, 1], domains=domains, epsilon=1.0)
    found = audit(faulty, runs=200)
    assert (found.verdict, found.lower_bound > 1.0) == ("contradicted", True)


def test_a_twin_has_half_the_noise() -> None:
    assert twin(counts(0.5)).epsilon == 1.0
    gaussian = CovarianceMatrix(["a"], max_norm=1, epsilon=1.0, delta=1e-6)
    before, after = (
        e.declared_loss().event.to_json()["events"][2]["scale"] for e in (gaussian, twin(gaussian))
    )
    assert after == pytest.approx(before / 2, rel=1e-6)
    with pytest.raises(InvalidParameterError, match="lower the epsilon"):
        twin(counts(6.0))


def test_an_examination_adds_the_budget_at_which_an_audit_sees_most() -> None:
    own, visible = examine(counts(0.01), runs=100)
    assert (own.audit.epsilon, visible.audit.epsilon) == (0.01, 2.0)
    assert own.audit.verdict == "consistent"
    assert not own.sees_half_the_noise
    assert own.to_json()["twin_lower_bound"] == own.twin.lower_bound  # type: ignore[union-attr]
    (only,) = examine(counts(2.0), runs=100)
    assert only.audit.epsilon == 2.0
    assert examine(counts(9.0), runs=100)[0].twin is None


def test_parts_of_a_twin_keep_half_their_noise_or_more() -> None:
    boosted = TreeFeaturizer(
        label="y",
        label_bounds=(0, 1),
        bounds={"a": (0, 1)},
        n_estimators=2,
        max_depth=1,
        epsilon=1.0,
        delta=1e-3,
    )

    def scales(estimator: Any) -> Any:
        return np.array([part.scale for part, _ in estimator.declared_loss().event.leaves()])

    for divisor in (2.0, 3.0):
        shares = scales(twin(boosted, divisor)) / scales(boosted) * divisor
        assert 1.0 <= shares.min() < 1.001
        assert shares.max() < 1.5


def test_a_verdict_is_surer_than_a_reported_bound() -> None:
    claimed, faulty = counts().declared_loss(), twin(counts())
    seen = audit(faulty, runs=400, declared=claimed, confidence=0.5)
    assert seen.lower_bound > 2.0
    unsure = audit(faulty, runs=100, declared=claimed, confidence=0.5, false_alarm=1e-60)
    assert (unsure.verdict, unsure.confidence, unsure.runs) == ("consistent", 0.5, 100)


def test_a_label_may_be_called_y() -> None:
    regression = AdaSSPRegressor(
        ["a"], "y", bounds=(0, 1), max_norm=1, label_bounds=(0, 1), epsilon=3.0, delta=1e-3
    )
    pair = neighbours(Synthetic(regression))[0]
    assert (list(pair.unit.X), pair.unit.y) == (["a", "y"], None)
    assert audit(regression, runs=100).verdict == "consistent"


@pytest.mark.parametrize(
    "wrong",
    [
        {"runs": 99},
        {"false_alarm": 0.0},
        {"false_alarm": 0.3},
        {"runs": True},
        {"runs": 1e3},
        {"confidence": 1.0},
    ],
)
def test_an_audit_refuses_what_proves_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        audit(counts(), **wrong)


def test_neighbours_differ_in_the_rows_of_one_unit() -> None:
    estimator = counts(unit="rider", max_rows_per_unit=3)
    synthetic = Synthetic(estimator)
    pairs = {pair.name: pair for pair in neighbours(synthetic)}
    kinds = ("empty", "crowd", "opposite crowd")
    assert list(pairs) == [f"{kind}, {end}" for end in ("highest", "lowest") for kind in kinds]
    for name, pair in pairs.items():
        without, with_unit = pair.without.X, pair.with_unit.X
        assert (len(with_unit) - len(without), without.empty) == (3, name.startswith("empty"))
        own = 1 if name.endswith("highest") else 0
        assert set(pair.unit.X["k"]) == {own}
        crowd = {"empty": set(), "crowd": {own}, "opposite crowd": {1 - own}}
        assert set(without["k"]) == crowd[name.split(",")[0]]
        assert set(pair.unit.X["rider"]).isdisjoint(without["rider"])
        assert set(with_unit["rider"].value_counts()) == {3}


def test_a_crowd_does_not_hold_the_unit_that_is_added() -> None:
    synthetic = Synthetic(counts(unit="k", max_rows_per_unit=2))
    crowd = next(pair for pair in neighbours(synthetic) if pair.name == "crowd, highest")
    with_unit = crowd.with_unit.X["k"]
    assert set(crowd.without.X["k"]) == {0}
    assert list(with_unit[-2:]) == [1, 1]
    single = Synthetic(HistoricalStatistics(domains={"k": [7]}, statistics="count", epsilon=1.0, unit="k"))
    assert {pair.name for pair in neighbours(single)} == {"empty, highest", "empty, lowest"}


def test_a_heavy_row_is_added_to_a_light_one_of_its_user() -> None:
    factors = UserEmbeddings(
        "u", "i", "w", users=["p", "q"], items=[1, 2, 3], n_factors=1, max_rows_per_user=2, bounds=(0, 4),
        guarantee="record", rounds=1, epsilon=3.0, delta=1e-3,
    )  # fmt: skip
    pairs = {pair.name: pair for pair in neighbours(Synthetic(factors))}
    pair = pairs["another row of its user"]
    assert pair.with_unit.X.to_numpy().tolist() == [["q", 1, 0.002], ["q", 3, 4.0]]
    assert "another row of its user" not in {pair.name for pair in neighbours(Synthetic(counts()))}


def test_columns_come_from_declarations() -> None:
    estimator = CountFeaturizer(
        ["a", "b"], "y", classes=("no", "yes"), domains={"a": ["u", "v"]}, hash_buckets=4, epsilon=1.0
    )
    columns = Synthetic(estimator).columns
    assert (columns["a"].values, columns["y"].values) == (("u", "v"), ("no", "yes"))
    assert columns["b"].values[:2] == ("v0", "v1")
    assert Column.of((0.0, 2.5)) == Column((0.0, 2.5), numeric=True)
    assert not Column.of([0, 1]).numeric
    for wrong in ("ab", [], 3):
        with pytest.raises(InvalidParameterError):
            Column.of(wrong)
