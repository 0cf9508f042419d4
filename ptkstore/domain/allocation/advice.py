"""Advice for the administrator: rows needed against PTKs and against budget, and the window that holds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from ptkstore.domain.allocation.model import Demand, Infeasible, Limits, Plan
from ptkstore.domain.allocation.plans import allocate_partitions, first_feasible
from ptkstore.domain.allocation.search import Stop, never
from ptkstore.domain.losses import Loss
from ptkstore.errors import InvalidRequest

BUDGETS = tuple(Fraction(n, 8) for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32))
"""Shares of the policy's capacity for which rows are shown."""


@dataclass(frozen=True, slots=True)
class Point:
    """Rows needed by `n_ptks` PTKs with this capacity; None where no plan was found.

    `first_feasible_rows` are those of the least K that has a plan, as in the PTK paper; `bound` is a number that no
    plan goes below.
    """

    n_ptks: int
    capacity: Loss
    n_rows: int | None
    partitions: int
    bound: int | None
    first_feasible_rows: int | None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What a stream's PTKs need.

    `n_rows` is N, the rows of all partitions together, and `window` the least T whose train rows are expected to be
    that many; both None where `refusal` says that no plan exists. Only public numbers go in (PAPERS P8).
    """

    n_rows: int | None
    window: timedelta | None
    partitions: int
    by_ptks: tuple[Point, ...]
    by_budget: tuple[Point, ...]
    refusal: Infeasible | None


def recommend(
    demands: Sequence[Demand],
    limits: Limits,
    *,
    rows_per_window: int,
    window: timedelta,
    train_share: Decimal = Decimal(1),
    counts: Sequence[int] | None = None,
    stop: Stop = never,
) -> Recommendation:
    """Rows and window length that the demands need, and how both change with more PTKs or more budget.

    Parameters
    ----------
    rows_per_window : int
        Public, or a DP count that was paid for.
    window : timedelta
        The length of the window that holds so many rows.
    train_share : Decimal
        The public share of a window's rows that its train partitions hold.
    counts : sequence of int
        Numbers of PTKs to show; some up to twice the present number by default. Beyond it the mix repeats.
    """
    if rows_per_window < 1 or not 0 < train_share <= 1:
        raise InvalidRequest("a window needs at least one row and a train share above 0")
    most = max([limits.n_max, *(c.n_rows for d in demands for c in d.menu)])
    roomy = replace(limits, n_max=64 * most, partition_rows=None)
    plan = allocate_partitions(demands, roomy, stop=stop)
    shown = _counts(len(demands)) if counts is None else counts
    by_ptks = [_point(_mix(demands, count), roomy, stop) for count in shown if demands]
    by_budget = [_point(demands, _scaled(roomy, share), stop) for share in BUDGETS if demands]
    if isinstance(plan, Infeasible):
        return Recommendation(None, None, 0, tuple(by_ptks), tuple(by_budget), plan)
    return Recommendation(
        plan.total_rows,
        least_window(plan.total_rows, rows_per_window, window, train_share),
        plan.partitions_used,
        tuple(by_ptks),
        tuple(by_budget),
        None,
    )


def least_window(n_rows: int, rows_per_window: int, window: timedelta, train_share: Decimal) -> timedelta:
    """The shortest window, in whole seconds, whose train partitions expect `n_rows` at the present rate."""
    seconds = Fraction(int(window.total_seconds())) * n_rows / (rows_per_window * Fraction(train_share))
    return timedelta(seconds=max(1, math.ceil(seconds)))


def _counts(present: int) -> list[int]:
    most = 2 * max(present, 1)
    return sorted({max(1, round(most * step / 16)) for step in range(1, 17)} | {max(present, 1)})


def _mix(demands: Sequence[Demand], count: int) -> list[Demand]:
    """So many PTKs of the present kinds; repetitions are not pinned."""
    size = len(demands)
    return [
        demands[i]
        if i < size
        else replace(demands[i % size], ptk_id=f"{demands[i % size].ptk_id}#{i // size}", partition=None)
        for i in range(count)
    ]


def _scaled(limits: Limits, share: Fraction) -> Limits:
    capacity = replace(limits.capacity, epsilon_nano=int(limits.capacity.epsilon_nano * share))
    return replace(
        limits, capacity=capacity, amount=None if limits.amount is None else int(limits.amount * share)
    )


def _point(demands: Sequence[Demand], limits: Limits, stop: Stop) -> Point:
    plan = allocate_partitions(demands, limits, bound_rounds=20, stop=stop)
    first = first_feasible(demands, limits, stop=stop)
    rows = first.total_rows if isinstance(first, Plan) else None
    if isinstance(plan, Infeasible):
        return Point(len(demands), limits.capacity, None, 0, None, rows)
    return Point(len(demands), limits.capacity, plan.total_rows, plan.partitions_used, plan.bound, rows)
