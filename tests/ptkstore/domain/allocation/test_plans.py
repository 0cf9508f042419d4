"""Plans over several partitions against a search over all of them, and against a generic solver."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.allocator_instances import RowCurve, geometric_grid, menu_of
from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.allocation import plans
from ptkstore.domain.allocation.model import Choice, Demand, Infeasible, Limits, Reason, WindowPlan
from ptkstore.domain.allocation.plans import allocate_partitions, first_feasible
from ptkstore.errors import InvalidRequest

ROWS = st.integers(1, 30)


def menus(deltas: bool) -> st.SearchStrategy[tuple[Choice, ...]]:
    choice = st.builds(lambda epsilon, rows: (epsilon, rows), st.integers(1, 9), ROWS)
    delta = st.integers(0, 3) if deltas else st.just(0)
    return st.builds(
        lambda choices, d: tuple(Choice(Loss(epsilon, d), rows) for epsilon, rows in choices),
        st.lists(choice, min_size=1, max_size=3),
        delta,
    )


def demands_of(*, most: int = 4, deltas: bool = True, pins: int = 0) -> st.SearchStrategy[list[Demand]]:
    pin = st.one_of(st.none(), st.integers(0, pins - 1)) if pins else st.none()
    one = st.tuples(menus(deltas), pin)
    return st.lists(one, max_size=most).map(
        lambda drawn: [Demand(f"t.p{i}", menu, pin) for i, (menu, pin) in enumerate(drawn)]
    )


def limits_of(partitions: st.SearchStrategy[int]) -> st.SearchStrategy[Limits]:
    capacity = st.builds(Loss, st.integers(1, 20), st.integers(0, 6))
    held = st.one_of(st.none(), st.integers(1, 40))
    return st.builds(Limits, capacity, st.integers(1, 80), partitions, partition_rows=held)


def least_rows(demands: list[Demand], limits: Limits) -> int | None:
    """The least rows over every choice of every PTK in every partition."""
    best: int | None = None
    places = [
        [(c, k) for c in d.menu for k in range(limits.partitions) if d.partition in (None, k)]
        for d in demands
    ]
    for chosen in product(*places):
        caps = [0] * limits.partitions
        taken = [NO_LOSS] * limits.partitions
        for choice, part in chosen:
            caps[part] = max(caps[part], choice.n_rows)
            taken[part] = taken[part] + choice.loss
        rows = sum(caps)
        held = all(cap <= (limits.partition_rows or cap) for cap in caps)
        if held and rows <= limits.n_max and all(t.fits(limits.capacity) for t in taken):
            best = rows if best is None else min(best, rows)
    return best


def check(plan: WindowPlan, demands: list[Demand], limits: Limits) -> None:
    """The plan is one: everybody once, from its own menu, where it is pinned to, within capacities and rows."""
    assert [allotment.ptk_id for allotment in plan.allotments] == [demand.ptk_id for demand in demands]
    for allotment, demand in zip(plan.allotments, demands, strict=True):
        assert (allotment.loss, allotment.n_rows) in [(choice.loss, choice.n_rows) for choice in demand.menu]
        assert demand.partition in (None, allotment.partition)
    assert len(plan.caps) == limits.partitions
    for part, cap in enumerate(plan.caps):
        members = [allotment for allotment in plan.allotments if allotment.partition == part]
        assert max((allotment.n_rows for allotment in members), default=0) == cap
        assert sum((allotment.loss for allotment in members), NO_LOSS).fits(limits.capacity)
        assert limits.partition_rows is None or cap <= limits.partition_rows
    assert plan.total_rows <= limits.n_max
    assert plan.bound <= plan.total_rows


@settings(max_examples=150, deadline=None)
@given(demands=demands_of(), limits=limits_of(st.integers(1, 2)))
def test_up_to_two_partitions_are_solved_to_the_optimum(demands: list[Demand], limits: Limits) -> None:
    plan, best = allocate_partitions(demands, limits), least_rows(demands, limits)
    if isinstance(plan, Infeasible):
        assert plan.proven
        assert best is None
    else:
        check(plan, demands, limits)
        assert plan.is_optimal
        assert plan.total_rows == best


@pytest.mark.parametrize("partitions", [1, 2])
def test_windows_at_the_edge_of_their_capacity_are_solved_to_the_optimum(partitions: int) -> None:
    """Capacities are the loads of some plan, one unit more or less: where an inexact decision shows."""
    draw = np.random.default_rng(partitions)
    for _ in range(250):
        demands = [
            Demand(
                f"t.p{i}",
                tuple(Choice(Loss(int(draw.integers(1, 9))), int(draw.integers(1, 30))) for _ in range(3)),
                int(draw.integers(partitions)) if draw.random() < 0.2 else None,
            )
            for i in range(int(draw.integers(1, 5)))
        ]
        loads = [0] * partitions
        for demand in demands:
            part = int(draw.integers(partitions)) if demand.partition is None else demand.partition
            loads[part] += demand.menu[int(draw.integers(3))].cost
        capacity = max(1, max(loads) + int(draw.integers(-1, 2)))
        limits = Limits(Loss(capacity), int(draw.integers(20, 70)), partitions)
        plan, best = allocate_partitions(demands, limits), least_rows(demands, limits)
        assert (plan.total_rows if isinstance(plan, WindowPlan) else None) == best
        if isinstance(plan, WindowPlan):
            check(plan, demands, limits)
        else:
            assert plan.rows_needed is None or plan.rows_needed > limits.n_max


@settings(max_examples=100, deadline=None)
@given(demands=demands_of(pins=2), limits=limits_of(st.just(2)))
def test_pinned_ptks_stay_in_their_partition_and_the_rest_is_still_optimal(
    demands: list[Demand], limits: Limits
) -> None:
    plan, best = allocate_partitions(demands, limits), least_rows(demands, limits)
    if isinstance(plan, Infeasible):
        assert best is None
    else:
        check(plan, demands, limits)
        assert plan.total_rows == best


def test_where_ptks_are_pinned_the_first_partition_may_be_the_smaller_one() -> None:
    menus = [((7, 4), (2, 9)), ((5, 3),), ((9, 4), (1, 5)), ((10, 8), (3, 14))]
    pins = (None, 1, None, 1)
    demands = [
        Demand(f"t.p{i}", tuple(Choice(Loss(epsilon), rows) for epsilon, rows in menu), pin)
        for i, (menu, pin) in enumerate(zip(menus, pins, strict=True))
    ]
    plan = allocate_partitions(demands, Limits(Loss(10), 100, 2))
    assert isinstance(plan, WindowPlan)
    assert (plan.caps, plan.is_optimal) == ((4, 14), True)


@settings(max_examples=60, deadline=None)
@given(demands=demands_of(pins=3), limits=limits_of(st.just(3)), bound_rounds=st.integers(0, 20))
def test_more_partitions_give_plans_between_the_bound_and_a_local_optimum(
    demands: list[Demand], limits: Limits, bound_rounds: int
) -> None:
    plan = allocate_partitions(demands, limits, bound_rounds=bound_rounds)
    best = least_rows(demands, limits)
    if isinstance(plan, Infeasible):
        assert best is None or not plan.proven
    else:
        check(plan, demands, limits)
        assert best is not None
        assert plan.bound <= best <= plan.total_rows


@settings(max_examples=60, deadline=None)
@given(
    demands=demands_of(most=5, deltas=False),
    limits=limits_of(st.integers(1, 2)),
    extra=st.integers(1, 9),
    more=ROWS,
)
def test_more_budget_a_partition_or_another_choice_never_costs_rows(
    demands: list[Demand], limits: Limits, extra: int, more: int
) -> None:
    plan = allocate_partitions(demands, limits)
    if isinstance(plan, Infeasible):
        return
    richer = replace(limits, capacity=Loss(limits.capacity.epsilon_nano + extra, limits.capacity.delta_atto))
    longer = [replace(d, menu=(*d.menu, Choice(Loss(extra), more))) for d in demands]
    for variant in (
        allocate_partitions(demands, richer),
        allocate_partitions(longer, limits),
        allocate_partitions(demands, replace(limits, partitions=2)),
    ):
        assert isinstance(variant, WindowPlan)
        assert variant.total_rows <= plan.total_rows


@settings(max_examples=60, deadline=None)
@given(demands=demands_of(), limits=limits_of(st.integers(1, 2)))
def test_amounts_far_beyond_floats_decide_as_small_ones_do(demands: list[Demand], limits: Limits) -> None:
    """Every amount times 10**15, and capacities one unit short of it: no rounding may let one more in."""
    factor = 10**15

    def scaled(loss: Loss, short: int = 0) -> Loss:
        return Loss(loss.epsilon_nano * factor + short, loss.delta_atto)

    large = [replace(d, menu=tuple(Choice(scaled(c.loss), c.n_rows) for c in d.menu)) for d in demands]
    same = allocate_partitions(large, replace(limits, capacity=scaled(limits.capacity)))
    short = allocate_partitions(large, replace(limits, capacity=scaled(limits.capacity, -1)))
    expected = least_rows(demands, limits)
    fewer = least_rows(
        demands, replace(limits, capacity=Loss(limits.capacity.epsilon_nano - 1, limits.capacity.delta_atto))
    )
    assert (same.total_rows if isinstance(same, WindowPlan) else None) == expected
    assert (short.total_rows if isinstance(short, WindowPlan) else None) == fewer


@settings(max_examples=60, deadline=None)
@given(
    menus=st.lists(
        st.lists(
            st.builds(Choice, st.builds(Loss, st.integers(1, 6), st.integers(0, 3)), ROWS),
            min_size=1,
            max_size=3,
        ),
        max_size=4,
    ),
    limits=limits_of(st.integers(1, 2)),
)
def test_deltas_that_differ_within_a_menu_never_break_a_plan_or_a_proof(
    menus: list[list[Choice]], limits: Limits
) -> None:
    demands = [Demand(f"t.p{i}", tuple(menu)) for i, menu in enumerate(menus)]
    plan, best = allocate_partitions(demands, limits), least_rows(demands, limits)
    if isinstance(plan, Infeasible):
        assert best is None or not plan.proven
    else:
        check(plan, demands, limits)
        assert best is not None
        assert plan.bound <= best <= plan.total_rows


@given(demands=demands_of(most=3, deltas=False), limits=limits_of(st.integers(1, 3)))
@settings(max_examples=40, deadline=None)
def test_the_first_feasible_number_of_partitions_never_opens_fewer_rows(
    demands: list[Demand], limits: Limits
) -> None:
    first, plan = first_feasible(demands, limits), allocate_partitions(demands, limits)
    if isinstance(first, WindowPlan):
        assert isinstance(plan, WindowPlan)
        assert plan.total_rows <= first.total_rows


def curves(count: int, seed: int) -> list[Demand]:
    draw = np.random.default_rng(seed)
    grid = geometric_grid(Loss(10**7), Loss(10**9), 8)
    return [
        Demand(
            f"t.p{i:02}",
            menu_of(RowCurve(*np.exp(draw.normal([8.0, 6.0, 3.2], 1.2)).tolist()), grid),
        )
        for i in range(count)
    ]


def by_a_generic_solver(demands: list[Demand], partitions: int) -> float:
    """HiGHS on x_ijk and the partitions' caps, to a proven optimum."""
    cells = [(i, k, c) for i, d in enumerate(demands) for c in d.menu for k in range(partitions)]
    width = len(cells) + partitions
    assign = np.zeros((len(demands), width))
    losses = np.zeros((partitions, width))
    caps = np.zeros((len(demands) * partitions, width))
    for place, (i, k, choice) in enumerate(cells):
        assign[i, place] = 1
        losses[k, place] = choice.cost / 10**9
        caps[i * partitions + k, place] = -choice.n_rows / 1e4
        caps[i * partitions + k, len(cells) + k] = 1
    answer = milp(
        np.repeat([0.0, 1.0], [len(cells), partitions]),
        constraints=[
            LinearConstraint(assign, 1, 1),
            LinearConstraint(losses, -np.inf, 1),
            LinearConstraint(caps, 0, np.inf),
        ],
        integrality=np.repeat([1, 0], [len(cells), partitions]),
        bounds=Bounds(0, np.repeat([1, np.inf], [len(cells), partitions])),
    )
    assert answer.status == 0
    return float(answer.fun) * 1e4


@pytest.mark.parametrize(("count", "partitions"), [(40, 1), (8, 2), (6, 3)])
def test_a_generic_solver_finds_the_same_rows(count: int, partitions: int) -> None:
    demands = curves(count, seed=count)
    plan = allocate_partitions(demands, Limits(Loss(10**9), 10**7, partitions), bound_rounds=50)
    assert isinstance(plan, WindowPlan)
    # the solver's tolerances: 1e-6 in a constraint, 1e-4 in the optimum
    assert plan.total_rows == pytest.approx(by_a_generic_solver(demands, partitions), rel=2e-4)


def test_fifty_ptks_in_two_partitions_are_proven_optimal() -> None:
    demands = curves(50, seed=1)
    plan = allocate_partitions(demands, Limits(Loss(10**9), 10**9, 2))
    assert isinstance(plan, WindowPlan)
    check(plan, demands, Limits(Loss(10**9), 10**9, 2))
    assert plan.is_optimal


def test_a_hundred_ptks_in_six_partitions_get_a_plan_near_the_bound_and_the_same_one_each_time() -> None:
    demands, limits = curves(100, seed=2), Limits(Loss(10**9), 10**9, 6)
    plan = allocate_partitions(demands, limits, bound_rounds=60)
    assert isinstance(plan, WindowPlan)
    check(plan, demands, limits)
    assert plan.total_rows <= 1.1 * plan.bound
    assert [*plan.caps] == sorted(plan.caps, reverse=True)
    assert allocate_partitions(demands, limits, bound_rounds=60) == plan
    first = first_feasible(demands, limits)
    assert isinstance(first, WindowPlan)
    assert first.total_rows > 2 * plan.total_rows


def test_equal_halves_of_a_capacity_without_slack_are_found() -> None:
    """PARTITION: amounts of a shared grid that two partitions hold exactly, and not with one unit less."""
    amounts = [int(x) * 10**7 for x in np.random.default_rng(4).integers(1, 10, 40)]
    amounts.append(10**7 * (2 - sum(amounts) // 10**7 % 2))
    demands = [Demand(f"t.p{i}", (Choice(Loss(amount), 5),)) for i, amount in enumerate(amounts)]
    half = Loss(sum(amounts) // 2)
    plan = allocate_partitions(demands, Limits(half, 10, 2))
    assert isinstance(plan, WindowPlan)
    check(plan, demands, Limits(half, 10, 2))
    short = allocate_partitions(demands, Limits(half - Loss(1), 10, 2))
    assert isinstance(short, Infeasible)
    assert (short.reason, short.proven) == (Reason.EPSILON, True)


def test_a_search_that_had_to_leave_something_out_claims_no_proof() -> None:
    """PARTITION with amounts that share no grid: the sums that would have to be told apart are too many."""
    amounts = [int(x) for x in np.random.default_rng(4).integers(10**7, 10**8, 40)]
    amounts += [2 * 10**9 - sum(amounts) % 10**9]
    demands = [Demand(f"t.p{i}", (Choice(Loss(amount), 5),)) for i, amount in enumerate(amounts)]
    half = Loss((sum(amounts) + 1) // 2)
    plan = allocate_partitions(demands, Limits(half, 10, 2))
    if isinstance(plan, WindowPlan):
        check(plan, demands, Limits(half, 10, 2))
    else:
        assert not plan.proven


def test_a_scalar_other_than_epsilon_decides_where_the_caller_gives_one() -> None:
    menu = (Choice(Loss(5), 10, amount=70), Choice(Loss(9), 20, amount=30))
    demands = [Demand("t.a", menu), Demand("t.b", menu)]
    plan = allocate_partitions(demands, Limits(Loss(1), 100, 1, amount=100))
    assert isinstance(plan, WindowPlan)
    assert [(allotment.loss, allotment.n_rows) for allotment in plan.allotments] == [
        (Loss(9), 20),
        (Loss(9), 20),
    ]
    assert isinstance(allocate_partitions(demands, Limits(Loss(1), 100, 1, amount=59)), Infeasible)


def one(ptk_id: str, epsilon: int, rows: int, delta: int = 0) -> Demand:
    return Demand(ptk_id, (Choice(Loss(epsilon, delta), rows),))


@pytest.mark.parametrize(
    ("demands", "limits", "reason", "ptk_ids", "says"),
    [
        (
            [one("t.a", 1, 50), one("t.b", 1, 5)],
            Limits(Loss(9), 20, 4),
            Reason.ROWS,
            ("t.a",),
            "50 rows are needed",
        ),
        (
            [one("t.a", 8, 5), one("t.b", 1, 5)],
            Limits(Loss(4), 20, 4),
            Reason.EPSILON,
            ("t.a",),
            "not fit alone",
        ),
        ([one("t.a", 1, 5, 3)], Limits(Loss(4, 2), 20, 4), Reason.DELTA, ("t.a",), "delta"),
        ([one(f"t.{i}", 3, 5) for i in range(5)], Limits(Loss(5), 99, 4), Reason.EPSILON, (), "need epsilon"),
        ([one(f"t.{i}", 1, 5, 1) for i in range(5)], Limits(Loss(5, 1), 99, 4), Reason.DELTA, (), "delta"),
        (
            [one(f"t.{i}", 3, 30) for i in range(4)],
            Limits(Loss(5), 60, 4),
            Reason.ROWS,
            (),
            "60 is the planning",
        ),
        (
            [one(f"t.{i}", 3, 30) for i in range(2)],
            Limits(Loss(5), 50, 2),
            Reason.ROWS,
            (),
            "at least 60 rows",
        ),
        (
            [Demand(f"t.{i}", (Choice(Loss(5), 5), Choice(Loss(1), 99))) for i in range(3)],
            Limits(Loss(5), 50, 2),
            Reason.ROWS,
            (),
            "50 is the planning bound",
        ),
        (
            [replace(one(f"t.{i}", 3, 5), partition=1) for i in range(2)],
            Limits(Loss(5), 50, 3),
            Reason.EPSILON,
            (),
            "in each of 3 partitions",
        ),
    ],
)
def test_a_refusal_names_what_there_is_too_little_of(
    demands: list[Demand], limits: Limits, reason: Reason, ptk_ids: tuple[str, ...], says: str
) -> None:
    answer = allocate_partitions(demands, limits, bound_rounds=100)
    assert isinstance(answer, Infeasible)
    assert (answer.reason, answer.ptk_ids, answer.proven) == (reason, ptk_ids, True)
    assert says in str(answer)


def test_without_a_bound_a_plan_that_was_not_found_is_not_called_impossible() -> None:
    demands = [one(f"t.{i}", 3, 30) for i in range(4)]
    answer = allocate_partitions(demands, Limits(Loss(5), 60, 4))
    assert isinstance(answer, Infeasible)
    assert (answer.reason, answer.rows_needed, answer.proven) == (Reason.ROWS, 30, False)


def test_five_hundred_ptks_without_room_are_refused_before_any_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plans, "in_many", lambda program: pytest.fail("a search has begun"))
    demands = [one(f"t.{i}", 21, 5) for i in range(500)]
    answer = allocate_partitions(demands, Limits(Loss(1000), 99, 10))
    assert isinstance(answer, Infeasible)
    assert (answer.reason, answer.proven, answer.needed) == (Reason.EPSILON, True, Loss(10_500))


@pytest.mark.parametrize(
    ("demands", "limits"),
    [
        ([Demand("t.a", ())], Limits(Loss(1), 1)),
        ([replace(one("t.a", 1, 1), partition=2)], Limits(Loss(1), 1, 2)),
        ([one("t.a", 1, 1)], Limits(Loss(1), 1, 0)),
        ([one("t.a", 1, 1)], Limits(Loss(1), 0)),
        ([one("t.a", 1, 0)], Limits(Loss(1), 1)),
        ([one("t.a", 1, 1)], Limits(Loss(2**62), 1)),
    ],
)
def test_what_is_no_allocation_is_refused(demands: list[Demand], limits: Limits) -> None:
    with pytest.raises(InvalidRequest):
        allocate_partitions(demands, limits)


def test_nobody_needs_nothing() -> None:
    assert allocate_partitions([], Limits(Loss(1), 1, 3)) == WindowPlan((), (0, 0, 0), 0)


def test_a_partition_for_each_is_used_where_that_opens_the_fewest_rows() -> None:
    demands = [one(f"t.{i}", 6, rows) for i, rows in enumerate((40, 30, 20, 10))]
    plan = allocate_partitions(demands, Limits(Loss(10), 100, 9))
    assert isinstance(plan, WindowPlan)
    assert (plan.caps, plan.partitions_used) == ((40, 30, 20, 10, 0, 0, 0, 0, 0), 4)
    assert all(a >= b for a, b in pairwise(plan.caps))
