"""Advice for the administrator: rows needed against PTKs and against budget, and the window that holds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

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
    """What a stream's PTKs need.

    `n_rows` is N, the rows of all partitions together, and `window` the least T whose train rows are expected to be
    that many; both None where `refusal` says that no plan exists. Only public numbers go in (differences.md P8).
    """

    n_rows: int | None
    window: timedelta | None
    partitions: int
    by_ptks: tuple[Point, ...]
    by_budget: tuple[Point, ...]
    refusal: Infeasible | None


class Needs(Protocol):
    """How many rows so many PTKs of the present mix need with so large a share of the capacity."""

    def __call__(self, n_ptks: int, share: Fraction) -> Need | Infeasible:
        """`n_ptks` beyond the present number repeat the mix."""
        ...


@dataclass(frozen=True, slots=True)
class Need:
    """Rows, and those of the least K that has a plan; `bound` is a number that no such plan goes below."""

    n_rows: int
    partitions: int
    bound: int
    first_feasible_rows: int | None


def recommend(
    needs: Needs,
    present: int,
    capacity: Loss,
    *,
    rows_per_window: int,
    window: timedelta,
    train_share: Decimal = Decimal(1),
    counts: Sequence[int] | None = None,
) -> Recommendation:
    """Rows and window length that `present` PTKs need, and how both change with more PTKs or more budget.

    Parameters
    ----------
    needs : callable
        Plans as the stream's accountant does.
    rows_per_window : int
        Public, or a DP count that was paid for.
    window : timedelta
        The length of the window that holds so many rows.
    train_share : Decimal
        The public share of a window's rows that its train partitions hold.
    counts : sequence of int
        Numbers of PTKs to show; some up to twice the present number by default.
    """
    if rows_per_window < 1 or not 0 < train_share <= 1:
        raise InvalidRequest("a window needs at least one row and a train share above 0")
    if not present:
        return Recommendation(0, least_window(0, rows_per_window, window, train_share), 0, (), (), None)
    shown = _counts(present) if counts is None else counts
    by_ptks = tuple(_point(needs, count, Fraction(1), capacity) for count in shown)
    by_budget = tuple(_point(needs, present, share, capacity) for share in BUDGETS)
    need = needs(present, Fraction(1))
    if isinstance(need, Infeasible):
        return Recommendation(None, None, 0, by_ptks, by_budget, need)
    return Recommendation(
        need.n_rows,
        least_window(need.n_rows, rows_per_window, window, train_share),
        need.partitions,
        by_ptks,
        by_budget,
        None,
    )


def scaled(capacity: Loss, share: Fraction) -> Loss:
    """A share of a capacity's epsilon; its delta stays."""
    return replace(capacity, epsilon_nano=int(capacity.epsilon_nano * share))


def least_window(n_rows: int, rows_per_window: int, window: timedelta, train_share: Decimal) -> timedelta:
    """The shortest window, in whole seconds, whose train partitions expect `n_rows` at the present rate."""
    seconds = Fraction(int(window.total_seconds())) * n_rows / (rows_per_window * Fraction(train_share))
    return timedelta(seconds=max(1, math.ceil(seconds)))


def _counts(present: int) -> list[int]:
    most = 2 * max(present, 1)
    return sorted({max(1, round(most * step / 16)) for step in range(1, 17)} | {max(present, 1)})


def _point(needs: Needs, n_ptks: int, share: Fraction, capacity: Loss) -> Point:
    need, offered = needs(n_ptks, share), scaled(capacity, share)
    if isinstance(need, Infeasible):
        return Point(n_ptks, offered, None, 0, None, None)
    return Point(n_ptks, offered, need.n_rows, need.partitions, need.bound, need.first_feasible_rows)
