"""Menus: the (loss, rows) pairs in which a PTK reaches its target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ptkstore.domain.accounting.losses import NANO, Loss
from ptkstore.domain.allocation.model import Choice, Demand
from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class RowCurve:
    """Rows to a target as n(epsilon) = base + linear / epsilon + quadratic / epsilon^2, rounded up.

    The form of errors that fall with n and with n epsilon: sampling, Laplace noise on means, and noise whose variance
    is met in a square.
    """

    base: float
    linear: float = 0.0
    quadratic: float = 0.0

    def __post_init__(self) -> None:
        parts = (self.base, self.linear, self.quadratic)
        if not all(math.isfinite(part) and part >= 0 for part in parts):
            raise InvalidRequest("the coefficients of a row curve must be finite and at least 0")

    def __call__(self, epsilon: float) -> int:
        """Rows needed at `epsilon`, at least 1."""
        return max(1, math.ceil(self.base + self.linear / epsilon + self.quadratic / epsilon**2))


def geometric_grid(least: Loss, most: Loss, points: int) -> tuple[Loss, ...]:
    """`points` epsilons from `least` to `most`, each by the same factor above the last; deltas are `most`'s."""
    if points < 1 or not 0 < least.epsilon_nano <= most.epsilon_nano:
        raise InvalidRequest("a grid needs at least one point and 0 < least <= most")
    low, high = least.epsilon_nano, most.epsilon_nano
    steps = [high if points == 1 else round(low * (high / low) ** (j / (points - 1))) for j in range(points)]
    steps[-1] = high
    return tuple(Loss(step, most.delta_atto) for step in sorted(set(steps)))


def menu_of(rows: Callable[[float], int], losses: Iterable[Loss]) -> tuple[Choice, ...]:
    """The menu of a PTK that needs `rows(epsilon)` rows, on a grid of losses."""
    return pruned([Choice(loss, rows(loss.epsilon_nano / NANO)) for loss in losses])


def pruned(menu: Iterable[Choice]) -> tuple[Choice, ...]:
    """The choices that no other one beats in cost, delta and rows; fewest rows first."""
    kept: list[Choice] = []
    for choice in sorted(menu, key=lambda c: (c.n_rows, c.cost, c.loss.delta_atto)):
        if choice.n_rows < 1 or choice.cost < 0:
            raise InvalidRequest("a choice needs at least one row and a cost that is not negative")
        if not any(k.cost <= choice.cost and k.loss.delta_atto <= choice.loss.delta_atto for k in kept):
            kept.append(choice)
    return tuple(kept)


def within(demand: Demand, least: int, most: int) -> Demand:
    """The demand with its epsilon, in nano units, kept between `least` and `most`."""
    menu = tuple(c for c in demand.menu if least <= c.loss.epsilon_nano <= most)
    if not menu:
        raise InvalidRequest(f"{demand.ptk_id} has no choice with epsilon between {least} and {most} nano")
    return replace(demand, menu=menu)


def pinned(
    demand: Demand, *, loss: Loss | None = None, n_rows: int | None = None, partition: int | None = None
) -> Demand:
    """The demand with what an administrator fixed: its loss, its rows, its partition, or several of these.

    A fixed loss takes the fewest rows the menu has for no more loss; a fixed number of rows is kept whatever the menu
    says about the loss it was profiled with.
    """
    menu: Sequence[Choice] = demand.menu
    if loss is not None:
        enough = [c for c in menu if c.loss.fits(loss)]
        if not enough and n_rows is None:
            raise InvalidRequest(f"{demand.ptk_id} does not reach its target with {loss}")
        rows = min((c.n_rows for c in enough), default=0)
        menu = (Choice(loss, rows if n_rows is None else n_rows),)
    elif n_rows is not None:
        menu = tuple(replace(c, n_rows=n_rows) for c in menu if c.n_rows <= n_rows)
        if not menu:
            raise InvalidRequest(f"{demand.ptk_id} does not reach its target with {n_rows} rows")
    return replace(demand, menu=pruned(menu), partition=demand.partition if partition is None else partition)
