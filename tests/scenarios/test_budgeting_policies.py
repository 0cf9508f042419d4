"""Queries that ask blocks under the policies of the comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from _common.online_budgeting.policies import Partial, Reused, Thresholds, UsedOnce
from _common.online_budgeting.replay import Asking, Grant, replay, warm

from ptkstore.domain.budgeting.blocks import BudgetedBlock, Query
from ptkstore.domain.budgeting.looks import Looks
from ptkstore.domain.budgeting.rule import ThresholdRule

NANO = 10**9
RULE = ThresholdRule(1_000.0, 50_000.0, 20_000_000)
CAPACITY = {i: BudgetedBlock(i, NANO, NANO) for i in range(6)}


def askings(n: int, cost: float, most: int, significance: Sequence[float]) -> list[Asking]:
    exact = np.array(significance, dtype=np.float64)
    return [Asking(Query(f"q{j}", round(cost * NANO), most), exact) for j in range(n)]


def test_a_policy_with_thresholds_serves_what_is_significant() -> None:
    rule = ThresholdRule(1_000.0, 50_000.0, NANO // 5)  # noise of about 10 losses, and a line of 250
    policy = Thresholds(warm(range(6), NANO, rule.free_share + 1e-6), rule)
    served = replay(askings(1, 0.05, 6, [0, 0, 3000, 0, 3000, 0]), policy, seed=1)
    assert [{grant.block for grant in one.grants} for one in served] == [{2, 4}]
    assert policy.decisions == 6
    served = replay(askings(1, 0.05, 6, [0, 0, 0, 0, 0, 0]), policy, seed=1)
    assert [one.grants for one in served] == [[]]
    for number in (0, 1, 3, 5):  # paid once, and kept
        left = warm([number], NANO, rule.free_share + 1e-6)[number].left_nano
        assert policy.blocks[number].left_nano == left - rule.comparison_nano
        assert not policy.kept[number].spent


def test_no_block_is_charged_more_than_its_capacity_and_all_is_accounted_for() -> None:
    for policy in (Thresholds(dict(CAPACITY), RULE), Partial(dict(CAPACITY), RULE), Reused(dict(CAPACITY))):
        served = replay(askings(60, 0.09, 4, [5000] * 6), policy, seed=3)
        granted = sum(grant.nano for one in served for grant in one.grants)
        spent = sum(NANO - block.left_nano for block in policy.blocks.values())
        assert granted <= spent <= 6 * NANO
        assert spent - granted <= 0 if isinstance(policy, Reused) else spent > granted


def test_a_retired_block_loses_its_threshold() -> None:
    """B5: its secret is destroyed with it."""
    policy = Thresholds(warm(range(2), NANO, 0.9), RULE)
    replay(askings(1, 0.05, 2, [0, 0]), policy, seed=0)
    assert sorted(policy.kept) == [0, 1]
    replay(askings(1, 0.05, 2, [9e9, 9e9]), policy, seed=0, least_nano=NANO // 5)
    assert policy.kept == {}
    assert all(block.retired for block in policy.blocks.values())


def test_sage_reuses_a_block_and_streaming_does_not() -> None:
    assert [len(one.grants) for one in replay(askings(30, 0.25, 6, [0] * 6), Reused(dict(CAPACITY)), seed=0)] == [
        6, 6, 6, 6, *[0] * 26,
    ]  # fmt: skip
    for whole, nano in ((False, NANO // 4), (True, NANO)):
        once = replay(askings(3, 0.25, 4, [0] * 6), UsedOnce(dict(CAPACITY), whole), seed=0)
        assert [len(one.grants) for one in once] == [4, 2, 0]
        assert {grant.nano for one in once for grant in one.grants} == {nano}


def test_a_query_ends_with_its_accepted_model() -> None:
    calls: list[tuple[int, int]] = []

    def after_two(query: int, grants: Sequence[Grant]) -> bool:
        calls.append((query, len(grants)))
        return len(grants) == 2

    served = replay(askings(2, 0.1, 5, [0] * 6), Reused(dict(CAPACITY)), seed=0, accepted=after_two)
    assert calls == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert [one.accepted for one in served] == [True, True]


def test_a_query_whose_looks_are_paid_for_gets_no_block_that_it_cannot_validate() -> None:
    """B8: with room for two looks, two blocks are trained on."""
    looks = Looks(left_nano=25, look_nano=10)
    served = replay(
        askings(2, 0.1, 5, [0] * 6), Reused(dict(CAPACITY)), seed=0, accepted=lambda q, g: False, looks=looks
    )
    assert [len(one.grants) for one in served] == [2, 2]


@pytest.mark.parametrize("most", [1, 3])
def test_blocks_are_asked_in_another_order_for_each_query(most: int) -> None:
    served = replay(askings(40, 0.01, most, [0] * 6), Reused(dict(CAPACITY)), seed=5)
    first = [one.grants[0].block for one in served]
    assert len(set(first)) == 6
