"""What may be profiled: estimators, their specs, and a team's own pair of functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import ptklib
from ptklib import CovarianceMatrix, DrawDiscardModel, HistoricalStatistics, as_ptk
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.profiling import Found, HashedRows, NeedsMore, Profiler, TeamPtk
from tests.support.profiled import PlainRisk, ShareOfOnes, SquaredRisk, hashed_bits


def means(**changes: Any) -> HistoricalStatistics:
    parameters = {"domains": {"hour": range(2)}, "bounds": {"speed": (0, 60)}, "epsilon": 1.0}
    return HistoricalStatistics(**(parameters | changes))


def profiler(ptk: Any, **changes: Any) -> Profiler:
    parameters = {
        "target": 0.2,
        "epsilons": 1.0,
        "budget": 2.0,
        "n_max": 512,
        "models": 1,
        "evaluation": "rows",
    }
    return Profiler(ptk, **(parameters | changes))


def rides(n: int, rows_each: int = 1) -> HashedRows:
    """Return `n` users of some rows each, with a hash per user."""
    random = np.random.default_rng(1)
    user = np.repeat(np.arange(n), rows_each)
    frame = pd.DataFrame(
        {"user": user, "hour": random.integers(0, 2, len(user)), "speed": random.normal(30, 3, len(user))}
    )
    return HashedRows(frame, random.integers(0, 2**64, n, dtype=np.uint64)[user], population=n)


def test_an_estimator_its_spec_and_its_ptk_are_profiled_alike() -> None:
    rows = rides(8_000)
    found = [profiler(ptk).run(rows) for ptk in (means(), means().to_spec(), as_ptk(means(epsilon=0.3)))]
    assert len({profile.fingerprint for profile in found}) == 1
    assert {type(answer) for profile in found for _, answer in profile.points} == {Found}
    assert found[0].privacy_spent == found[2].privacy_spent


@pytest.mark.parametrize("evaluation", ["rows", "eval"])
def test_a_model_of_devices_has_no_loss_of_rows_in_one_place(evaluation: str) -> None:
    model = DrawDiscardModel({"speed": (0, 60)}, "fast", epsilon=1.0)
    with pytest.raises(PrivacyParameterError, match="devices train this model"):
        profiler(model, evaluation=evaluation).declared_loss()


def test_the_profiler_is_exported() -> None:
    assert ptklib.Profiler is Profiler


@pytest.mark.long
def test_the_ptks_own_evaluation_is_profiled_on_disjoint_test_sets() -> None:
    changes = {"evaluation": "eval", "batch": 20, "target": 0.45, "budget": 9.0, "confidence": 0.9}
    rows = rides(10_000)
    asked = profiler(means(), **changes)
    assert asked.population_needed() < 10_000
    assert type(asked.run(rows).points[0][1]) is Found
    narrow = profiler(means(), **(changes | {"loss_bounds": (-1.0, 0.001), "target": -0.55})).run(rows)
    assert type(narrow.points[0][1]) is NeedsMore  # errors above 0.001 are clipped to the largest loss
    assert narrow.risk_at_most == pytest.approx(-0.1)


def test_all_rows_of_a_user_are_one_example_and_one_unit_of_the_training() -> None:
    by_user = means(unit="user", max_rows_per_unit=3)
    found = profiler(by_user).run(rides(8_000, rows_each=3))
    assert type(found.points[0][1]) is Found
    loss = profiler(by_user).declared_loss()
    training = loss.event.to_json()["events"][1]["events"][0]
    assert training["events"][0]["l1_sensitivity"] == 3  # of the training; one loss per user in comparisons
    assert loss.event.to_json()["events"][0] == profiler(means()).declared_loss().event.to_json()["events"][0]


def test_a_team_asserts_epsilon_and_delta_of_its_training() -> None:
    team = TeamPtk(ShareOfOnes().train_dp, delta=1e-6, risk=PlainRisk())
    loss = profiler(team, epsilons=(0.5, 1.0)).declared_loss()
    trainings = loss.event.to_json()["events"][1]["events"]
    assert [part["epsilon"] for part in trainings] == [0.5, 1.0]
    assert (loss.epsilon, loss.delta) == (2.0, 2e-6)


def test_a_team_gets_iterators_its_config_and_no_earlier_state() -> None:
    seen: list[Any] = []

    def train_dp(trainset: Any, epsilon: float, previous: Any, config: Any) -> float:
        tables = list(trainset)
        seen.append((len(tables), epsilon, previous, config))
        return 0.5

    profiler(TeamPtk(train_dp, config={"depth": 3}, risk=PlainRisk())).run(hashed_bits(20_000, 0.5, 1))
    assert seen[0] == (1, 1.0, None, {"depth": 3})
    assert len(seen) > 1
    assert len(set(map(str, seen))) == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"train_dp": "train", "eval": len},
        {"train_dp": len},
        {"train_dp": len, "eval": "eval"},
        {"train_dp": len, "eval": len, "delta": 0.5},
        {"train_dp": len, "eval": len, "config": {"f": len}},
    ],
)
def test_a_team_gives_functions_and_plain_configs(fault: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        TeamPtk(**fault)


@pytest.mark.parametrize(
    ("ptk", "evaluation"),
    [
        (object(), "eval"),
        ({"family": "Nothing", "params": {}}, "eval"),
        (TeamPtk(len, len), "rows"),
        (TeamPtk(len, len, risk=SquaredRisk()), "eval"),
        (CovarianceMatrix(bounds={"a": (0, 1)}, epsilon=1.0, delta=1e-6), "rows"),
        (means(bounds=None), "rows"),
    ],
)
def test_what_cannot_be_profiled_is_refused(ptk: Any, evaluation: str) -> None:
    with pytest.raises(InvalidParameterError):
        profiler(ptk, evaluation=evaluation).declared_loss()


class NoExamples(SquaredRisk):
    def examples(self, table: Any) -> Any:
        if len(table):
            raise ValueError("secret")
        return np.zeros(0, dtype=bool)


class NoMinimum(SquaredRisk):
    def __init__(self, value: float | None) -> None:
        self.value = value

    def least_total(self, table: Any, weights: Any) -> float:
        if self.value is None:
            raise ValueError("secret")
        return self.value


@pytest.mark.parametrize("risk", [NoExamples(), NoMinimum(None), NoMinimum(float("nan")), NoMinimum(-1e300)])
def test_a_risk_that_fails_on_rows_shows_nothing_and_tells_nothing(risk: Any) -> None:
    team = TeamPtk(ShareOfOnes().train_dp, risk=risk)
    found = profiler(team, target=0.1, confidence=1 - 1e-8).run(hashed_bits(30_000, 0.5, 1))
    assert type(found.points[0][1]) is NeedsMore


def test_a_minimum_beyond_all_losses_counts_as_their_largest() -> None:
    team = TeamPtk(ShareOfOnes().train_dp, risk=NoMinimum(float("inf")))
    empty = profiler(team, target=0.1, confidence=1 - 1e-8).run(hashed_bits(0, 0.5, 1, 30_000))
    assert type(empty.points[0][1]) is NeedsMore


@pytest.mark.parametrize("epsilon", [0, "1", None, float("nan")])
def test_epsilons_are_numbers(epsilon: Any) -> None:
    with pytest.raises((PrivacyParameterError, InvalidParameterError)):
        profiler(means(), epsilons=(epsilon,)).declared_loss()
