"""Adaptive training without the service: one grant in parts, tests for life, and verdicts that decide."""

import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import DPSGDClassifier, DrawDiscardModel, HistoricalStatistics
from ptklib.adaptive import AdaptiveTraining, Attempt, Grant, GrantExceededError, Progress
from ptklib.adaptive.blocks import Divider
from ptklib.adaptive.loop import Pipeline
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError, SchemaError
from ptklib.validation import Decision, LossSums, look_failure

KEY = bytes(32)


def trips(n: int = 4000, seed: int = 1) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    hour = random.integers(0, 24, n)
    return pd.DataFrame(
        {
            "hour": hour,
            "minutes": np.clip(10 + hour + random.normal(0, 3, n), 0, 60),
            "rider": np.arange(n) // 4,
        }
    )


def speeds(**given: Any) -> HistoricalStatistics:
    defaults = {"domains": {"hour": range(24)}, "bounds": {"minutes": (0, 60)}, "epsilon": 1.0}
    return HistoricalStatistics(**{**defaults, **given})


def training(target: float, **given: Any) -> AdaptiveTraining:
    defaults = {"epsilon": 1.0, "delta": 0, "first_epsilon": 0.125}
    return AdaptiveTraining(given.pop("estimator", speeds()), target, **{**defaults, **given})


def test_models_of_devices_are_refused() -> None:
    model = DrawDiscardModel({"minutes": (0, 60)}, "late", epsilon=0.1)
    with pytest.raises(PrivacyParameterError, match="devices train this model"):
        training(0.2, estimator=model)


# Grants


def test_three_parts_of_a_tenth_are_three_tenths_and_no_more() -> None:
    grant = Grant(0.3, 3e-7)
    parts = [grant.part(0.1, 1e-7) for _ in range(3)]
    assert [(part.epsilon, part.delta) for part in parts] == [(0.1, 1e-7)] * 3
    assert (grant.epsilon, grant.delta) == (0, 0)
    for asked in ((1e-9, 0), (0, 1e-24), (1e-30, 0)):  # what is too small to count is rounded up
        with pytest.raises(GrantExceededError):
            grant.part(*asked)


def test_a_refused_part_takes_nothing_and_says_what_is_left() -> None:
    grant = Grant(1.0, 1e-6)
    with pytest.raises(
        GrantExceededError, match=r"asked for epsilon 0\.5 and delta 0\.000002, left are 1 and"
    ):
        grant.part(0.5, 2e-6)
    assert (grant.epsilon, grant.delta) == (1.0, 1e-6)
    assert grant.rest().epsilon == 1.0
    assert not grant.covers(1e-9)


def test_a_part_is_divided_further_and_does_not_return() -> None:
    grant = Grant(1)
    training_ = grant.part(0.6)
    training_.part(0.5)
    with pytest.raises(GrantExceededError):
        training_.part(0.2)
    assert grant.epsilon == 0.4


@pytest.mark.parametrize("amount", [-0.1, float("nan"), float("inf"), "1", True, None])
def test_what_is_no_amount_is_refused(amount: Any) -> None:
    with pytest.raises(PrivacyParameterError):
        Grant(amount)
    with pytest.raises(PrivacyParameterError):
        Grant(1).part(amount)


def test_threads_that_ask_at_once_get_no_more_than_there_is() -> None:
    grant, taken = Grant(1), []

    def ask() -> None:
        for _ in range(200):
            try:
                taken.append(grant.part(0.001))
            except GrantExceededError:
                return

    threads = [threading.Thread(target=ask) for _ in range(8)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert (len(taken), grant.epsilon) == (1000, 0)


# Blocks


def test_rows_of_a_unit_are_on_one_side_in_all_blocks_and_one_unit_in_each() -> None:
    divider, data = Divider("rider", 0.3, KEY), trips()
    blocks = [divider.divide(data, Grant(1)), divider.divide(data.astype({"rider": "float64"}), Grant(1))]
    assert blocks[0].test.column("minutes").equals(blocks[1].test.column("minutes"))
    ids = [set(table.column("rider").to_pylist()) for block in blocks for table in (block.train, block.test)]
    assert sum(map(len, ids)) == len(set.union(*ids)) == 2000
    share = blocks[0].test.num_rows / 4000
    assert 0.25 < share < 0.35
    assert Divider("rider", 0.3, b"1" * 32).divide(data, Grant(1)).test.num_rows != blocks[0].test.num_rows


def test_rows_without_a_unit_are_left_out_and_other_rows_have_coins_of_their_own() -> None:
    data = pd.DataFrame({"x": [1.0, 2.0], "rider": [None, "a"]})
    block = Divider("rider", 0.5, KEY).divide(data, Grant(1))
    assert block.train.num_rows + block.test.num_rows == 1
    with pytest.raises(SchemaError, match="'who' is missing"):
        Divider("who", 0.5, KEY).divide(data, Grant(1))
    apart = Divider(None, 0.3, KEY).divide(trips(), Grant(1))
    assert apart.train.num_rows + apart.test.num_rows == 4000
    assert 0.25 < apart.test.num_rows / 4000 < 0.35


# The loop


def test_an_easy_target_is_accepted_at_the_first_look() -> None:
    loop = training(0.2)
    assert loop.add_block(trips()) is Progress.ACCEPTED
    accepted = loop.accepted
    assert isinstance(accepted, Attempt)
    assert (accepted.epsilon, accepted.n_blocks, len(loop.attempts)) == (0.125, 1, 1)
    assert accepted.state.loss.epsilon == pytest.approx(0.1)
    assert loop.add_block(trips()) is Progress.ACCEPTED
    assert len(loop.attempts) == 1


def test_a_hard_target_doubles_the_loss_first_and_then_the_rows() -> None:
    loop = training(0.0001, most_blocks=2)
    assert loop.add_block(trips()) is Progress.WAITING
    assert [(a.epsilon, a.n_blocks) for a in loop.attempts] == [(0.125, 1), (0.25, 1), (0.5, 1)]
    # 0.875 of 1 is spent: the first block covers no second attempt of 0.5.
    assert loop.add_block(trips(seed=2)) is Progress.WAITING
    assert loop.add_block(trips(seed=3)) is Progress.WAITING
    assert [(a.epsilon, a.n_blocks) for a in loop.attempts[3:]] == [(0.5, 2)]
    assert loop.add_block(trips(seed=4)) is Progress.WAITING
    assert loop.add_block(trips(seed=5)) is Progress.ENDED
    assert [(a.epsilon, a.n_blocks) for a in loop.attempts[4:]] == [(1.0, 2)]
    assert all(a.verdict.decision is Decision.RETRY for a in loop.attempts)
    assert loop.accepted is None


@pytest.mark.filterwarnings("ignore::ptklib.exceptions.UnmatchedWarning")
def test_no_block_pays_more_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[tuple[Grant, float]] = []  # keeps each grant alive, so that none is taken for another
    part = Grant.part

    def noted(self: Grant, epsilon: Any, delta: Any = 0) -> Grant:
        taken = part(self, epsilon, delta)
        spent.append((self, epsilon))
        return taken

    monkeypatch.setattr(Grant, "part", noted)
    blocks: list[Any] = []
    loop = training(0.0001, most_blocks=4)
    divide = loop._divider.divide

    def kept(rows: Any, budget: Grant) -> Any:
        blocks.append(divide(rows, budget))
        return blocks[-1]

    monkeypatch.setattr(loop._divider, "divide", kept)
    for seed in range(6):
        loop.add_block(trips(400, seed))
    assert len(loop.attempts) > 4
    paid = [sum(epsilon for grant, epsilon in spent if grant is block.budget) for block in blocks]
    assert max(paid) <= 1.0
    assert sum(paid) == pytest.approx(sum(one.epsilon * one.n_blocks for one in loop.attempts))


def test_no_row_that_is_tested_was_ever_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: set[float] = set()
    tested: list[set[float]] = []

    def pipeline(rows: Any, grant: Grant) -> Any:
        trained.update(rows.column("minutes").to_pylist())
        return speeds(epsilon=grant.rest().epsilon).fit(rows)

    loop = training(0.0001, most_blocks=2, pipeline=pipeline)
    losses = loop._risk.losses

    def watched(state: Any, rows: Any) -> Any:
        tested.append(set(rows.column("minutes").to_pylist()))
        return losses(state, rows)

    monkeypatch.setattr(loop._risk, "losses", watched)
    for seed in range(4):
        loop.add_block(trips(500, seed))
    assert len(tested) == len(loop.attempts) > 3
    assert not trained & set.union(*tested) - {0.0, 60.0}


def test_later_looks_have_less_chance_to_be_wrong() -> None:
    loop = training(0.0001)
    loop.add_block(trips())
    assert [a.verdict.look for a in loop.attempts] == [1, 2, 3]
    assert [a.verdict.failure for a in loop.attempts] == [look_failure(0.95, look) for look in (1, 2, 3)]
    assert loop.attempts[2].verdict.failure == pytest.approx(0.05 / 12)


def thrice(rows: Any, grant: Grant) -> Any:
    """Do as Listing 1: the same epsilon for each step."""
    whole = grant.epsilon
    grant.part(whole)
    return speeds(epsilon=grant.part(whole).epsilon).fit(rows)


def behind_its_back(rows: Any, grant: Grant) -> Any:
    return speeds(epsilon=2 * grant.epsilon).fit(rows)


@pytest.mark.parametrize("pipeline", [thrice, behind_its_back])
def test_a_pipeline_gets_no_more_than_its_grant(pipeline: Pipeline) -> None:
    loop = training(0.2, pipeline=pipeline)
    with pytest.raises(GrantExceededError):
        loop.add_block(trips())
    assert loop.attempts == []
    assert loop._blocks[0].budget.epsilon == 0.875  # it may have read rows


@pytest.mark.filterwarnings("ignore::ptklib.exceptions.UnmatchedWarning")
@pytest.mark.parametrize("unit", [None, "rider"])
def test_a_row_whose_loss_fails_counts_as_the_largest_loss_and_changes_no_other(
    monkeypatch: pytest.MonkeyPatch, unit: str | None
) -> None:
    loop = training(0.0001, estimator=speeds(unit=unit), most_blocks=1, first_epsilon=1.0)
    losses, counted = loop._risk.losses, []

    def failing(state: Any, rows: Any) -> Any:
        if any(minutes == 59.5 for minutes in rows.column("minutes").to_pylist()):
            raise ValueError("a row")
        return losses(state, rows)

    def noted(self: LossSums, given: Any) -> Any:
        counted.append(given)
        return run(self, given)

    run = LossSums.run
    monkeypatch.setattr(LossSums, "run", noted)
    monkeypatch.setattr(loop._risk, "losses", failing)
    data = trips(600)
    data.loc[::20, "minutes"] = 59.5
    loop.add_block(data)
    assert len(loop.attempts) == 1
    large = np.mean(counted[0] > 0.2)  # a rider's is the mean of four rows
    assert large == pytest.approx(0.05 if unit is None else 0.2, abs=0.04 if unit is None else 0.15)
    assert np.median(counted[0]) < 0.1


def test_users_are_divided_and_bounded_block_by_block() -> None:
    rows: list[Any] = []

    def pipeline(table: Any, grant: Grant) -> Any:
        rows.append(table)
        return speeds(unit="rider", max_rows_per_unit=2, epsilon=grant.rest().epsilon).fit(table)

    estimator = speeds(unit="rider", max_rows_per_unit=2)
    loop = training(0.0001, estimator=estimator, most_blocks=2, first_epsilon=1.0, pipeline=pipeline)
    for seed in range(3):
        loop.add_block(trips(seed=seed))
    sizes = pd.Series(rows[-1].column("rider").to_pylist()).value_counts()
    assert set(sizes) == {4}
    assert len(sizes) > 1200  # of two blocks of 1,000 riders each


def test_a_classifier_by_gradient_descent_is_trained_with_its_delta() -> None:
    random = np.random.default_rng(3)
    data = pd.DataFrame({"a": random.uniform(-1, 1, 6000)})
    data["y"] = (data["a"] > 0).astype(int)
    model = DPSGDClassifier(
        label="y", classes=(0, 1), bounds={"a": (-1, 1)}, batch_rate=0.1, epochs=5, epsilon=1, delta=1e-6
    )
    loop = AdaptiveTraining(model, 0.1, epsilon=4.0, delta=1e-5, first_epsilon=2.0)
    assert loop.add_block(data) is Progress.ACCEPTED
    assert (loop.attempts[0].state.loss.delta, loop.attempts[0].state.loss.epsilon) == (1e-6, 1.6)


@pytest.mark.parametrize(
    "given",
    [
        {"target": 0},
        {"target": 1},
        {"first_epsilon": 2.0},
        {"first_epsilon": 0},
        {"epsilon": 0},
        {"validation_share": 0},
        {"validation_share": 1},
        {"test_share": float("nan")},
        {"confidence": 1},
        {"most_blocks": 0},
        {"estimator": speeds(max_rows_per_unit=2)},
        {"estimator": speeds(unit="hour")},
        {"estimator": speeds(statistics="sum")},
        {"estimator": speeds(delta=1e-6)},
    ],
)
def test_what_cannot_be_paid_or_validated_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        training(given.pop("target", 0.2), **given)
