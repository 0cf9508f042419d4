"""REJECT: for exact minimisers alone, as rarely wrong as promised, and paid beside ACCEPT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import AdaSSPRegressor, Clustering, HistoricalStatistics
from ptklib.accounting import epsilon_of
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import PrivacyLoss
from ptklib.profiling import HashedRows, LossEstimate
from ptklib.profiling.estimates import UNITS
from ptklib.validation import (
    AccuracyValidator,
    Decision,
    LossSums,
    LossValidator,
    MinimumSums,
    MinimumValidator,
    joined,
    validation_loss,
)
from ptklib.validation.minimum import MINIMUM_SENSITIVITY
from tests.support.noisy_sums import allowed, noisy_sums

MEANS = HistoricalStatistics(
    ["hour"], ["speed"], domains={"hour": range(2)}, bounds={"speed": (0.0, 60.0)}, epsilon=5.0
)
LINE = AdaSSPRegressor(
    ["hour"],
    label="speed",
    bounds={"hour": (0, 1)},
    label_bounds=(0.0, 60.0),
    max_norm=1.0,
    epsilon=1,
    delta=1e-6,
)


def coins(n: int, seed: int = 0) -> pd.DataFrame:
    """Speeds that the hour tells nothing of: the least risk is .25, in squared widths."""
    random = np.random.default_rng(seed)
    return pd.DataFrame({"hour": random.integers(0, 2, n), "speed": 60.0 * random.integers(0, 2, n)})


def set_of(table: pd.DataFrame) -> HashedRows:
    return HashedRows(table, (np.arange(len(table)) * 2**40).astype(np.uint64), population=1_000)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "ptklib.mechanisms.additive.laplace", lambda units, **more: asked.append(more) or np.asarray(units)
    )
    return asked


def test_a_target_that_no_model_reaches_is_rejected():
    sums = MinimumSums(MEANS, 1.0).run(set_of(coins(3_000)))
    verdict = MinimumValidator(0.2, exact_minimiser=True).verdict(sums)
    assert verdict.decision is Decision.REJECT
    assert 0.2 < verdict.bound < 0.25
    assert verdict.estimate == pytest.approx(0.25, abs=0.02)
    assert MinimumValidator(0.25, exact_minimiser=True).verdict(sums).decision is Decision.RETRY


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_a_target_that_the_best_model_just_meets_is_rejected_as_rarely_as_promised(epsilon: float):
    """The losses of the best model stand for the minimum, which is never above them. False alarm once in 10**6."""
    risk, tries = 0.25, 1_000
    random = np.random.default_rng(2)
    units = random.poisson(1_000, tries)
    sums = noisy_sums(random.binomial(units, risk), units, epsilon)
    validator = MinimumValidator(risk + 1e-6, exact_minimiser=True, confidence=0.8)
    wrong = sum(validator.verdict(one).decision is Decision.REJECT for one in sums)
    assert wrong <= allowed(0.2, tries)


@pytest.mark.parametrize("word", [False, None, 1, "yes"])
def test_a_heuristic_rejects_nothing(word: Any):
    """P4: half a class's models are perfect here, and a heuristic that ended at a bad one would reject the target."""
    of_a_bad_model = LossSums(1.0).run(np.ones(2_000))
    assert MinimumValidator(0.1, exact_minimiser=True).verdict(of_a_bad_model).decision is Decision.REJECT
    with pytest.raises(InvalidParameterError, match="heuristic"):
        MinimumValidator(0.1, exact_minimiser=word)
    with pytest.raises(InvalidParameterError, match="no exact minimum"):
        MinimumSums(Clustering(n_clusters=2, bounds={"speed": (0, 60)}, epsilon=1.0), 0.1).declared_loss()


@pytest.mark.parametrize("estimator", [MEANS, LINE])
@pytest.mark.parametrize("speed", [-1e9, 0.0, 30.0, 60.0, float("inf"), float("nan")])
def test_one_unit_moves_the_sums_by_no_more_than_declared(
    estimator: Any, exact: list[dict[str, Any]], speed: float
):
    rows = coins(40, seed=3)
    for hour in (0, 1):
        more = pd.concat([rows, pd.DataFrame({"hour": [hour], "speed": [speed]})], ignore_index=True)
        one, other = (MinimumSums(estimator, 0.5).run(set_of(table)) for table in (rows, more))
        assert abs(other.lost - one.lost) + abs(other.kept - one.kept) <= MINIMUM_SENSITIVITY
    assert {asked["l1_sensitivity"] for asked in exact} == {MINIMUM_SENSITIVITY}


def test_a_row_that_breaks_the_minimum_is_left_out_and_it_alone(
    exact: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    real = MinimumSums(MEANS, 0.5)._risk()

    class Breaks(type(real)):  # type: ignore[misc]
        def __init__(self) -> None:
            self.__dict__.update(real.__dict__)

        def least_total(self, table: Any, weights: Any) -> float:
            if (table["speed"] == -1.0).any():
                raise ValueError("secret")
            return real.least_total(table, weights)

    monkeypatch.setattr("ptklib.validation.minimum.risk_of", lambda _: Breaks())
    rows = coins(40, seed=4)
    more = pd.concat([rows, pd.DataFrame({"hour": [1], "speed": [-1.0]})], ignore_index=True)
    one, other = (MinimumSums(MEANS, 0.5).run(set_of(table)) for table in (rows, more))
    assert (one.lost, one.kept) == (other.lost, other.kept)


def test_accept_and_reject_on_the_same_rows_cost_both():
    """S6: both read the rows, so their epsilons add; on disjoint rows the larger one stands."""
    accept, reject = LossSums(0.3).declared_loss(), MinimumSums(MEANS, 0.5).declared_loss()
    both = validation_loss(accept, reject, same_rows=True)
    apart = validation_loss(accept, reject, same_rows=False)
    assert both.epsilon == pytest.approx(0.8)
    assert apart.epsilon == pytest.approx(0.5)
    for loss in (both, apart):
        assert epsilon_of([loss], 0.0) == pytest.approx(loss.epsilon, rel=1e-6)
        assert PrivacyLoss.from_json(loss.to_json()) == loss


def test_two_verdicts_become_one():
    good, bad = LossEstimate(1.0, 0, 5_000 * UNITS), LossEstimate(1.0, 5_000 * UNITS, 0)
    accept, retry = (LossValidator(0.1).verdict(sums) for sums in (good, bad))
    reject, open_ = (MinimumValidator(0.1, exact_minimiser=True).verdict(sums) for sums in (bad, good))
    assert joined(accept, open_) == accept
    assert joined(retry, reject) == reject
    assert joined(retry, open_) == retry
    assert joined(accept, reject).decision is Decision.RETRY
    with pytest.raises(InvalidParameterError, match="different targets"):
        joined(AccuracyValidator(0.9).verdict(good), reject)
