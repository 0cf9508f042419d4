"""Why no plan can exist, where sums and counts show it before any search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from ptkstore.domain.accounting.losses import NO_LOSS
from ptkstore.domain.allocation.model import Choice, Demand, Infeasible, Limits, Reason

Menus = Sequence[tuple[Choice, ...]]


def fits(choice: Choice, limits: Limits) -> bool:
    """Tell whether a choice would fit an empty window."""
    return (
        choice.n_rows <= limits.most_rows
        and choice.cost <= limits.cost
        and choice.loss.delta_atto <= limits.capacity.delta_atto
    )


def refused_at_once(demands: Sequence[Demand], menus: Menus, limits: Limits) -> Infeasible | None:
    """Return the reason no plan can exist, where a sum or a count shows it."""
    open_rows = replace(limits, n_max=max(c.n_rows for menu in menus for c in menu), partition_rows=None)
    alone = [d.ptk_id for d, m in zip(demands, menus, strict=True) if not any(fits(c, limits) for c in m)]
    if alone:
        hopeless = [m for m in menus if not any(fits(c, limits) for c in m)]
        if all(any(fits(c, open_rows) for c in menu) for menu in hopeless):
            rows = max(min(c.n_rows for c in menu if fits(c, open_rows)) for menu in hopeless)
            return infeasible(menus, limits, Reason.ROWS, tuple(alone), rows)
        deltas = all(any(c.cost <= limits.cost for c in menu) for menu in hopeless)
        return infeasible(menus, limits, Reason.DELTA if deltas else Reason.EPSILON, tuple(alone))
    for reason, cost, room in (
        (Reason.EPSILON, attrgetter("cost"), limits.cost),
        (Reason.DELTA, attrgetter("loss.delta_atto"), limits.capacity.delta_atto),
    ):
        least = [min(cost(c) for c in menu if fits(c, limits)) for menu in menus]
        if _bins_needed(least, room) > limits.partitions or _overfull(demands, least, room):
            unlimited = [min(cost(c) for c in menu if fits(c, open_rows)) for menu in menus]
            enough = _bins_needed(unlimited, room) <= limits.partitions
            more_rows = enough and not _overfull(demands, unlimited, room)
            return infeasible(menus, limits, Reason.ROWS if more_rows else reason)
    return None


def _overfull(demands: Sequence[Demand], least: list[int], room: int) -> bool:
    """Whether the PTKs pinned to one partition are too much for it."""
    loads: dict[int, int] = {}
    for demand, amount in zip(demands, least, strict=True):
        if demand.partition is not None:
            loads[demand.partition] = loads.get(demand.partition, 0) + amount
    return any(load > room for load in loads.values())


def _bins_needed(amounts: list[int], room: int) -> int:
    """A number of partitions that no packing of amounts that fit alone goes below (Martello and Toth's bound)."""
    if not sum(amounts):
        return 1
    best = -(-sum(amounts) // room)
    halves = sorted({0, *(a for a in amounts if 2 * a <= room)})
    for small in halves:
        large = [a for a in amounts if a > room - small]
        middle = [a for a in amounts if room - small >= a and 2 * a > room]
        rest = sum(a for a in amounts if small <= a and 2 * a <= room)
        over = rest - (len(middle) * room - sum(middle))
        best = max(best, len(large) + len(middle) + max(0, -(-over // room)))
    return best


def infeasible(
    menus: Menus,
    limits: Limits,
    reason: Reason,
    ptk_ids: tuple[str, ...] = (),
    rows_needed: int | None = None,
    *,
    proven: bool = True,
) -> Infeasible:
    """Return the refusal, with what the cheapest choices would need.

    Parameters
    ----------
    ptk_ids : tuple of str
        Those that would not even fit alone.
    rows_needed : int or None
        A number that no plan goes below.
    """
    cheapest = (min(menu, key=lambda c: (c.cost, c.loss.delta_atto)) for menu in menus)
    return Infeasible(
        sum((choice.loss for choice in cheapest), NO_LOSS),
        limits.capacity,
        reason,
        ptk_ids,
        rows_needed,
        limits.n_max,
        limits.partitions,
        limits.partition_rows,
        proven,
    )
