"""The paid test whether a state still has the risk its profile promised."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy import stats

from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.mechanisms.recording import recorded_draws
from ptklib.privacy import PrivacyLoss
from ptklib.profiling import DriftTest, Found, Method, Profile, fingerprint_of
from tests.support.profiled import ShareOfOnes, SquaredRisk, hashed_bits, share_of_risk

LIMIT = 0.1
LOSS = PrivacyLoss(2.0, 0.0, {"name": "EpsilonDelta", "epsilon": 2.0, "delta": 0.0})
POPULATION = 5_000


def profile(evaluation: str = "rows", config: Any = None) -> Profile:
    return Profile(
        fingerprint_of({} if config is None else config),
        LIMIT / 2,
        (0.0, 1.0),
        Method.SAMPLES,
        evaluation,
        0.95,
        0,
        ((1.0, Found(100)),),
        LOSS,
    )


def drift(evaluation: str = "rows", **changes: Any) -> DriftTest:
    team = ShareOfOnes()
    ptk = team.ptk(SquaredRisk() if evaluation == "rows" else None)
    parameters = {"population": POPULATION, "epsilon": 0.5, "false_alarm": 0.01}
    test = DriftTest(ptk, profile(evaluation), **(parameters | changes))
    test.team = team
    return test


def fired(test: DriftTest, risk: float, runs: int, rows: int = POPULATION) -> int:
    share = share_of_risk(risk)
    test.team.states.append((1.0, share))
    return sum(test.run(share, hashed_bits(rows, share, seed, POPULATION)) for seed in range(runs))


# False alarms of 1 %: 9 or more of 60 once in 10**8 times. Drifts missed as rarely.
@pytest.mark.parametrize("rows", [POPULATION, 50, 0])
def test_alarms_are_rare_while_the_risk_is_at_the_limit_whatever_the_number_of_rows(rows: int) -> None:
    assert fired(drift(), LIMIT, 60, rows) <= 8
    assert stats.binom.sf(8, 60, 0.01) < 1e-7


def test_a_risk_that_is_said_to_be_detectable_is_detected() -> None:
    risk = drift().detectable_risk()
    assert LIMIT < risk < 1.5 * LIMIT
    assert fired(drift(), risk, 60) >= 52


def test_evaluations_of_the_ptk_itself_are_tested_in_the_same_way() -> None:
    # 5 of 6 drifts missed, or 4 of 5 false alarms: once in 10**7 times.
    test = drift("eval", batch=20, population=50_000)
    risk = test.detectable_risk()
    assert LIMIT < risk < 0.25
    share = share_of_risk(risk)
    test.team.states.append((1.0, share))
    assert sum(test.run(share, hashed_bits(50_000, share, seed)) for seed in range(6)) >= 2
    quiet = share_of_risk(LIMIT / 2)
    test.team.states.append((1.0, quiet))
    assert sum(test.run(quiet, hashed_bits(50_000, quiet, seed)) for seed in range(5)) <= 3


def test_more_budget_or_rows_detect_less() -> None:
    assert drift(epsilon=2.0).detectable_risk() < drift().detectable_risk()
    assert drift(population=50_000).detectable_risk() < drift().detectable_risk()


def test_the_loss_is_what_is_drawn_and_is_charged_first() -> None:
    test, seen = drift(), []
    declared = test.declared_loss()
    assert (declared.epsilon, declared.delta) == (0.5, 0.0)
    assert declared.event.to_json()["l1_sensitivity"] / declared.event.to_json()["scale"] <= 0.5
    test.team.states.append((1.0, 0.1))
    with recorded_draws() as draws:
        test.run(0.1, hashed_bits(POPULATION, 0.1, 1), charge=seen.append)
    assert seen == [declared]
    assert test.privacy_spent_ == declared
    assert [draw.scale for draw in draws] == [declared.event.to_json()["scale"]]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"population": 5}, InvalidParameterError),
        ({"population": float("nan")}, PrivacyParameterError),
        ({"epsilon": 1e-5}, InvalidParameterError),
        ({"epsilon": 0}, PrivacyParameterError),
        ({"false_alarm": 0}, InvalidParameterError),
        ({"false_alarm": 0.9}, InvalidParameterError),
    ],
)
def test_what_could_never_tell_is_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        drift(**changes).declared_loss()


def test_another_config_is_refused() -> None:
    test = DriftTest(
        ShareOfOnes().ptk(SquaredRisk()),
        profile(config={"window": 3}),
        population=POPULATION,
        epsilon=1,
    )
    with pytest.raises(InvalidParameterError, match="another config"):
        test.declared_loss()


def test_no_risk_is_detectable_where_only_the_largest_would_be() -> None:
    few = drift(population=120, epsilon=0.2)
    assert math.isinf(few.detectable_risk()) or few.detectable_risk() > 0.5
