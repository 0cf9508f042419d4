"""Formulas for the error of a family, held against simulation; profiles from them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import (
    AdaSSPRegressor,
    CountFeaturizer,
    CovarianceMatrix,
    DPEstimator,
    HistoricalStatistics,
    bucket_of,
)
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.profiling import (
    Facts,
    Found,
    Method,
    NeedsMore,
    Profile,
    expected_error,
    facts_of,
    formula_profile,
)

GROUPS = 48
TRUTH = 400_000
COVARIANCE = np.array([[0.04, 0.02, 0.0], [0.02, 0.05, 0.01], [0.0, 0.01, 0.02]])


def trips(n: int, seed: int) -> pd.DataFrame:
    """Return speeds at either bound, whose spread is the worst, and speeds of spread 0.2 half widths."""
    random = np.random.default_rng(seed)
    group = random.integers(0, GROUPS, n)
    usual = np.clip(30 + 8 * np.sin(group) + random.normal(0, 6, n), 0, 60)
    wide = np.where(random.random(n) < 0.5 + 0.3 * np.sin(group), 60.0, 0.0)
    return pd.DataFrame({"group": group, "wide": wide, "usual": usual, "long": wide > 30})


def points(n: int, seed: int) -> pd.DataFrame:
    rows = np.random.default_rng(seed).normal(size=(n, 3)) @ np.linalg.cholesky(COVARIANCE).T
    return pd.DataFrame(np.clip(rows, -1, 1), columns=list("abc"))


def turned(n: int, seed: int) -> pd.DataFrame:
    rows = np.random.default_rng(seed).normal(size=(n, len(EIGHT))) @ TURNED
    return pd.DataFrame(np.clip(rows, -1, 1), columns=list(EIGHT))


def statistics(value: str | None, asked: Any, epsilon: float, **more: Any) -> HistoricalStatistics:
    bounds = None if value is None else {value: (0, 60)}
    domains = {"group": range(GROUPS)}
    return HistoricalStatistics(domains=domains, bounds=bounds, statistics=asked, epsilon=epsilon, **more)


def simulated(estimator: Any, n: int, data: Any = trips, runs: int = 8) -> float:
    """Return the mean error of releases of `n` rows from a large set."""
    truth = estimator.partial_statistics(data(TRUTH, 99))
    return float(np.mean([estimator.fit(data(n, seed)).error_from_true_value(truth) for seed in range(runs)]))


USUAL = Facts(spread=0.2, mean_reach=0.27)
EIGHT = "abcdefgh"
SPECTRUM = np.array([0.08, 0.05, 0.03, 0.02, 0.01, 0.006, 0.004, 0.002])
TURNED = np.sqrt(SPECTRUM)[:, None] * np.linalg.qr(np.random.default_rng(5).normal(size=(8, 8)))[0]
TURNED_SHAPE = Facts(total_variance=SPECTRUM.sum(), frobenius=float(np.linalg.norm(SPECTRUM)), mean_norm=0.0)
CLICKS: dict[str, Any] = {"label": "long", "classes": [False, True]}
HASHED = Facts(shares={"group": np.bincount(bucket_of(range(GROUPS), 64), minlength=64).tolist()})
SHAPE = Facts(
    total_variance=float(np.trace(COVARIANCE)), frobenius=float(np.linalg.norm(COVARIANCE)), mean_norm=0.0
)
# Estimator, rows, facts, how many times too large the formula may be.
CASES: list[tuple[Any, int, Facts | None, float, Any]] = [
    (statistics(None, "count", 0.2), 8_000, None, 2.0, trips),
    (statistics(None, "count", 1.0), 40_000, None, 1.5, trips),
    (statistics("wide", ("count", "mean"), 0.2), 8_000, None, 2.2, trips),
    (statistics("wide", ("count", "mean"), 1.0), 40_000, None, 1.5, trips),
    (statistics("usual", "sum", 0.2), 20_000, USUAL, 2.0, trips),
    (statistics("usual", ("count", "mean"), 1.0), 40_000, USUAL, 1.5, trips),
    (statistics("usual", ("count", "mean"), 0.5, delta=1e-4, max_rows_per_unit=3), 40_000, USUAL, 2.0, trips),
    (statistics("wide", "histogram", 0.5, bins=6), 40_000, None, 4.5, trips),
    (statistics("wide", "variance", 1.0), 40_000, None, 5.0, trips),
    (CountFeaturizer(**CLICKS, domains={"group": range(GROUPS)}, epsilon=0.2), 8_000, None, 2.5, trips),
    (CountFeaturizer(**CLICKS, hash_buckets={"group": 64}, epsilon=1.0), 40_000, HASHED, 1.6, trips),
    (
        CovarianceMatrix(bounds=dict.fromkeys("abc", (-1, 1)), epsilon=0.5, delta=1e-6),
        5_000,
        SHAPE,
        2.8,
        points,
    ),
    (
        CovarianceMatrix(bounds=dict.fromkeys(EIGHT, (-1, 1)), epsilon=0.2, delta=1e-6),
        60_000,
        TURNED_SHAPE,
        2.5,
        turned,
    ),
    (CovarianceMatrix(list("abc"), max_norm=0.8, epsilon=1.0, delta=1e-6), 20_000, SHAPE, 3.0, points),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_formula_is_an_upper_estimate_within_its_factor(case: int) -> None:
    estimator, n, facts, factor, data = CASES[case]
    formula, found = expected_error(estimator, n, facts), simulated(estimator, n, data)
    assert 0.8 * found <= formula <= factor * found


@pytest.mark.parametrize("case", range(len(CASES)))
def test_more_rows_or_more_budget_never_make_a_formula_larger(case: int) -> None:
    estimator, _, facts, _, _ = CASES[case]
    sizes = [expected_error(estimator, n, facts) for n in np.unique(np.geomspace(1, 1e9, 40).astype(int))]
    assert all(b <= a for a, b in pairwise(sizes))
    assert 0 < sizes[-1] < 0.01
    assert sizes[0] <= 1.0
    spec = estimator.to_spec()
    richer = type(estimator)(**{**spec["params"], "epsilon": 4.0})
    assert expected_error(richer, 3_000, facts) <= expected_error(estimator, 3_000, facts)


@pytest.mark.parametrize("case", [0, 2, 4, 7, 9])
def test_equal_shares_and_unknown_facts_are_the_worst(case: int) -> None:
    estimator, n, _, _, _ = CASES[case]
    worst, random = expected_error(estimator, n), np.random.default_rng(1)
    name = "statistics" if isinstance(estimator, HistoricalStatistics) else "group"
    for power in (0.5, 2.0, 8.0):
        shares = {name: tuple(random.random(GROUPS) ** power)}
        assert expected_error(estimator, n, Facts(shares=shares, spread=0.5, mean_reach=0.5)) <= worst


def test_a_covariance_of_unknown_shape_is_assumed_at_its_worst() -> None:
    estimator = CASES[-3][0]
    vague = Facts(total_variance=SHAPE.total_variance)
    assert expected_error(estimator, 5_000, SHAPE) < expected_error(estimator, 5_000, vague)


def test_released_states_tell_facts_that_are_paid_for() -> None:
    estimator = CASES[-3][0].fit(points(50_000, 1))
    told = facts_of(estimator.to_state())
    assert told.total_variance == pytest.approx(SHAPE.total_variance, rel=0.2)
    assert told.frobenius == pytest.approx(SHAPE.frobenius, rel=0.2)
    counted = facts_of(
        statistics(None, "count", 8.0).fit(trips(5_000, 1)[lambda t: t["group"] < 3]).to_state()
    )
    assert counted.shares is not None
    assert sum(counted.shares["statistics"][:3]) == pytest.approx(1.0, abs=0.02)
    empty = facts_of(statistics(None, "count", 0.01).fit(trips(0, 1)).to_state())
    assert empty.weights("statistics", GROUPS).sum() == pytest.approx(1.0)
    classes = facts_of(CASES[9][0].fit(trips(5_000, 1)).to_state())
    assert classes.shares is not None
    assert set(classes.shares) == {"group"}


@pytest.mark.parametrize(
    "estimator",
    [
        statistics("usual", "std", 1.0),
        statistics("usual", "quantiles", 1.0),
        CountFeaturizer(label="long", classes=[0, 1], select={"group": "int64"}, epsilon=1, delta=1e-6),
        CovarianceMatrix(bounds={"a": (-1, 1)}, epsilon=1.0, delta=1e-6),
        AdaSSPRegressor(label="a", bounds={"b": (0, 1)}, label_bounds=(0, 1), epsilon=1.0, delta=1e-6),
    ],
)
def test_what_has_no_formula_says_so(estimator: DPEstimator) -> None:
    with pytest.raises(InvalidParameterError):
        expected_error(estimator, 1000)


@pytest.mark.parametrize(
    "fault",
    [
        {"spread": 0},
        {"spread": 1.5},
        {"mean_reach": float("nan")},
        {"total_variance": -1},
        {"frobenius": float("inf")},
        {"shares": {"statistics": [1.0]}},
        {"shares": {"statistics": [0.0] * GROUPS}},
        {"shares": {"statistics": [-1.0] + [1.0] * (GROUPS - 1)}},
    ],
)
def test_facts_must_be_possible(fault: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        expected_error(statistics("usual", "mean", 1.0), 1000, Facts(**fault))


def test_a_profile_by_formula_has_the_least_number_that_is_enough() -> None:
    estimator = statistics("usual", ("count", "mean"), 1.0)
    found = formula_profile(
        estimator, target=0.05, epsilons=(0.01, 0.1, 1.0), rows=10_000, facts=USUAL, window=4
    )
    assert found.method is Method.FORMULA
    assert found.made_at == 4
    assert (found.privacy_spent.epsilon, found.privacy_spent.delta) == (0.0, 0.0)
    assert found.at(0.01) == NeedsMore(10_000)
    for epsilon in (0.1, 1.0):
        n = found.n_at(epsilon)
        assert n is not None
        one = statistics("usual", ("count", "mean"), epsilon)
        assert expected_error(one, n, USUAL) <= 0.05 < expected_error(one, n - 1, USUAL)
    assert Profile.loads(found.dumps()) == found
    assert simulated(estimator, found.n_at(1.0) or 0) <= 0.05 / 0.8


def test_a_profile_of_a_released_count_costs_nothing_more() -> None:
    counts = statistics(None, "count", 0.1).fit(trips(50_000, 1))
    rows = int(np.maximum(counts.tables_["statistics"].column("count").to_numpy(), 0.0).sum())
    found = formula_profile(statistics(None, "count", 1.0), target=0.1, epsilons=1.0, rows=rows)
    assert (found.privacy_spent.epsilon, found.privacy_spent.delta) == (0.0, 0.0)
    assert isinstance(found.at(1.0), Found)


def test_a_count_of_nothing_is_enough_for_nothing() -> None:
    empty = formula_profile(statistics(None, "count", 1.0), target=0.1, epsilons=1.0, rows=0)
    assert empty.at(1.0) == NeedsMore(0)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"target": 0.0}, InvalidParameterError),
        ({"target": 1.0}, InvalidParameterError),
        ({"rows": -1}, InvalidParameterError),
        ({"rows": True}, InvalidParameterError),
        ({"rows": 1.5}, InvalidParameterError),
        ({"epsilons": ()}, PrivacyParameterError),
    ],
)
def test_wrong_parameters_of_a_formula_are_told(changes: dict[str, Any], error: type[Exception]) -> None:
    parameters: dict[str, Any] = {"target": 0.1, "epsilons": (1.0,), "rows": 1000}
    with pytest.raises(error):
        formula_profile(statistics(None, "count", 1.0), **(parameters | changes))
