"""Advice for the administrator: rows needed against PTKs and against budget, and a window with so many rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.allocation.model import Infeasible
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
    """The needs of a stream's PTKs.

    `n_rows` is N, the rows of all partitions together, and `window` the least T whose train rows are expected to be
    that many. Both are None if `refusal` says that no plan exists. Only public numbers go in (differences.md P8).
    """

    n_rows: int | None
    window: timedelta | None
    partitions: int
    by_ptks: tuple[Point, ...]
    by_budget: tuple[Point, ...]
    refusal: Infeasible | None


@dataclass(frozen=True, slots=True)
class Need:
    """Rows, and those of the least K that has a plan; `bound` is a number that no such plan goes below."""

    n_rows: int
    partitions: int
    bound: int
    first_feasible_rows: int | None


Needs = Callable[[int, Fraction], Need | Infeasible]
"""What so many PTKs, the present mix repeated, need with so large a share of the capacity."""


def recommend(
    needs: Needs,
    present: int,
    capacity: Loss,
    *,
    rows_per_window: int,
    window: timedelta,
    train_share: Decimal = Decimal(1),
) -> Recommendation:
    """Recommend rows and window length for `present` PTKs, and show how both change with more PTKs or more budget.

    Parameters
    ----------
    needs : callable
        Plans as the stream's accountant does.
    rows_per_window : int
        The rows of a window of length `window`: public, or a DP count that was paid for.
    train_share : Decimal
        The public share of a window's rows that its train partitions hold.
    """
    if rows_per_window < 1 or not 0 < train_share <= 1:
        raise InvalidRequest("a window needs at least one row and a train share above 0")

    def least_window(n_rows: int) -> timedelta:
        """The shortest one, in whole seconds, whose train partitions expect so many rows at the present rate."""
        seconds = Fraction(int(window.total_seconds())) * n_rows / (rows_per_window * Fraction(train_share))
        return timedelta(seconds=max(1, math.ceil(seconds)))

    if not present:
        return Recommendation(0, least_window(0), 0, (), (), None)
    counts = sorted({max(1, round(present * step / 8)) for step in range(1, 17)} | {present})
    by_ptks = tuple(_point(needs, count, Fraction(1), capacity) for count in counts)
    by_budget = tuple(_point(needs, present, share, capacity) for share in BUDGETS)
    need = needs(present, Fraction(1))
    if isinstance(need, Infeasible):
        return Recommendation(None, None, 0, by_ptks, by_budget, need)
    return Recommendation(need.n_rows, least_window(need.n_rows), need.partitions, by_ptks, by_budget, None)


def scaled(capacity: Loss, share: Fraction) -> Loss:
    """Return a share of a capacity's epsilon; its delta stays."""
    return replace(capacity, epsilon_nano=int(capacity.epsilon_nano * share))


def _point(needs: Needs, n_ptks: int, share: Fraction, capacity: Loss) -> Point:
    need, offered = needs(n_ptks, share), scaled(capacity, share)
    if isinstance(need, Infeasible):
        return Point(n_ptks, offered, None, 0, None, None)
    return Point(n_ptks, offered, need.n_rows, need.partitions, need.bound, need.first_feasible_rows)
