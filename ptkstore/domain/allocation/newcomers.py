"""A new PTK that does not fit beside the others: what would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ptkstore.domain.allocation.model import Demand, Infeasible, Limits, WindowPlan, pruned
from ptkstore.domain.allocation.plans import allocate_partitions

_ANY_ROWS = 10**12


@dataclass(frozen=True, slots=True, order=True)
class Opening:
    """A PTK that reaches its target with at most `n_rows` rows at a cost of at most `amount` would fit `partition`."""

    n_rows: int
    amount: int
    delta_atto: int
    partition: int


@dataclass(frozen=True, slots=True)
class Remedies:
    """Changes that would make a PTK fit; each one alone is enough, and None where it is of no use.

    `openings` are what the current plan leaves free while nobody moves to another partition: more rows, more loss
    available. `capacity` is a scalar capacity and `n_max` a planning bound with which all PTKs fit.
    """

    openings: tuple[Opening, ...]
    capacity: int | None
    n_max: int | None


def remedies(demands: Sequence[Demand], current: WindowPlan, new: Demand, limits: Limits) -> Remedies:
    """Find what would let `new` in beside the current plan; every figure is one with which a plan exists."""
    more = allocate_partitions([*demands, new], replace(limits, n_max=_ANY_ROWS))
    return Remedies(
        _openings(demands, current, new, limits),
        _capacity(demands, current, new, limits),
        None if isinstance(more, Infeasible) else more.total_rows,
    )


def _openings(
    demands: Sequence[Demand], current: WindowPlan, new: Demand, limits: Limits
) -> tuple[Opening, ...]:
    """The free room of the current plan, by falling rows; none that another one contains.

    In each partition the others may use as many rows as the newcomer does, and then take their cheapest choices.
    """
    spare = limits.n_max - current.total_rows
    fitting: list[Opening] = []
    for partition, cap in enumerate(current.caps):
        if new.partition not in (None, partition):
            continue
        members = [d for d, g in zip(demands, current.allotments, strict=True) if g.partition == partition]
        most = min(cap + spare, limits.most_rows)
        rows = {c.n_rows for d in members for c in d.menu if cap < c.n_rows <= most}
        for n_rows in sorted({*rows, *([cap] if cap else []), *([most] if most > 0 else [])}):
            load = _cheapest(members, n_rows)
            if load is not None:
                amount = limits.cost - load[0]
                delta = limits.capacity.delta_atto - load[1]
                if amount > 0 and delta >= 0:
                    fitting.append(Opening(n_rows, amount, delta, partition))
    kept: list[Opening] = []
    for opening in sorted(fitting, key=lambda o: (-o.n_rows, -o.amount, -o.delta_atto, o.partition)):
        if not any(k.amount >= opening.amount and k.delta_atto >= opening.delta_atto for k in kept):
            kept.append(opening)
    return tuple(kept)


def _cheapest(members: Sequence[Demand], n_rows: int) -> tuple[int, int] | None:
    """The least cost and the delta of PTKs that share a partition of this many rows."""
    cost = delta = 0
    for demand in members:
        fitting = [c for c in demand.menu if c.n_rows <= n_rows]
        if not fitting:
            return None
        best = min(fitting, key=lambda c: (c.cost, c.loss.delta_atto))
        cost, delta = cost + best.cost, delta + best.loss.delta_atto
    return cost, delta


def _capacity(demands: Sequence[Demand], current: WindowPlan, new: Demand, limits: Limits) -> int | None:
    """The least capacity at which the newcomer fits a partition of the current plan within the rows."""
    spare = limits.n_max - current.total_rows
    needs = []
    for partition, cap in enumerate(current.caps):
        if new.partition not in (None, partition):
            continue
        members = [d for d, g in zip(demands, current.allotments, strict=True) if g.partition == partition]
        together = [*members, replace(new, menu=pruned(new.menu))]
        load = _cheapest(together, min(cap + spare, limits.most_rows))
        if load is not None and load[1] <= limits.capacity.delta_atto:
            needs.append(load[0])
    least = min(needs, default=None)
    return None if least is None or least <= limits.cost else least
