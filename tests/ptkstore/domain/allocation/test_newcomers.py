"""A new PTK that does not fit beside the others: what would."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.allocation.model import Choice, Demand, Infeasible, Limits, Reason, WindowPlan
from ptkstore.domain.allocation.newcomers import Opening, Remedies, remedies
from ptkstore.domain.allocation.plans import allocate_partitions


def demand(name: str, *menu: tuple[int, int], delta: int = 0) -> Demand:
    return Demand(f"t.{name}", tuple(Choice(Loss(epsilon, delta), rows) for epsilon, rows in menu))


def planned(demands: list[Demand], limits: Limits) -> WindowPlan:
    plan = allocate_partitions(demands, limits)
    assert isinstance(plan, WindowPlan)
    return plan


def refused(old: list[Demand], new: Demand, limits: Limits) -> tuple[Infeasible, Remedies]:
    """Why `new` has no place beside the old, and what would help."""
    plan = allocate_partitions([*old, new], limits)
    assert isinstance(plan, Infeasible)
    return plan, remedies(old, planned(old, limits), new, limits)


def test_without_epsilon_what_would_fit_is_named() -> None:
    old, limits = [demand("a", (6, 10), (3, 20))], Limits(Loss(8), 30)
    refusal, helps = refused(old, demand("b", (6, 15), (7, 12)), limits)
    assert refusal.reason is Reason.EPSILON
    assert helps.openings == (Opening(30, 5, 0, 0),)  # beside t.a at its cheapest
    assert helps.capacity == 9
    assert helps.n_max is None


def test_without_rows_a_larger_bound_is_named() -> None:
    old, limits = [demand("a", (6, 10), (3, 20))], Limits(Loss(8), 30)
    refusal, helps = refused(old, demand("b", (5, 90)), limits)
    assert refusal.reason is Reason.ROWS
    assert helps.openings == (Opening(30, 5, 0, 0),)
    assert helps.n_max == 90
    assert helps.capacity is None


def test_a_ptk_nobody_can_hold_keeps_its_reason() -> None:
    refusal, helps = refused([], demand("b", (9, 10)), Limits(Loss(8), 30, 2))
    assert refusal.ptk_ids == ("t.b",)
    assert helps.openings == (Opening(30, 8, 0, 0),)
    assert helps.capacity == 9


def test_an_opening_has_room_for_the_delta_too() -> None:
    old, limits = [demand("a", (3, 20), delta=4)], Limits(Loss(8, 5), 30)
    refusal, helps = refused(old, demand("b", (3, 20), delta=2), limits)
    assert refusal.reason is Reason.DELTA
    assert helps.openings == (Opening(30, 5, 1, 0),)
    assert helps.capacity is None


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
    if not isinstance(current, WindowPlan):
        return
    newcomer = demand("new", *new)
    if isinstance(allocate_partitions([*demands, newcomer], limits), WindowPlan):
        return
    offers = remedies(demands, current, newcomer, limits)

    def fits(new: Demand, limits: Limits) -> bool:
        """Whether there is room; beyond two partitions a search may miss it, while the others stay where they are."""
        stay = [replace(d, partition=g.partition) for d, g in zip(demands, current.allotments, strict=True)]
        return any(
            isinstance(allocate_partitions([*old, new], limits), WindowPlan) for old in (demands, stay)
        )

    for opening in offers.openings:
        choice = Choice(Loss(opening.amount, opening.delta_atto), opening.n_rows)
        assert fits(Demand("t.new", (choice,)), limits)
    if offers.capacity is not None:
        assert fits(newcomer, replace(limits, capacity=Loss(offers.capacity)))
    if (
        offers.n_max is not None and partitions <= 2
    ):  # beyond two a search may end elsewhere under another bound
        assert fits(newcomer, replace(limits, n_max=offers.n_max))
