"""On tasks whose least risk is known, profiles are wrong in at most the promised share; undoing a correction shows.

Binomial bounds: a share of 5 % that holds makes 16 or more of 60 wrong once in 10**7 times, and 46 or more of 400.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ptklib import AdaSSPRegressor, HistoricalStatistics
from ptklib.mechanisms import additive
from ptklib.profiling import (
    Found,
    HashedRows,
    HashRange,
    NeedsMore,
    Profiler,
    TeamPtk,
    Unreachable,
    risk_of,
)
from ptklib.profiling import plan as plans
from ptklib.profiling.bounds import Line
from ptklib.profiling.comparison import RESOLUTION, Centre, HighTest, UpperTest
from tests.support.profiled import PlainRisk, ShareOfOnes, SquaredRisk, hashed_bits, share_of_risk

FAILURE = 0.05
TARGET = 0.08
EPSILONS = (0.1, 1.0)


def most_wrong(n: int) -> int:
    return int(stats.binom.isf(1e-7, n, FAILURE))


def profiler(ptk: Any, **changes: Any) -> Profiler:
    parameters = {
        "target": TARGET,
        "epsilons": EPSILONS,
        "budget": 2.0,
        "n_max": 2000,
        "n_min": 16,
        "models": 1,
    }
    return Profiler(ptk, **(parameters | {"evaluation": "rows", "confidence": 1 - FAILURE} | changes))


def answers(n: int, risk: float, *, size: int, population: float | None = None, **changes: Any) -> list[Any]:
    """Return per profile its answers and the true risk of each model that was found."""
    found = []
    share = share_of_risk(risk)
    for seed in range(n):
        team = ShareOfOnes()
        rows = hashed_bits(size, share, seed, population)
        profile = profiler(team.ptk(SquaredRisk()), **changes).run(rows)
        for epsilon, answer in profile.points:
            true = None
            if isinstance(answer, Found):
                last = team.last_of(epsilon, changes.get("models", 1))
                true = risk + float(np.mean((np.array(last) - share) ** 2))
            found.append((seed, answer, true))
    return found


def wrong(told: list[Any], risk: float) -> int:
    """Return how many profiles have a wrong answer."""
    return len(
        {
            seed
            for seed, answer, true in told
            if (isinstance(answer, Found) and true > 2 * TARGET)
            or (isinstance(answer, Unreachable) and risk <= TARGET)
        }
    )


# The hardest risks: "found" is wrong however good the model is; "R* > tau" is wrong; models are within reach or not.
HARD = (2.001 * TARGET, TARGET)


@pytest.mark.parametrize("risk", HARD)
def test_profiles_are_wrong_in_at_most_the_promised_share(risk: float) -> None:
    assert wrong(answers(60, risk, size=20_000), risk) <= most_wrong(60)


def test_several_models_are_judged_by_their_mean_risk() -> None:
    # At epsilon 0.002 a model of a few rows is a coin: its risk lies between 0.05 and 0.95. One of seven rounds finds a
    # good one in all of 150 profiles, sixteen at once in 9 % (measured); the limits are missed once in 10**9 times.
    coins = {"epsilons": (0.002,), "budget": 4.0, "n_max": 64, "n_min": 1, "size": 20_000}
    alone = answers(25, 0.05, **coins)
    together = answers(25, 0.05, **coins, models=16)
    assert sum(isinstance(answer, Found) for _, answer, _ in alone) >= 17
    assert sum(isinstance(answer, Found) for _, answer, _ in together) <= 14
    assert wrong(alone, 0.05) + wrong(together, 0.05) <= most_wrong(50)


@pytest.mark.parametrize("risk", HARD)
def test_the_promise_holds_when_the_public_size_is_wrong(risk: float) -> None:
    assert wrong(answers(25, risk, size=200, population=20_000), risk) <= most_wrong(25)
    assert wrong(answers(25, risk, size=0, population=20_000), risk) <= most_wrong(25)


@pytest.mark.soak
@pytest.mark.parametrize("risk", [*HARD, 1.5 * TARGET, 0.5 * TARGET])
@pytest.mark.parametrize("size", [20_000, 2_000])
def test_400_profiles_are_wrong_in_at_most_the_promised_share(risk: float, size: int) -> None:
    assert wrong(answers(400, risk, size=size, population=20_000), risk) <= most_wrong(400)


def test_a_target_that_models_reach_is_found_and_one_far_below_the_least_risk_is_not() -> None:
    # Each misses with probability 0.05 at most: 16 of 60 once in 10**7 times.
    reachable = answers(60, TARGET / 2, size=20_000)
    assert sum(not isinstance(answer, Found) for _, answer, _ in reachable) <= 2 * most_wrong(60)
    sizes = [answer.n for _, answer, _ in reachable if isinstance(answer, Found)]
    assert min(sizes) < 100
    beyond = answers(60, 2.8 * TARGET, size=20_000)
    assert sum(not isinstance(answer, Unreachable) for _, answer, _ in beyond) <= 2 * most_wrong(60)


def trips(n: int, spread: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return speeds of 0 or 60, by hour: the least risk is ``spread * (1 - spread)`` squared widths."""
    random = np.random.default_rng(seed)
    hour = random.integers(0, 3, n)
    speed = 60.0 * (random.random(n) < np.where(hour == 1, spread, 1 - spread))
    return pd.DataFrame({"hour": hour, "speed": speed}), random.integers(0, 2**64, n, dtype=np.uint64)


def lines(n: int, risk: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return points on a line and two-valued noise; the least risk is the square of its half size."""
    random = np.random.default_rng(seed)
    x, size = random.uniform(-1, 1, n), 2 * np.sqrt(risk)
    y = (1 - size) * x + size * random.choice([-1.0, 1.0], n)
    return pd.DataFrame({"x": x, "y": y}), random.integers(0, 2**64, n, dtype=np.uint64)


def wrong_on_families(n: int, family: str, risk: float) -> int:
    total = 0
    for seed in range(n):
        if family == "means":
            frame, hashes = trips(20_000, share_of_risk(risk), seed)
            ptk: Any = HistoricalStatistics(domains={"hour": range(3)}, bounds={"speed": (0, 60)}, epsilon=1)
        else:
            frame, hashes = lines(20_000, risk, seed)
            ptk = AdaSSPRegressor(
                label="y", bounds={"x": (-1, 1)}, label_bounds=(-1, 1), epsilon=1, delta=1e-6
            )
        found = profiler(ptk).run(HashedRows(frame, hashes, population=20_000))
        never = Unreachable if risk <= TARGET else Found
        total += any(isinstance(answer, never) for _, answer in found.points)
    return total


@pytest.mark.parametrize("risk", HARD)
@pytest.mark.parametrize("family", ["means", "least squares"])
def test_profiles_of_exact_families_are_wrong_in_at_most_the_promised_share(family: str, risk: float) -> None:
    assert wrong_on_families(8, family, risk) <= most_wrong(8)


@pytest.mark.soak
@pytest.mark.parametrize("risk", HARD)
@pytest.mark.parametrize("family", ["means", "least squares"])
def test_400_profiles_of_exact_families_are_wrong_in_at_most_the_promised_share(
    family: str, risk: float
) -> None:
    assert wrong_on_families(400, family, risk) <= most_wrong(400)


def test_without_an_exact_minimum_nothing_is_out_of_reach() -> None:
    rows = hashed_bits(20_000, 0.5, 1)
    heuristic = profiler(ShareOfOnes().ptk(PlainRisk())).run(rows)
    assert {type(answer) for _, answer in heuristic.points} == {NeedsMore}
    exact = profiler(ShareOfOnes().ptk(SquaredRisk())).run(rows)
    assert {type(answer) for _, answer in exact.points} == {Unreachable}


def test_a_target_that_a_clipped_line_meets_is_not_out_of_reach() -> None:
    """The least loss of lines of slope 1 is 1/12 here, and a fitted line that is clipped loses 1/18."""
    random, n = np.random.default_rng(0), 100_000
    x = random.uniform(-1, 1, n)
    frame = pd.DataFrame({"x": x, "y": np.sign(x)})
    line = AdaSSPRegressor(label="y", bounds={"x": (-1, 1)}, label_bounds=(-1, 1), epsilon=10, delta=1e-6)
    rows = HashedRows(frame, random.integers(0, 2**64, n, dtype=np.uint64), population=n)
    risk, target = risk_of(line), 0.065
    line.fit(frame)
    assert (
        np.mean((np.sign(x) - line.predict(frame)) ** 2) / 4
        < target
        < risk.least_total(frame, np.ones(n)) / n
    )  # type: ignore[attr-defined]
    settings: dict[str, Any] = {"target": target, "n_min": 10_000, "n_max": 40_000, "budget": 12.0}
    found = profiler(line, epsilons=(1e-3,), **settings).run(rows)
    assert not any(isinstance(answer, Unreachable) for _, answer in found.points)


class NeedsBudget(ShareOfOnes):
    """Learns nothing below epsilon 0.5."""

    def train_dp(self, tables: Any, epsilon: float, previous: Any, config: Any) -> float:
        found = super().train_dp(tables, epsilon, previous, config)
        return found if epsilon >= 0.5 else 1.0


def test_a_small_epsilon_that_is_never_enough_does_not_hide_what_a_large_one_can_do() -> None:
    rows = hashed_bits(20_000, 0.02, 1)
    found = profiler(NeedsBudget().ptk(PlainRisk())).run(rows)
    assert [type(answer) for _, answer in found.points] == [NeedsMore, Found]


# What goes wrong without each correction.


def test_without_slack_an_empty_validation_set_would_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UpperTest, "threshold", property(lambda self: 0))
    risk = 2.001 * TARGET
    # Half of all comparisons of nothing with nothing say yes: 70 % of all profiles, measured.
    assert wrong(answers(60, risk, size=0, population=20_000, n_min=1), risk) > most_wrong(60)


def test_the_validation_set_of_the_paper_is_too_small() -> None:
    """P2: with the paper's m, U_n <= 2 tau for a risk above 2 tau in many more than 5 % of all runs of 14 rounds."""
    tau, epsilon, rounds, runs = 0.24, 1.0, 14, 4000
    m = math.ceil(2 * (tau**-2 + 1 / (epsilon * tau)) * math.log(100 * rounds))
    random = np.random.default_rng(3)
    risk = 2.001 * tau
    noise = additive.laplace(
        np.zeros(runs * rounds, dtype=np.int64), l1_sensitivity=RESOLUTION, epsilon=epsilon
    )
    means = random.binomial(m, risk, (runs, rounds)) / m + noise.reshape(runs, rounds) / RESOLUTION / m
    assert np.mean(np.any(means + tau / 4 <= 2 * tau, axis=1)) > 0.15

    settings = plans.Settings(tau, (epsilon,), epsilon, (1.0,) * rounds, 1, FAILURE, None, None)
    plan = plans.make_plan(settings)
    centre = plan.upper.centre.units / RESOLUTION
    runs = 200
    sums = random.binomial(plan.n_losses, risk, (runs, rounds)) - centre * plan.n_losses
    accepted = 0
    for row in sums:
        one = plan.upper.start([])
        accepted += any(one.is_above(-round(total * RESOLUTION)) for total in row)
    assert accepted <= most_wrong(runs)


def test_the_slack_of_the_papers_lower_bound_is_too_small() -> None:
    """P3: ln(2 T) / epsilon alone lets noise say "R* > tau" in about a fifth of all runs at R* = tau."""
    rounds, runs, epsilon = 14, 4000, 0.5

    def runs_above(slack: float) -> float:
        noise = additive.laplace(
            np.zeros(runs * rounds, dtype=np.int64), l1_sensitivity=RESOLUTION, epsilon=epsilon
        )
        return float(np.mean(np.any(noise.reshape(runs, rounds) > slack * RESOLUTION, axis=1)))

    assert runs_above(math.log(2 * rounds) / epsilon) > 0.12
    ours = HighTest(Line(0.0, 0.0), Fraction(1, 2), FAILURE / 5 / rounds)
    assert ours.sensitivity == RESOLUTION
    assert runs_above(ours.threshold / RESOLUTION) <= most_wrong(runs) / runs / 2


def test_without_the_slack_of_noise_a_reachable_target_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # Little budget for the lower bound, so that noise decides.
    changes = {"budget": sum(EPSILONS) + 0.01, "size": 2_000, "population": 20_000}
    kept = answers(40, TARGET, **changes)
    assert wrong(kept, TARGET) <= most_wrong(40)
    monkeypatch.setattr(HighTest, "threshold", property(lambda self: 0))
    monkeypatch.setattr(HighTest, "can_answer", lambda self, size: True)
    assert wrong(answers(40, TARGET, **changes), TARGET) > most_wrong(40)


class Memory:
    """Remembers its rows, as a PTK of an endless domain does: right on them, wrong on others."""

    def train_dp(self, tables: Any, epsilon: float, previous: Any, config: Any) -> set[float]:
        return {float(x) for table in tables for x in table[:, 0]}

    def examples(self, table: Any) -> Any:
        return np.ones(len(table), dtype=bool)

    def losses(self, state: Any, table: Any) -> Any:
        return np.array([float(x not in state) for x in table[:, 0]])


@dataclasses.dataclass
class Overlapping:
    """A profile set that hands out the same rows for every range."""

    inner: Any

    @property
    def population(self) -> float:
        return self.inner.population

    @property
    def hashes(self) -> HashRange:
        return self.inner.hashes

    def empty(self) -> Any:
        return self.inner.empty()

    def sample(self, part: HashRange) -> Any:
        return self.inner.sample(HashRange(0, 2**64))


def test_reused_samples_would_accept_what_only_remembers() -> None:
    random = np.random.default_rng(2)
    rows = hashed_bits(20_000, 0.5, 1)
    rows._table = random.random((20_000, 1))
    memory = Memory()
    asked = profiler(TeamPtk(memory.train_dp, risk=memory))
    assert [type(answer) for _, answer in asked.run(rows).points] == [NeedsMore, NeedsMore]
    assert [type(answer) for _, answer in asked.run(Overlapping(rows)).points] == [Found, Found]


def test_a_comparison_of_public_many_evaluations_has_the_sensitivity_of_one_loss() -> None:
    assert Centre(RESOLUTION // 10, per_batch=False).sensitivity == RESOLUTION - RESOLUTION // 10
    assert Centre(RESOLUTION * 3 // 4, per_batch=False).sensitivity == RESOLUTION * 3 // 4
    assert Centre(RESOLUTION // 10, per_batch=True).sensitivity == RESOLUTION
