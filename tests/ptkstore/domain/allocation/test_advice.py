"""What an administrator is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.allocation.advice import BUDGETS, Need, Recommendation, recommend, scaled
from ptkstore.domain.allocation.model import Choice, Demand, Infeasible, Limits, Reason, WindowPlan
from ptkstore.domain.allocation.plans import allocate_partitions, first_feasible
from ptkstore.errors import InvalidRequest

DAY = timedelta(days=1)


def demands(count: int) -> list[Demand]:
    menu = tuple(Choice(Loss(epsilon), 120 // epsilon) for epsilon in (2, 4, 8))
    return [Demand(f"t.p{i}", menu) for i in range(count)]


def advised(demands: list[Demand], limits: Limits, **more: Any) -> Recommendation:
    """A recommendation for demands that are planned at one coordinate, with as many rows as they want."""

    def needs(n_ptks: int, share: Fraction) -> Need | Infeasible:
        mix = [replace(demands[i % len(demands)], ptk_id=f"t.p{i}") for i in range(n_ptks)]
        room = replace(limits, n_max=10**6, capacity=scaled(limits.capacity, share))
        plan, first = allocate_partitions(mix, room, bound_rounds=20), first_feasible(mix, room)
        if isinstance(plan, Infeasible):
            return plan
        rows = first.total_rows if isinstance(first, WindowPlan) else None
        return Need(plan.total_rows, plan.partitions_used, plan.bound, rows)

    return recommend(needs, len(demands), limits.capacity, **more)


def test_rows_and_the_window_that_holds_them_are_named() -> None:
    advice = advised(
        demands(2), Limits(Loss(8), 1000), rows_per_window=100, window=DAY, train_share=Decimal("0.5")
    )
    assert (advice.n_rows, advice.partitions, advice.refusal) == (30, 1, None)
    assert advice.window == timedelta(hours=14.4)


def test_needs_are_shown_against_ptks_and_against_budget() -> None:
    advice = advised(demands(5), Limits(Loss(8), 1000, 2), rows_per_window=100, window=DAY)
    # three: one at 8 apart from two at 4, or all in one at 2; eight at 2 in two partitions; the ninth has no room
    assert [point.n_ptks for point in advice.by_ptks] == [*range(1, 11)]
    shown = [point for point in advice.by_ptks if point.n_ptks in (1, 3, 5, 8, 9)]
    assert [point.n_rows for point in shown] == [15, 45, 75, 120, None]
    assert [point.first_feasible_rows for point in shown] == [15, 60, 75, 120, None]
    assert [point.capacity.epsilon_nano for point in advice.by_budget] == [
        int(8 * share) for share in BUDGETS
    ]
    rows = [point.n_rows for point in advice.by_budget if point.n_rows is not None]
    assert rows == sorted(rows, reverse=True)
    assert rows[-1] == 30  # four at 8 in one partition, one in the other


def test_the_mix_repeats_beyond_the_registered_ptks() -> None:
    advice = advised(demands(3), Limits(Loss(8), 1000, 4), rows_per_window=100, window=DAY)
    assert max(point.n_ptks for point in advice.by_ptks) == 6
    assert 3 in {point.n_ptks for point in advice.by_ptks}


def test_more_rows_than_the_planning_bound_are_recommended_not_refused() -> None:
    advice = advised(demands(4), Limits(Loss(8), 20), rows_per_window=10, window=DAY)
    assert advice.n_rows == 60
    assert advice.window == 6 * DAY


def test_what_no_window_can_hold_has_a_reason() -> None:
    advice = advised(demands(5), Limits(Loss(8), 1000), rows_per_window=10, window=DAY)
    assert (advice.n_rows, advice.window) == (None, None)
    assert advice.refusal is not None
    assert advice.refusal.reason is Reason.EPSILON
    assert advice.by_ptks[0].n_rows == 15


def test_a_stream_without_ptks_needs_nothing() -> None:
    advice = advised([], Limits(Loss(8), 1000), rows_per_window=10, window=DAY)
    assert (advice.n_rows, advice.by_ptks, advice.by_budget) == (0, (), ())


def test_a_window_is_rounded_up_to_whole_seconds() -> None:
    window = timedelta(seconds=10)
    some = advised(demands(1), Limits(Loss(8), 1000), rows_per_window=100, window=window)
    assert (some.n_rows, some.window) == (15, timedelta(seconds=2))
    assert advised([], Limits(Loss(8), 1000), rows_per_window=100, window=window).window == timedelta(
        seconds=1
    )


def test_rows_per_window_must_be_a_count() -> None:
    with pytest.raises(InvalidRequest):
        advised([], Limits(Loss(8), 1000), rows_per_window=0, window=DAY)
