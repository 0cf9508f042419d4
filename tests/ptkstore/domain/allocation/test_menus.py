"""Menus: made from a curve, and pruned."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.allocator_instances import RowCurve, geometric_grid, menu_of
from ptkstore.domain.accounting.losses import NANO, Loss
from ptkstore.domain.allocation.model import Choice, Demand, Limits, WindowPlan, pruned
from ptkstore.domain.allocation.plans import allocate_partitions
from ptkstore.errors import InvalidRequest

CHOICES = st.lists(
    st.builds(Choice, st.builds(Loss, st.integers(0, 6), st.integers(0, 3)), st.integers(1, 9)), max_size=6
)


def beats(one: Choice, other: Choice) -> bool:
    return (
        one.cost <= other.cost and one.loss.delta_atto <= other.loss.delta_atto and one.n_rows <= other.n_rows
    )


@given(CHOICES)
def test_pruning_drops_what_another_choice_beats_and_nothing_else(menu: list[Choice]) -> None:
    kept = pruned(menu)
    assert all(any(beats(k, choice) for k in kept) for choice in menu)
    assert not any(beats(a, b) for a in kept for b in kept if a is not b)
    assert [choice.n_rows for choice in kept] == sorted(choice.n_rows for choice in kept)
    assert set(kept) <= set(menu)


def test_a_curve_becomes_a_menu_of_whole_rows() -> None:
    menu = menu_of(RowCurve(100, 10, 1), [Loss(NANO // 10), Loss(NANO // 2), Loss(NANO)])
    assert menu == (Choice(Loss(NANO), 111), Choice(Loss(NANO // 2), 124), Choice(Loss(NANO // 10), 300))


def test_a_curve_that_needs_nothing_still_needs_a_row() -> None:
    assert menu_of(RowCurve(0), [Loss(3), Loss(7)]) == (Choice(Loss(3), 1),)


@given(st.integers(1, 10**6), st.integers(0, 10**9), st.integers(1, 40))
def test_a_grid_runs_from_the_least_epsilon_to_the_largest_by_one_factor(
    least: int, more: int, points: int
) -> None:
    grid = geometric_grid(Loss(least), Loss(least + more, 5), points)
    epsilons = [loss.epsilon_nano for loss in grid]
    assert epsilons == sorted(set(epsilons))
    assert epsilons[-1] == least + more
    assert points == 1 or epsilons[0] == least
    assert {loss.delta_atto for loss in grid} == {5}
    factor = (1 + more / least) ** (1 / max(points - 1, 1))
    assert all((low + 0.51) * factor + 0.51 >= high for low, high in pairwise(epsilons))  # whole numbers


MENU = Demand("t.a", (Choice(Loss(9, 1), 10), Choice(Loss(6, 1), 20), Choice(Loss(3, 1), 40)))


def test_a_pinned_partition_is_kept_by_the_plan() -> None:
    demands = [replace(MENU, partition=2), Demand("t.b", MENU.menu)]
    plan = allocate_partitions(demands, Limits(Loss(9, 9), 100, 3))
    assert isinstance(plan, WindowPlan)
    assert plan.allotments[0].partition == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: RowCurve(math.nan),
        lambda: RowCurve(1, -1),
        lambda: RowCurve(1, 1, math.inf),
        lambda: geometric_grid(Loss(0), Loss(5), 3),
        lambda: geometric_grid(Loss(6), Loss(5), 3),
        lambda: geometric_grid(Loss(5), Loss(6), 0),
        lambda: pruned([Choice(Loss(1), 0)]),
        lambda: pruned([Choice(Loss(1), 1, amount=-1)]),
    ],
)
def test_what_is_no_menu_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidRequest):
        make()
