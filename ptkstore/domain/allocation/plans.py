"""Plans of a window: who trains with which loss, on how many rows, in which partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptklib.arrays import Ints
from ptkstore.domain.allocation.bound import lower_bound
from ptkstore.domain.allocation.exact import Placement, in_one, in_two
from ptkstore.domain.allocation.halves import GLANCE
from ptkstore.domain.allocation.model import (
    Allotment,
    Choice,
    Demand,
    Infeasible,
    Limits,
    Reason,
    WindowPlan,
    pruned,
)
from ptkstore.domain.allocation.program import LARGEST, Program, program_of
from ptkstore.domain.allocation.refusals import Menus, fits, infeasible, refused_at_once
from ptkstore.domain.allocation.search import in_many
from ptkstore.errors import InvalidRequest


def allocate_partitions(
    demands: Sequence[Demand], limits: Limits, *, bound_rounds: int = 0
) -> WindowPlan | Infeasible:
    """Minimise the sum over partitions of the largest n in each, K at most `limits.partitions` and chosen here.

    One and two partitions are solved exactly. More are searched: the plan is a local optimum under exact exchanges
    between any two partitions. Losses are whole numbers throughout, so nothing is lost to rounding.

    Parameters
    ----------
    bound_rounds : int
        Steps that a lower bound for more than two partitions is improved by; 0 gives only the obvious one.

    Raises
    ------
    InvalidRequest
        A demand has no choice, or a pin names no partition.
    """
    _check(demands, limits)
    if not demands:
        return WindowPlan((), (0,) * limits.partitions, 0)
    menus = [pruned(demand.menu) for demand in demands]
    refusal = refused_at_once(demands, menus, limits)
    if refusal is not None:
        return refusal
    within = [tuple(c for c in menu if fits(c, limits)) for menu in menus]
    best: WindowPlan | None = None
    proven = True
    for view in _views(within, limits):
        solution, sure = _solved(demands, view, limits, bound_rounds)
        proven &= sure
        if solution is not None and (best is None or solution.total_rows < best.total_rows):
            best = solution
    if best is None:
        return infeasible(menus, limits, Reason.EPSILON, proven=proven)
    if best.total_rows > limits.n_max:
        sure = best.bound > limits.n_max
        return infeasible(menus, limits, Reason.ROWS, rows_needed=best.bound, proven=sure)
    return best


def first_feasible(demands: Sequence[Demand], limits: Limits) -> WindowPlan | Infeasible:
    """Return the plan for the least K that has one, as in the PTK paper (section 5.3); for comparison."""
    plan: WindowPlan | Infeasible = WindowPlan((), (0,) * limits.partitions, 0)
    least = 1 + max((demand.partition for demand in demands if demand.partition is not None), default=0)
    for partitions in range(least, limits.partitions + 1):
        plan = allocate_partitions(demands, replace(limits, partitions=partitions))
        if isinstance(plan, WindowPlan):
            break
    return plan


@dataclass(frozen=True, slots=True)
class _View:
    """Menus with one delta per PTK; whether that left nothing out; rows that some PTK needs whatever its loss."""

    menus: Menus
    deltas: list[int]
    complete: bool
    floor: int


def _views(menus: Menus, limits: Limits) -> list[_View]:
    """The menus with the largest delta of each; where that is too strict, also those with the least alone."""
    most = [max(c.loss.delta_atto for c in menu) for menu in menus]
    least = [min(c.loss.delta_atto for c in menu) for menu in menus]
    complete = most == least or sum(most) <= limits.capacity.delta_atto
    floor = max(min(c.n_rows for c in menu) for menu in menus)
    views = [_View([_by_rows(menu) for menu in menus], most, complete, floor)]
    if not complete:
        thrifty = [tuple(c for c in m if c.loss.delta_atto == d) for m, d in zip(menus, least, strict=True)]
        views.append(_View([_by_rows(menu) for menu in thrifty], least, False, floor))
    return views


def _by_rows(menu: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Rows up, costs down: for each number of rows the cheapest choice."""
    kept: list[Choice] = []
    for choice in menu:
        if not kept or choice.cost < kept[-1].cost:
            kept.append(choice)
    return tuple(kept)


def _check(demands: Sequence[Demand], limits: Limits) -> None:
    if limits.partitions < 1 or limits.most_rows < 1:
        raise InvalidRequest("a window has at least one partition and one row")
    for demand in demands:
        if not demand.menu:
            raise InvalidRequest(f"{demand.ptk_id} has an empty menu")
        if demand.partition is not None and not 0 <= demand.partition < limits.partitions:
            raise InvalidRequest(f"{demand.ptk_id} is pinned to a partition that is not there")
    if (max(limits.cost, limits.capacity.delta_atto) + 1) * (len(demands) + 1) > LARGEST:
        raise InvalidRequest("too many PTKs for amounts of this size")


def _solved(
    demands: Sequence[Demand], view: _View, limits: Limits, bound_rounds: int
) -> tuple[WindowPlan | None, bool]:
    """The plan for menus with one delta each, and whether having none, or no better one, is proven."""
    pins = [-1 if demand.partition is None else demand.partition for demand in demands]
    free = all(pin < 0 for pin in pins)
    used = min(limits.partitions, len(demands)) if free else limits.partitions
    program = program_of(
        [[(c.cost, c.n_rows) for c in menu] for menu in view.menus],
        view.deltas,
        pins,
        capacity=limits.cost,
        delta_capacity=limits.capacity.delta_atto,
        partitions=used,
    )
    placement, proven = _placed(program, limits)
    proven &= view.complete
    if placement is None:
        return None, proven
    bound = view.floor
    if proven:
        bound = placement.total
    elif bound_rounds and view.complete:
        bound = max(bound, lower_bound(program, placement, bound_rounds))
    return _plan(demands, view.menus, placement, limits.partitions, bound, relabel=free), proven


def _placed(program: Program, limits: Limits) -> tuple[Placement | None, bool]:
    one = in_one(program)
    if program.partitions == 1:
        return one, True
    if program.partitions == 2:
        two, proven = in_two(program, one.total if one else 2 * limits.most_rows + 1)
        return two or one, proven
    best = in_many(program) or one
    if one is not None and best is not None and one.total < best.total:
        best = one
    if (program.pins < 2).all():  # never worse than two
        two, _ = in_two(program, best.total if best else 2 * limits.most_rows + 1, GLANCE)
        best = two or best
    return best, False


def _plan(
    demands: Sequence[Demand],
    menus: Menus,
    placement: Placement,
    partitions: int,
    bound: int,
    *,
    relabel: bool,
) -> WindowPlan:
    """Each PTK's cheapest choice within its partition's cap; partitions by falling cap where none is pinned."""
    caps = np.array([*placement.caps, *[0] * (partitions - len(placement.caps))], dtype=np.int64)
    order = np.argsort(-caps, kind="stable") if relabel else np.arange(partitions)
    label: Ints = np.empty(partitions, dtype=np.int64)
    label[order] = np.arange(partitions)
    allotments = []
    for demand, menu, part in zip(demands, menus, placement.parts.tolist(), strict=True):
        choice = [c for c in menu if c.n_rows <= int(caps[part])][-1]
        allotments.append(Allotment(demand.ptk_id, choice.loss, choice.n_rows, int(label[part])))
    return WindowPlan(tuple(allotments), tuple(int(cap) for cap in caps[order]), bound)
