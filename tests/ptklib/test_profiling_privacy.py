"""What a profile costs and what it may tell: everything released is declared before a row is read."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptklib import CountFeaturizer, HistoricalStatistics
from ptklib.accounting import event_delta, pure_epsilon, renyi_curve
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError, SchemaError
from ptklib.mechanisms.recording import recorded_draws
from ptklib.privacy import PrivacyLoss
from ptklib.profiling import Found, HashedRows, NeedsMore, Profiler, TeamPtk
from ptklib.profiling.comparison import RESOLUTION, Centre, UpperTest
from ptklib.profiling.samples import Examples
from tests.support.profiled import PlainRisk, ShareOfOnes, SquaredRisk, hashed_bits

POPULATION = 20_000


def profiler(ptk: Any, **changes: Any) -> Profiler:
    parameters = {
        "target": 0.1,
        "epsilons": (0.25, 1.0),
        "budget": 2.0,
        "n_max": 512,
        "n_min": 64,
        "models": 1,
    }
    return Profiler(ptk, **(parameters | {"evaluation": "rows"} | changes))


def means(**changes: Any) -> HistoricalStatistics:
    parameters = {"domains": {"hour": range(4)}, "bounds": {"speed": (0, 60)}, "epsilon": 1.0}
    return HistoricalStatistics(**(parameters | changes))


def trips(n: int, seed: int = 0) -> HashedRows:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"hour": random.integers(0, 4, n), "speed": random.normal(30, 5, n)})
    return HashedRows(frame, random.integers(0, 2**64, n, dtype=np.uint64), population=POPULATION)


def parts_of(event: Any) -> list[Any]:
    return list(event["events"]) if event["name"] == "Composed" else [event]


def test_the_loss_is_the_greater_of_both_sides_and_points_of_the_grid_add_up() -> None:
    loss = profiler(means(), n_max=4096, n_min=512).declared_loss()
    assert (loss.epsilon, loss.delta) == (2.0, 0.0)
    assert loss.event.to_json()["name"] == "Parallel"
    validation, *samples = loss.event.to_json()["events"]
    assert [part["name"] for part in validation["events"]] == ["AboveThreshold"] * 2
    assert len(samples) == 4  # rounds: 512, 1024, 2048, 4096
    for sample in samples:
        *trainings, last = sample["events"]
        assert len(trainings) == 2
        assert last["name"] == "DiscreteLaplace"
        assert last["l1_sensitivity"] / last["scale"] == pytest.approx(0.75)  # what trainings leave of 2
    assert event_delta(loss.event) == 0.0  # of these Gaussians the curve says everything


def test_without_delta_the_event_is_worth_the_budget() -> None:
    loss = profiler(means()).declared_loss()
    assert pure_epsilon(loss.event) == pytest.approx(2.0, rel=1e-9)
    assert renyi_curve(loss.event, [2.0])[0] < 2.0
    assert PrivacyLoss.from_json(loss.to_json()) == loss


def test_more_points_cost_the_validation_set_more_noise_and_no_more_budget() -> None:
    def scale(**changes: Any) -> float:
        validation = profiler(means(), **changes).declared_loss().event.to_json()["events"][0]
        return float(parts_of(validation)[0]["value_scale"])

    assert scale(epsilons=(0.25, 0.5, 1.0), budget=2.0) == pytest.approx(1.5 * scale(), rel=1e-9)
    assert scale(epsilons=0.5) == pytest.approx(scale() / 2, rel=1e-9)


def test_without_a_lower_bound_the_validation_set_costs_the_budget() -> None:
    loss = profiler(ShareOfOnes().ptk(PlainRisk())).declared_loss()
    assert loss.epsilon == 2.0
    assert {part["name"] for sample in loss.event.to_json()["events"][1:] for part in sample["events"]} == {
        "EpsilonDelta"
    }


def test_a_second_noisy_threshold_is_never_drawn() -> None:
    test = UpperTest(Centre(RESOLUTION // 2, per_batch=False), 1.0, Fraction(1), 3, 0.01)
    started = test.start([])
    low = np.zeros(1_000)
    assert test.is_below(started, low)
    with pytest.raises(PrivacyParameterError):
        test.is_below(started, low)


class Watched:
    """A profile set that remembers which parts were read."""

    def __init__(self, inner: HashedRows) -> None:
        self.inner, self.parts = inner, []
        self.population, self.hashes = inner.population, inner.hashes

    def empty(self) -> Any:
        return self.inner.empty()

    def sample(self, part: Any) -> Any:
        self.parts.append(part)
        return self.inner.sample(part)


@pytest.mark.parametrize("low", [0, 2**63])
def test_samples_are_disjoint_lie_in_the_set_and_grow(low: int) -> None:
    rows = hashed_bits(POPULATION, 0.5, 1)
    watched = Watched(HashedRows(rows._table, rows._words, population=POPULATION, within=(low, low + 2**63)))
    profiler(ShareOfOnes().ptk(PlainRisk())).run(watched)
    parts = sorted(watched.parts, key=lambda part: part.low)
    assert len(parts) == 5
    assert parts[0].low == low
    assert parts[-1].high <= low + 2**63
    assert all(a.high <= b.low for a, b in pairwise(parts))
    widths = [(part.high - part.low) / 2**63 * POPULATION for part in parts[1:]]
    assert widths == pytest.approx([64, 128, 256, 512])


def test_models_of_a_round_have_samples_of_their_own_and_cost_no_budget() -> None:
    several, one = profiler(means(), models=3), profiler(means(), models=1)
    validations = [p.declared_loss().event.to_json()["events"][0] for p in (several, one)]
    assert validations[0] == validations[1]
    assert several.declared_loss().epsilon == one.declared_loss().epsilon
    assert several.population_needed() == one.population_needed() + 2 * (64 + 128 + 256 + 512)
    watched = Watched(hashed_bits(POPULATION, 0.5, 1))
    profiler(ShareOfOnes().ptk(PlainRisk()), models=3).run(watched)
    parts = sorted(watched.parts, key=lambda part: part.low)
    assert len(parts) == 13
    assert all(a.high <= b.low for a, b in pairwise(parts))
    widths = [(part.high - part.low) / 2**64 * POPULATION for part in parts[1:]]
    assert widths == pytest.approx([size for size in (64, 128, 256, 512) for _ in range(3)])


def test_what_is_drawn_is_what_was_declared() -> None:
    team = ShareOfOnes()
    asked = profiler(team.ptk(SquaredRisk()))
    with recorded_draws() as draws:
        found = asked.run(hashed_bits(POPULATION, 0.5, 1))
    declared = asked.declared_loss()
    assert found.privacy_spent == asked.privacy_spent_ == declared
    validation, *samples = declared.event.to_json()["events"]
    allowed = {part[scale] for part in validation["events"] for scale in ("threshold_scale", "value_scale")}
    allowed |= {part["scale"] for sample in samples for part in parts_of(sample) if "scale" in part}
    of_trainings = {1.0, 4.0}  # of the team: 1 / epsilon
    assert {draw.scale for draw in draws} <= allowed | of_trainings
    assert sum(draw.scale == validation["events"][0]["threshold_scale"] for draw in draws) <= 2


def test_all_is_charged_before_the_first_row_is_read() -> None:
    seen: list[Any] = []
    rows = Watched(hashed_bits(POPULATION, 0.1, 1))
    rows.parts = seen

    def refuse(loss: PrivacyLoss) -> None:
        seen.append(loss)
        raise RuntimeError("no budget")

    asked = profiler(ShareOfOnes().ptk(SquaredRisk()))
    with pytest.raises(RuntimeError):
        asked.run(rows, charge=refuse)
    assert seen == [asked.declared_loss()]
    assert not hasattr(asked, "privacy_spent_")
    seen.clear()
    asked.run(rows, charge=seen.append)
    assert seen[0] == asked.declared_loss()
    assert len(seen) > 2
    assert not any(isinstance(part, PrivacyLoss) for part in seen[1:])


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": 1.2},
        {"budget": float("nan")},
        {"budget": -1},
        {"epsilons": ()},
        {"epsilons": (0.1, 0.1)},
        {"epsilons": (0.0, 1.0)},
        {"epsilons": (11.0,)},
        {"target": 0.0},
        {"target": 0.5},
        {"target": float("nan")},
        {"target": True},
        {"confidence": 1.0},
        {"confidence": 0.3},
        {"n_min": 600},
        {"n_min": 0},
        {"models": 0},
        {"models": 1.5},
        {"models": True},
        {"growth": 1.0},
        {"growth": 1.01, "n_min": 1},
        {"evaluation": "both"},
        {"loss_bounds": (0, 2)},
        {"loss_bounds": (1, 0), "evaluation": "eval"},
        {"batch": 0, "evaluation": "eval"},
    ],
)
def test_wrong_parameters_are_told_before_anything_is_read(changes: dict[str, Any]) -> None:
    asked = profiler(means(), **changes)
    with pytest.raises(InvalidParameterError):
        asked.declared_loss()
    with pytest.raises(InvalidParameterError):
        asked.run(None)


def test_the_budget_must_pay_for_one_training_at_each_epsilon() -> None:
    with pytest.raises(PrivacyParameterError, match=r"1\.25"):
        profiler(means(), budget=1.249).declared_loss()
    exact = profiler(means(), budget=1.25).declared_loss()
    assert exact.epsilon == 1.25
    assert all(
        part["name"] == "Composed" and len(part["events"]) == 2 for part in exact.event.to_json()["events"]
    )


def test_sums_of_decimal_epsilons_are_paid_by_their_decimal_sum() -> None:
    loss = profiler(means(), epsilons=(0.1, 0.2), budget=0.3).declared_loss()
    assert 0.3 <= loss.epsilon <= 0.3 + 1e-16


def test_a_remainder_too_small_for_any_noise_buys_no_lower_bound() -> None:
    loss = profiler(means(), budget=1.25 + 1e-13).declared_loss()
    assert all(len(part["events"]) == 2 for part in loss.event.to_json()["events"])


def test_missing_columns_and_small_populations_are_told_without_rows() -> None:
    wrong = HashedRows(pd.DataFrame({"hour": [1]}), np.zeros(1, dtype=np.uint64), population=POPULATION)
    with pytest.raises(SchemaError, match="speed"):
        profiler(means()).run(wrong)
    few = hashed_bits(50_000, 0.1, 1, population=100)
    with pytest.raises(InvalidParameterError, match="too small") as told:
        profiler(ShareOfOnes().ptk(SquaredRisk())).run(few)
    assert "50" not in str(told.value)


def test_one_round_is_the_least_that_can_be_run() -> None:
    asked = profiler(ShareOfOnes().ptk(SquaredRisk()), budget=1.25)
    least = asked.population_of_one_round()
    assert least < asked.population_needed()
    with pytest.raises(InvalidParameterError, match="too small"):
        asked.run(hashed_bits(10, 0.5, 1, population=least - 1))
    assert {answer for _, answer in asked.run(hashed_bits(10, 0.5, 1, population=least)).points} == {
        NeedsMore(64)
    }


def test_rounds_without_room_are_left_out_and_said_to_be_untried() -> None:
    asked = profiler(ShareOfOnes().ptk(SquaredRisk()), budget=1.25, n_max=2**15)
    rows = hashed_bits(POPULATION, 0.5, 1)
    assert asked.population_needed() > POPULATION
    assert {answer for _, answer in asked.run(rows).points} == {NeedsMore(2048)}


class Breaks(ShareOfOnes):
    """Fails on a row of its own choice."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def train_dp(self, tables: Any, epsilon: float, previous: Any, config: Any) -> float:
        (table,) = tables
        if self.where == "train" and len(table):
            raise ValueError(f"secret {table[0, 0]}")
        return super().train_dp([table], epsilon, previous, config)

    def eval(self, tables: Any) -> float:
        (table,) = tables
        if self.where == "eval" and len(table):
            raise ValueError(f"secret {table[0, 0]}")
        return math.nan if self.where == "nan" else super().eval([table])


@pytest.mark.parametrize("where", ["train", "eval", "nan"])
def test_failures_on_rows_are_the_worst_loss_and_tell_nothing(where: str) -> None:
    asked = profiler(Breaks(where).ptk(), evaluation="eval", batch=2, target=0.3)
    found = asked.run(hashed_bits(POPULATION, 0.1, 1))
    assert {answer for _, answer in found.points} == {NeedsMore(512)}


def test_failures_without_rows_are_told() -> None:
    def broken(*_: Any) -> float:
        raise KeyError("a fault of the code, on no row at all")

    with pytest.raises(KeyError, match="fault of the code"):
        profiler(TeamPtk(broken, risk=SquaredRisk())).run(hashed_bits(POPULATION, 0.1, 1))


class BreaksInLosses(SquaredRisk):
    def losses(self, state: Any, table: Any) -> Any:
        if len(table):
            raise ValueError("secret")
        return super().losses(state, table)


def test_losses_that_cannot_be_computed_are_the_worst() -> None:
    found = profiler(ShareOfOnes().ptk(BreaksInLosses()), budget=1.25).run(hashed_bits(POPULATION, 0.1, 1))
    assert {type(answer) for _, answer in found.points} == {NeedsMore}


def test_rows_that_cannot_be_used_do_not_show_that_a_model_is_good() -> None:
    random = np.random.default_rng(0)
    n = int(POPULATION)
    frame = pd.DataFrame({"hour": random.integers(0, 4, n), "long": ["no class"] * n})
    unlabelled = HashedRows(frame, random.integers(0, 2**64, n, dtype=np.uint64), population=POPULATION)
    counts = CountFeaturizer(
        ["hour"], label="long", classes=["no", "yes"], domains={"hour": range(4)}, epsilon=1.0
    )
    found = profiler(counts, evaluation="eval", batch=2, target=0.3).run(unlabelled)
    assert {answer for _, answer in found.points} == {NeedsMore(512)}


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_hardly_any_rows_are_not_enough_and_no_error(rows: int) -> None:
    sure = {"confidence": 1 - 1e-8, "target": 0.2}
    bits = profiler(ShareOfOnes().ptk(SquaredRisk()), **sure).run(hashed_bits(rows, 0.5, 1, POPULATION))
    speeds = profiler(means(), **sure).run(trips(rows))
    few = hashed_bits(min(rows, 1), 0.5, 1, 1_000_000)
    evaluated = profiler(ShareOfOnes().ptk(), **sure, evaluation="eval", batch=20).run(few)
    for found in (bits, speeds, evaluated):
        assert {answer for _, answer in found.points} == {NeedsMore(512)}


@pytest.mark.parametrize("value", [np.nan, np.inf, 30.0, 1e300])
def test_rows_that_are_all_equal_missing_or_out_of_bounds_are_profiled_like_others(value: float) -> None:
    n = POPULATION
    frame = pd.DataFrame({"hour": np.ones(n, dtype=np.int64), "speed": np.full(n, value)})
    hashes = np.random.default_rng(0).integers(0, 2**64, n, dtype=np.uint64)
    found = profiler(means(), confidence=1 - 1e-8, target=0.2).run(HashedRows(frame, hashes, population=n))
    kept = math.isfinite(value)  # dropped rows are no examples, and without examples nothing is shown
    assert {type(answer) for _, answer in found.points} == {Found if kept else NeedsMore}


@settings(max_examples=60)
@given(
    losses=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=12),
    units=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    gone=st.integers(0, 3),
    centre=st.integers(1, RESOLUTION - 1),
)
def test_one_privacy_unit_moves_a_centred_sum_by_the_sensitivity_at_most(
    losses: list[float], units: list[int], gone: int, centre: int
) -> None:
    values, words = np.array(losses), np.array(units[: len(losses)], dtype=np.uint64)
    taken = Centre(centre, per_batch=False)

    def total(chosen: Any) -> int:
        examples = Examples.of(words[chosen], np.ones(int(chosen.sum()), dtype=bool))
        return taken.centred_sum(examples.per_unit(values[chosen]))

    everyone = np.ones(len(values), dtype=bool)
    assert abs(total(everyone) - total(words != gone)) <= taken.sensitivity


def test_a_profile_carries_no_loss_no_size_and_no_model() -> None:
    found = profiler(ShareOfOnes().ptk(SquaredRisk())).run(hashed_bits(POPULATION, 0.1, 1), window=3)
    assert set(found.to_json()) == {
        "format_version",
        "fingerprint",
        "target",
        "loss_bounds",
        "method",
        "evaluation",
        "confidence",
        "made_at",
        "points",
        "loss",
    }
    assert all(set(point) <= {"epsilon", "answer", "n", "n_tried"} for point in found.to_json()["points"])
    assert all(answer.n in (64, 128, 256, 512) for _, answer in found.points if isinstance(answer, Found))


def test_a_profiler_keeps_its_parameters_and_what_it_spent() -> None:
    asked = profiler(means())
    before = set(vars(asked))
    asked.run(trips(POPULATION))
    assert set(vars(asked)) - before == {"privacy_spent_"}
