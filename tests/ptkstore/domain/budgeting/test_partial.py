"""Algorithm 3: one noisy significance is paid for, and all else follows from it."""

from __future__ import annotations

import pytest

from ptkstore.domain.budgeting.blocks import BudgetedBlock, Query
from ptkstore.domain.budgeting.online import Declined, Taken
from ptkstore.domain.budgeting.partial import ToRelease, granted, next_release
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.errors import InvalidRequest

NANO = 10**9
RULE = ThresholdRule(10.0, 100.0, 50_000_000)
QUERY = Query("team.ptk", 400_000_000, 3)
ETA = 0.5


def block(left: float, **state: bool) -> BudgetedBlock:
    return BudgetedBlock(7, NANO, round(left * NANO), **state)


def released(left: float) -> ToRelease:
    step = next_release(block(left), QUERY, RULE, ETA)
    assert isinstance(step, ToRelease)
    return step


def noisy_for(epsilon: float) -> float:
    """The significance at which eps* is this."""
    return (epsilon + 0.05) * RULE.constant


def test_a_release_is_paid_for_whatever_its_answer_is() -> None:
    """B3: the noisy significance costs epsilon_0, also where the query then gets nothing."""
    step = released(1.0)
    assert step.block == block(0.95)
    assert granted(step, QUERY, RULE, ETA, noisy_for(0.19)) is Declined.NOT_SIGNIFICANT
    assert granted(step, QUERY, RULE, ETA, float("-inf")) is Declined.NOT_SIGNIFICANT


@pytest.mark.parametrize(
    ("left", "wanted", "nano"),
    [
        (1.0, 0.3, 300_000_000),  # eps*
        (1.0, 0.9, 400_000_000),  # no more than it asked for
        (1.0, 1e30, 400_000_000),
        (0.3, 0.9, 250_000_000),  # no more than is left after the release
    ],
)
def test_the_grant_follows_from_the_noisy_significance_and_public_numbers(
    left: float, wanted: float, nano: int
) -> None:
    """B3: the exact significance is no argument, so no grant can publish it."""
    found = granted(released(left), QUERY, RULE, ETA, noisy_for(wanted))
    assert isinstance(found, Taken)
    assert abs(found.nano - nano) <= 1
    assert found.block.left_nano == round(left * NANO) - RULE.comparison_nano - found.nano


def test_nothing_is_released_that_could_not_be_followed_by_the_least_part() -> None:
    """B4, B5: the filter runs before anything private is read."""
    assert isinstance(next_release(block(0.25), QUERY, RULE, ETA), ToRelease)
    assert next_release(block(0.249999999), QUERY, RULE, ETA) is Declined.UNAFFORDABLE
    assert next_release(block(1.0, retired=True), QUERY, RULE, ETA) is Declined.RETIRED
    for least_part in (-0.1, 1.1):
        with pytest.raises(InvalidRequest):
            next_release(block(1.0), QUERY, RULE, least_part)
