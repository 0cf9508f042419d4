"""The allocator against a search over all choices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.allocation.model import Allotment, Choice, Demand, Infeasible, Limits
from ptkstore.domain.allocation.plans import allocate_partitions

CHOICES = st.builds(
    Choice, st.builds(Loss, st.integers(1, 6), st.integers(0, 3)), st.integers(1, 5).map(lambda n: n * 10)
)


def allocate(demands: Sequence[Demand], capacity: Loss, n_max: int) -> tuple[Allotment, ...] | Infeasible:
    """In one partition."""
    plan = allocate_partitions(demands, Limits(capacity, n_max))
    return plan if isinstance(plan, Infeasible) else plan.allotments


EPSILON_ONLY = st.builds(Choice, st.builds(Loss, st.integers(1, 6)), st.integers(1, 5).map(lambda n: n * 10))


def demands_of(choices: st.SearchStrategy[Choice]) -> st.SearchStrategy[list[Demand]]:
    menus = st.lists(st.lists(choices, min_size=1, max_size=3), max_size=4)
    return menus.map(lambda ms: [Demand(f"t.p{i}", tuple(menu)) for i, menu in enumerate(ms)])


@given(demands=demands_of(EPSILON_ONLY), capacity=st.integers(1, 20), n_max=st.integers(5, 60))
def test_the_plan_opens_the_fewest_rows_that_any_choice_can(
    demands: list[Demand], capacity: int, n_max: int
) -> None:
    feasible = [
        max((choice.n_rows for choice in choices), default=0)
        for choices in product(*(demand.menu for demand in demands))
        if sum(choice.loss.epsilon_nano for choice in choices) <= capacity
        and all(choice.n_rows <= n_max for choice in choices)
    ]
    plan = allocate(demands, Loss(capacity), n_max)
    if not feasible:
        assert isinstance(plan, Infeasible)
    else:
        assert not isinstance(plan, Infeasible)
        assert max((allotment.n_rows for allotment in plan), default=0) == min(feasible)


@given(
    demands=demands_of(CHOICES),
    capacity=st.builds(Loss, st.integers(1, 20), st.integers(0, 8)),
    n_max=st.integers(5, 60),
)
def test_a_plan_fits_and_gives_each_ptk_one_of_its_choices(
    demands: list[Demand], capacity: Loss, n_max: int
) -> None:
    plan = allocate(demands, capacity, n_max)
    if isinstance(plan, Infeasible):
        return
    assert [allotment.ptk_id for allotment in plan] == [demand.ptk_id for demand in demands]
    for allotment, demand in zip(plan, demands, strict=True):
        assert Choice(allotment.loss, allotment.n_rows) in demand.menu
        assert allotment.n_rows <= n_max
    assert sum((allotment.loss for allotment in plan), NO_LOSS).fits(capacity)


def test_a_refusal_says_what_the_cheapest_choices_need() -> None:
    demands = [
        Demand("t.a", (Choice(Loss(7), 10), Choice(Loss(4), 20))),
        Demand("t.b", (Choice(Loss(5), 10),)),
    ]
    assert allocate(demands, Loss(8), 100) == Infeasible(needed=Loss(9), capacity=Loss(8))
    assert allocate(demands, Loss(9), 100) == (Allotment("t.a", Loss(4), 20), Allotment("t.b", Loss(5), 10))
    assert allocate(demands, Loss(11), 100) == (Allotment("t.a", Loss(4), 20), Allotment("t.b", Loss(5), 10))
    assert allocate(demands, Loss(12), 100) == (Allotment("t.a", Loss(7), 10), Allotment("t.b", Loss(5), 10))
    assert allocate((), Loss(1), 1) == ()
