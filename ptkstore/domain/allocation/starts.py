"""First placements for more than two partitions: PTKs with similar needs share a partition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptklib.arrays import Ints
from ptkstore.domain.allocation.exact import Placement
from ptkstore.domain.allocation.program import Program

ORDERS = 5
CAPS = 256
_NEVER = np.int64(2**61)


def placement_of(program: Program, parts: Ints) -> Placement | None:
    """Return the placement with the least caps for these parts, if each can hold its PTKs."""
    caps = []
    for part in range(program.partitions):
        cap = program.cap_of(np.flatnonzero(parts == part))
        if cap is None:
            return None
        caps.append(cap)
    return Placement(parts, tuple(caps))


def starts(program: Program) -> Iterator[Placement]:
    """Yield placements to begin with, possibly none."""
    any_placed = False
    if (program.pins < 0).all():
        places = np.linspace(0, program.rows.shape[1] - 1, ORDERS).round().astype(int)
        for place in dict.fromkeys(places.tolist()):
            order = np.lexsort((program.rows[:, 0], program.rows[:, place]))
            placed = _placed(program, _segmented(program, order))
            any_placed |= bool(placed)
            yield from placed
    if not any_placed:
        yield from _placed(program, _inserted(program, by_rows=True))
        yield from _placed(program, _inserted(program, by_rows=False))


def _placed(program: Program, parts: Ints | None) -> list[Placement]:
    placement = None if parts is None else placement_of(program, parts)
    return [] if placement is None else [placement]


def _segmented(program: Program, order: Ints) -> Ints | None:
    """The best cut of PTKs in this order into runs, one for each partition, by dynamic programming."""
    size = program.size
    caps = program.thresholds()
    caps = caps[np.unique(np.linspace(0, len(caps) - 1, CAPS).round().astype(int))]
    loads = np.zeros((size + 1, len(caps)), dtype=np.int64)
    np.cumsum(program.table(caps).T[order], axis=0, out=loads[1:])
    shares = np.concatenate([[0], np.cumsum(program.deltas[order])])
    costs = np.full((size + 1, size + 1), _NEVER)  # of the run from one place to another
    for start in range(size + 1):
        fits = loads[start:] - loads[start] <= program.capacity
        rows = np.where(fits[:, -1], caps[fits.argmax(axis=1)], _NEVER)
        rows[shares[start:] - shares[start] > program.delta_capacity] = _NEVER
        costs[start, start:] = rows
    best = costs[0]
    cuts = []
    for _ in range(1, min(program.partitions, size)):
        sums = np.minimum(best[:, None] + costs, _NEVER)
        cuts.append(sums.argmin(axis=0))
        best = sums.min(axis=0)
    if best[size] >= _NEVER:
        return None
    parts = np.zeros(size, dtype=np.int64)
    end = size
    for part, cut in enumerate(reversed(cuts)):
        parts[order[cut[end] : end]] = part
        end = int(cut[end])
    parts[order[:end]] = len(cuts)
    return parts


def _inserted(program: Program, *, by_rows: bool) -> Ints | None:
    """One PTK after the other where it adds the fewest rows, or where it leaves the least capacity over."""
    parts = program.pins.copy()
    least = program.costs[:, -1]
    order = np.lexsort((least, -program.rows[:, 0])) if by_rows else np.argsort(-least, kind="stable")
    caps = [program.cap_of(np.flatnonzero(parts == part)) for part in range(program.partitions)]
    if None in caps:
        return None
    for ptk in order[program.pins[order] < 0]:
        best: tuple[int, int, int, int] | None = None
        for part, before in enumerate(caps):
            members = np.append(np.flatnonzero(parts == part), ptk)
            after = program.cap_of(members)
            if after is None or before is None:
                continue
            left = program.capacity - int(least[members].sum())
            more = after - before
            candidate = (more, left, part, after) if by_rows else (left, more, part, after)
            best = candidate if best is None else min(best, candidate)
            if not before:  # unused partitions are all alike
                break
        if best is None:
            return None
        parts[ptk], caps[best[2]] = best[2], best[3]
    return parts
