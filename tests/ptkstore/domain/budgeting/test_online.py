"""Algorithm 2, as public steps: the filter first, one payment for each noisy threshold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ptkstore.domain.budgeting.blocks import BudgetedBlock, Query, Unaffordable
from ptkstore.domain.budgeting.online import (
    Declined,
    Taken,
    ToCompare,
    answered,
    next_step,
    next_step_if_public,
)
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.budgeting.significance import Recency
from ptkstore.errors import InvalidRequest

NANO = 10**9
RULE = ThresholdRule(10.0, 10.0 * math.e**3, 50_000_000)  # z_0 = 1/4, eps_0 = .05
QUERY = Query("team.ptk", 100_000_000, 3)


def block(left: float, **state: bool) -> BudgetedBlock:
    return BudgetedBlock(7, NANO, round(left * NANO), **state)


def test_a_fresh_block_takes_any_query_and_compares_nothing() -> None:
    step = next_step(block(1.0), QUERY, RULE)
    assert step == Taken(block(0.9), QUERY.cost_nano)


def test_the_threshold_rises_from_l_to_u_and_has_no_step_at_z_0() -> None:
    assert RULE.free_share == 0.25
    assert [RULE.at(z) for z in (0.0, 0.1, 0.25)] == [10.0] * 3
    assert RULE.at(0.25 + 1e-12) == pytest.approx(10.0)
    assert RULE.at(1.0) == pytest.approx(RULE.most)
    # The paper's form (U e / L)^z L / e.
    assert RULE.at(0.6) == pytest.approx((math.e**3 * math.e) ** 0.6 * 10.0 / math.e)
    assert RULE.constant == pytest.approx(RULE.most / 4)


@pytest.mark.parametrize(
    ("least", "most", "cost"),
    [
        (2.0, 2.0, 1),
        (2.0, 1.0, 1),
        (0.0, 1.0, 1),
        (-1.0, 1.0, 1),
        (1.0, math.inf, 1),
        (1.0, math.nan, 1),
        (1.0, 2.0, -1),
    ],
)
def test_bounds_that_make_no_threshold_are_refused(least: float, most: float, cost: int) -> None:
    with pytest.raises(InvalidRequest):
        ThresholdRule(least, most, cost)


def test_a_comparison_is_paid_when_its_threshold_is_drawn_and_never_again_while_it_says_below() -> None:
    """B1: epsilon_0 is charged before the first comparison. "Below" keeps the threshold and costs nothing more."""
    first = next_step(block(0.5), QUERY, RULE)
    assert isinstance(first, ToCompare)
    assert first.draws
    assert first.block == block(0.45, threshold_paid=True)
    assert answered(first, QUERY, above=False) is Declined.NOT_SIGNIFICANT
    second = next_step(first.block, QUERY, RULE)
    assert isinstance(second, ToCompare)
    assert not second.draws
    assert second.block == first.block
    taken = answered(second, QUERY, above=True)
    assert taken == Taken(block(0.35), QUERY.cost_nano)  # and the threshold is used up
    third = next_step(taken.block, QUERY, RULE)
    assert isinstance(third, ToCompare)
    assert third.draws


def test_the_line_is_the_threshold_times_the_whole_cost_of_the_query() -> None:
    """B2: p / (eps_j + eps_0) against T(z), and as p against T(z) (eps_j + eps_0)."""
    for left, cost in ((0.5, 0.1), (0.5, 0.02), (0.2, 0.1)):
        step = next_step(block(left), Query("p", round(cost * NANO), 1), RULE)
        assert isinstance(step, ToCompare)
        assert step.line == pytest.approx(RULE.at(1 - left) * (cost + 0.05))


@pytest.mark.parametrize(
    ("left", "paid", "cost", "payable"),
    [
        (0.9, False, 0.9, True),  # z < z_0: the query alone
        (0.9, False, 0.900000001, False),  # B4: the paper has no check here
        (0.15, False, 0.1, True),
        (0.149999999, False, 0.1, False),  # the threshold and the query
        (0.1, True, 0.1, True),  # the threshold is paid
        (0.099999999, True, 0.1, False),
    ],
)
def test_nothing_is_compared_or_taken_that_cannot_be_paid(
    left: float, paid: bool, cost: float, payable: bool
) -> None:
    """B4: the filter runs first, always. No step that reads something private is returned."""
    step = next_step(block(left, threshold_paid=paid), Query("p", round(cost * NANO), 1), RULE)
    assert isinstance(step, Taken | ToCompare) is payable
    assert payable or step is Declined.UNAFFORDABLE


def test_a_retired_block_answers_nothing() -> None:
    """B5: it has no comparison left, even where one was paid for, and its threshold is gone."""
    low = block(0.03, threshold_paid=True)
    assert low.retired_below(30_000_000) == low
    retired = low.retired_below(30_000_001)
    assert (retired.retired, retired.threshold_paid) == (True, False)
    assert retired.retired_below(1) == retired
    tiny = Query("p", 1, 1)
    for left in (retired, replace(block(1.0), retired=True), replace(block(0.5), retired=True)):
        assert next_step(left, tiny, RULE) is Declined.RETIRED
        assert next_step_if_public(left, tiny, RULE, 1e9) is Declined.RETIRED


def test_no_sequence_of_answers_takes_more_than_the_capacity() -> None:
    for answers in ((True,), (False, True), (True, False, False)):
        left, charged, turn = block(1.0), 0, 0
        for turn in range(200):
            before = left.left_nano
            step = next_step(left, QUERY, RULE)
            if isinstance(step, ToCompare):
                left = step.block
                step = answered(step, QUERY, answers[turn % len(answers)])
            left = step.block if isinstance(step, Taken) else left
            charged += before - left.left_nano
        assert charged == NANO - left.left_nano
        assert 0 <= left.left_nano < QUERY.cost_nano + RULE.comparison_nano
        assert charged > 0.7 * NANO


def test_a_declared_recency_is_compared_exactly_and_costs_nothing() -> None:
    recency = Recency(10)
    assert [recency.of(age) for age in (-1, 0, 5, 10, 11)] == [1.0, 1.0, 0.5, 0.0, 0.0]
    rule = ThresholdRule(1.0, 10.0, 0)
    edge = rule.at(0.5) * 0.1
    assert next_step_if_public(block(0.5), QUERY, rule, edge) == Taken(block(0.4), QUERY.cost_nano)
    assert next_step_if_public(block(0.5), QUERY, rule, edge * 0.999) is Declined.NOT_SIGNIFICANT
    assert next_step_if_public(block(0.05), QUERY, rule, 99.0) is Declined.UNAFFORDABLE
    with pytest.raises(InvalidRequest):
        Recency(0)


def test_impossible_blocks_and_queries_are_refused() -> None:
    for wrong in ((7, 0, 0), (7, 5, 6), (7, 5, -1), (7, 5, 5, True, True)):
        with pytest.raises(InvalidRequest):
            BudgetedBlock(*wrong)
    for bad in ((0, 1), (5, 0)):
        with pytest.raises(InvalidRequest):
            Query("p", *bad)
    with pytest.raises(InvalidRequest):
        RULE.at(1.5)
    with pytest.raises(Unaffordable):
        block(0.1).less(NANO)
