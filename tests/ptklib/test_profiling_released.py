"""What released states tell later formulas: never that fewer rows are enough than are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import CountFeaturizer, CovarianceMatrix, HistoricalStatistics
from ptklib.base import DPEstimator
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling import Facts, cautious_facts, expected_error, facts_from, facts_json, facts_of

SHAPES = {
    "equal": lambda size: np.ones(size),
    "few": lambda size: 1 / np.arange(1, size + 1),
    "half": lambda size: np.where(np.arange(size) < size / 2, 1.0, 1e-9),
}


def statistics(size: int, epsilon: float, names: Any = ("count", "mean")) -> HistoricalStatistics:
    return HistoricalStatistics(
        domains={"g": range(size)}, bounds={"v": (-1, 1)}, statistics=names, epsilon=epsilon
    )


def rows(size: int, shape: str, n: int, seed: int) -> tuple[pd.DataFrame, tuple[float, ...]]:
    random, weights = np.random.default_rng(seed), SHAPES[shape](size)
    shares = weights / weights.sum()
    table = pd.DataFrame({"g": random.choice(size, n, p=shares), "v": random.uniform(-0.3, 0.6, n)})
    return table, tuple(shares)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("size", "n", "epsilon"), [(24, 500, 0.05), (168, 5_000, 0.05), (864, 5_000, 1.0)])
def test_noise_does_not_make_groups_look_less_alike_than_they_are(
    shape: str, size: int, n: int, epsilon: float
) -> None:
    later, ratios = statistics(size, 0.3), []
    for seed in range(5):
        table, shares = rows(size, shape, n, seed)
        told = cautious_facts(statistics(size, epsilon).fit(table).to_state()) or Facts()
        true = expected_error(later, 200 * size, Facts(shares={"statistics": shares}))
        ratios.append(expected_error(later, 200 * size, Facts(shares=told.shares)) / true)
    assert min(ratios) > 0.95


def test_without_a_margin_noise_would_promise_half_of_the_rows() -> None:
    table, shares = rows(864, "equal", 5_000, 1)
    told = facts_of(statistics(864, 0.05).fit(table).to_state())
    later = statistics(864, 0.3)
    true = expected_error(later, 170_000, Facts(shares={"statistics": shares}))
    assert expected_error(later, 170_000, told) < 0.8 * true


def test_shares_that_are_seen_are_told() -> None:
    table, shares = rows(168, "few", 50_000, 2)
    told = cautious_facts(statistics(168, 1.0).fit(table).to_state())
    assert told is not None
    later = statistics(168, 0.3)
    found = expected_error(later, 20_000, Facts(shares=told.shares))
    assert found == pytest.approx(
        expected_error(later, 20_000, Facts(shares={"statistics": shares})), rel=0.02
    )
    assert found < 0.96 * expected_error(later, 20_000)


def test_means_and_variances_are_told_for_groups_that_are_seen_and_the_worst_for_others() -> None:
    table, _ = rows(8, "equal", 50_000, 3)
    names = ("count", "mean", "variance")
    told = cautious_facts(statistics(8, 5.0, names).fit(table).to_state())
    assert told is not None
    assert 0.14 < told.mean_reach < 0.25
    assert 0.24 < told.spread < 0.4
    half = table[table["g"] < 4]
    fewer = cautious_facts(statistics(8, 5.0, names).fit(half).to_state())
    assert fewer is not None
    assert fewer.mean_reach**2 == pytest.approx(0.5, abs=0.05)  # half of the groups may have any mean
    only_means = cautious_facts(statistics(8, 5.0).fit(table).to_state())
    assert only_means is not None
    assert only_means.spread == 1.0


def correlated(n: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    mixed = 0.2 + 0.3 * random.normal(size=(n, 2)) @ np.array([[1.0, 0.6], [0.0, 0.5]])
    return pd.DataFrame(np.clip(mixed, -1, 1), columns=["a", "b"])


def matrix(epsilon: float) -> CovarianceMatrix:
    return CovarianceMatrix(bounds={"a": (-1, 1), "b": (-1, 1)}, epsilon=epsilon, delta=1e-6)


@pytest.mark.parametrize(("n", "epsilon"), [(50_000, 0.05), (5_000, 0.5), (50_000, 0.5)])
def test_a_matrix_is_not_taken_for_larger_than_it_is(n: int, epsilon: float) -> None:
    truth = correlated(1_000_000, 0)
    covariance, mean = truth.cov().to_numpy(), truth.mean().to_numpy()
    true = Facts(
        total_variance=float(np.trace(covariance)),
        frobenius=float(np.linalg.norm(covariance)),
        mean_norm=float(np.linalg.norm(mean)),
    )
    for seed in range(5):
        told = cautious_facts(matrix(epsilon).fit(correlated(n, seed + 1)).to_state())
        assert told is not None
        ratio = expected_error(matrix(0.3), 20_000, told) / expected_error(matrix(0.3), 20_000, true)
        assert 0.98 < ratio < 2.0


def test_a_continued_matrix_counts_the_noise_of_all_its_releases() -> None:
    first = matrix(0.5).fit(correlated(20_000, 1))
    second = matrix(0.5).fit(correlated(20_000, 2), previous_state=first.to_state())
    once, twice = cautious_facts(first.to_state()), cautious_facts(second.to_state())
    assert once is not None
    assert twice is not None
    assert expected_error(matrix(0.3), 20_000, twice) < expected_error(matrix(0.3), 20_000, once)


@pytest.mark.parametrize(
    "estimator",
    [
        matrix(0.05),
        statistics(864, 0.01),
        CountFeaturizer(label="g", classes=[0, 1], domains={"a": range(900)}, epsilon=0.01),
    ],
)
def test_a_release_that_is_mostly_noise_tells_nothing(estimator: DPEstimator) -> None:
    table = correlated(50, 1).assign(g=0, v=0.1)
    if isinstance(estimator, CountFeaturizer):
        table["a"] = 1
    assert cautious_facts(estimator.fit(table).to_state()) is None


def test_facts_survive_a_way_through_json_and_name_no_group() -> None:
    table, _ = rows(864, "few", 50_000, 4)
    told = cautious_facts(statistics(864, 1.0).fit(table).to_state())
    assert told is not None
    document = json.loads(json.dumps(facts_json(told)))
    assert len(document["shares"]["statistics"]) <= 16
    assert sum(count for count, _ in document["shares"]["statistics"]) == 864
    again = facts_json(facts_from(document))["shares"]["statistics"]
    assert [count for count, _ in again] == [count for count, _ in document["shares"]["statistics"]]
    later = statistics(864, 0.3)
    before, after = (expected_error(later, 100_000, facts) for facts in (told, facts_from(document)))
    assert before <= after * (1 + 1e-9) <= 1.05 * before


@pytest.mark.parametrize(
    "document",
    [
        {"shares": {"statistics": 3}},
        {"shares": {"statistics": [[1]]}},
        {"spread": "wide"},
        {"spread": 2.0},
        {"colour": 1.0},
        {"frobenius": None},
        ["shares"],
    ],
    ids=str,
)
def test_what_are_no_facts_is_refused(document: Any) -> None:
    with pytest.raises(InvalidParameterError):
        facts_from(document)
