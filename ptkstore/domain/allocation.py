"""The double-resource allocation for one partition: privacy loss and rows per PTK (PTK paper, Fig. 4 with K = 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptkstore.domain.losses import NO_LOSS, Loss


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to train a PTK to its target: this loss, on this expected number of rows."""

    loss: Loss
    n_rows: int


@dataclass(frozen=True, slots=True)
class Demand:
    """The ways in which one PTK can be trained; at least one."""

    ptk_id: str
    menu: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """What one PTK gets: a loss and an expected number of rows in one train partition."""

    ptk_id: str
    loss: Loss
    n_rows: int
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No choice of losses fits the capacity; `needed` is the least total of the cheapest choices."""

    needed: Loss
    capacity: Loss


def allocate(demands: Sequence[Demand], capacity: Loss, n_max: int) -> tuple[Grant, ...] | Infeasible:
    """Minimise the rows opened, max over PTKs of n, so that all losses together fit `capacity`; exact.

    For a limit on n each PTK takes the cheapest loss within the limit; the least feasible limit is one of the menus'
    own row counts, so trying these in increasing order is exact.
    """
    if not demands:
        return ()
    limits = sorted({choice.n_rows for demand in demands for choice in demand.menu if choice.n_rows <= n_max})
    for limit in limits:
        grants = _cheapest_within(demands, limit)
        if grants is not None and _total(grants).fits(capacity):
            return grants
    widest = _cheapest_within(demands, max(choice.n_rows for demand in demands for choice in demand.menu))
    return Infeasible(_total(widest or ()), capacity)


def _cheapest_within(demands: Sequence[Demand], limit: int) -> tuple[Grant, ...] | None:
    grants = []
    for demand in demands:
        fitting = [choice for choice in demand.menu if choice.n_rows <= limit]
        if not fitting:
            return None
        best = min(fitting, key=lambda c: (c.loss.epsilon_nano, c.loss.delta_atto, c.n_rows))
        grants.append(Grant(demand.ptk_id, best.loss, best.n_rows))
    return tuple(grants)


def _total(grants: Sequence[Grant]) -> Loss:
    return sum((grant.loss for grant in grants), NO_LOSS)
