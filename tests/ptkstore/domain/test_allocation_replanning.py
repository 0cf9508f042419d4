"""A new PTK beside the others."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptkstore.domain.allocation import (
    Choice,
    Demand,
    Kept,
    Limits,
    Opening,
    Plan,
    Reason,
    allocate_partitions,
    replan,
)
from ptkstore.domain.losses import Loss
from ptkstore.errors import InvalidRequest


def demand(name: str, *menu: tuple[int, int], delta: int = 0) -> Demand:
    return Demand(f"t.{name}", tuple(Choice(Loss(epsilon, delta), rows) for epsilon, rows in menu))


def planned(demands: list[Demand], limits: Limits) -> Plan:
    plan = allocate_partitions(demands, limits)
    assert isinstance(plan, Plan)
    return plan


def test_a_new_ptk_that_fits_gets_a_plan_for_all() -> None:
    old, limits = [demand("a", (6, 10), (3, 20))], Limits(Loss(8), 50)
    plan = replan(old, planned(old, limits), demand("b", (5, 15)), limits)
    assert isinstance(plan, Plan)
    assert [(grant.loss, grant.n_rows) for grant in plan.grants] == [(Loss(3), 20), (Loss(5), 15)]


def test_without_epsilon_the_plan_stays_and_the_answer_names_what_would_fit() -> None:
    old, limits = [demand("a", (6, 10), (3, 20))], Limits(Loss(8), 30)
    current = planned(old, limits)
    kept = replan(old, current, demand("b", (6, 15), (7, 12)), limits)
    assert isinstance(kept, Kept)
    assert kept.plan == current
    assert kept.refusal.reason is Reason.EPSILON
    assert kept.remedies.openings == (Opening(30, 5, 0, 0),)  # beside t.a at its cheapest
    assert kept.remedies.capacity == 9
    assert kept.remedies.rows_factor is None
    assert kept.remedies.n_max is None


def test_without_rows_a_looser_target_or_a_larger_bound_is_named() -> None:
    old, limits = [demand("a", (6, 10), (3, 20))], Limits(Loss(8), 30)
    kept = replan(old, planned(old, limits), demand("b", (5, 90)), limits)
    assert isinstance(kept, Kept)
    assert kept.refusal.reason is Reason.ROWS
    assert kept.remedies.rows_factor == Fraction(30, 90)
    assert kept.remedies.n_max == 90
    assert str(kept.remedies) == (
        "would fit: a PTK that needs at most epsilon 0.000000005, delta 0 on 30 rows; "
        "this one with a target that needs 33 % of its rows or fewer; "
        "this one with a planning bound of 90 rows"
    )
    assert kept.remedies.capacity is None


def test_a_ptk_nobody_can_hold_keeps_its_reason() -> None:
    limits = Limits(Loss(8), 30, 2)
    kept = replan([], planned([], limits), demand("b", (9, 10)), limits)
    assert isinstance(kept, Kept)
    assert kept.refusal.ptk_ids == ("t.b",)
    assert kept.remedies.openings == (Opening(30, 8, 0, 0),)
    assert kept.remedies.capacity == 9
    assert str(kept.remedies).endswith("; this one with a capacity of epsilon 0.000000009")


def test_an_opening_has_room_for_the_delta_too() -> None:
    old, limits = [demand("a", (3, 20), delta=4)], Limits(Loss(8, 5), 30)
    kept = replan(old, planned(old, limits), demand("b", (3, 20), delta=2), limits)
    assert isinstance(kept, Kept)
    assert kept.refusal.reason is Reason.DELTA
    assert kept.remedies.openings == (Opening(30, 5, 1, 0),)
    assert kept.remedies.capacity is None


def test_a_plan_of_other_ptks_is_refused() -> None:
    limits = Limits(Loss(8), 30)
    with pytest.raises(InvalidRequest):
        replan([demand("a", (1, 1))], planned([], limits), demand("b", (1, 1)), limits)


MENUS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 30)), min_size=1, max_size=3)


@settings(max_examples=80, deadline=None)
@given(
    old=st.lists(MENUS, max_size=4),
    new=MENUS,
    capacity=st.integers(2, 16),
    n_max=st.integers(5, 60),
    partitions=st.integers(1, 3),
)
def test_whatever_is_offered_to_a_refused_ptk_fits(
    old: list[list[tuple[int, int]]], new: list[tuple[int, int]], capacity: int, n_max: int, partitions: int
) -> None:
    limits = Limits(Loss(capacity), n_max, partitions)
    demands = [demand(f"p{i}", *menu) for i, menu in enumerate(old)]
    current = allocate_partitions(demands, limits)
    if not isinstance(current, Plan):
        return
    newcomer = demand("new", *new)
    answer = replan(demands, current, newcomer, limits)
    if isinstance(answer, Plan):
        assert [grant.ptk_id for grant in answer.grants] == [d.ptk_id for d in [*demands, newcomer]]
        return
    assert answer.plan is current
    offers = answer.remedies
    for opening in offers.openings:
        asked = Demand("t.new", (Choice(Loss(opening.amount, opening.delta_atto), opening.n_rows),))
        assert isinstance(replan(demands, current, asked, limits), Plan)
    if offers.rows_factor is not None:
        fewer = tuple(replace(c, n_rows=max(1, int(c.n_rows * offers.rows_factor))) for c in newcomer.menu)
        assert isinstance(replan(demands, current, replace(newcomer, menu=fewer), limits), Plan)
    if offers.capacity is not None:
        richer = replace(limits, capacity=Loss(offers.capacity))
        assert isinstance(replan(demands, current, newcomer, richer), Plan)
    if (
        offers.n_max is not None and partitions <= 2
    ):  # beyond two a search may end elsewhere under another bound
        assert isinstance(replan(demands, current, newcomer, replace(limits, n_max=offers.n_max)), Plan)
