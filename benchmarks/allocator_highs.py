"""The generic solver: HiGHS through scipy, on the whole program (PTK paper, Fig. 4) and on sets found elsewhere."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.allocator_instances import pairs
from ptkstore.domain.allocation.model import Demand, Limits


@dataclass(frozen=True)
class Solved:
    """What the solver had when it ended: rows of its best plan if it has one, and its bound."""

    rows: float | None
    bound: float
    optimal: bool


def solve_program(demands: Sequence[Demand], limits: Limits, seconds: float) -> Solved:
    """Solve x_ijk and caps N_1 >= ... >= N_K as a mixed integer program."""
    menus = [pairs(demand) for demand in demands]
    cells = [
        (i, k, cost, rows)
        for i, menu in enumerate(menus)
        for cost, rows in menu
        for k in range(limits.partitions)
    ]
    count, parts = len(cells), limits.partitions
    who = np.array([cell[0] for cell in cells])
    part = np.array([cell[1] for cell in cells])
    cost = np.array([cell[2] for cell in cells]) / limits.cost
    rows = np.array([cell[3] for cell in cells], dtype=float)
    scale = min(max(n for _, n in menu) for menu in menus)
    every = np.arange(count)
    assign = sparse.csr_matrix((np.ones(count), (who, every)), (len(menus), count + parts))
    losses = sparse.csr_matrix((cost, (part, every)), (parts, count + parts))
    # cap of k at least the rows of each PTK there
    place = who * parts + part
    heights = sparse.csr_matrix((-rows / scale, (place, every)), (len(menus) * parts, count + parts))
    caps = sparse.csr_matrix(
        (
            np.ones(len(menus) * parts),
            (np.arange(len(menus) * parts), count + np.tile(np.arange(parts), len(menus))),
        ),
        (len(menus) * parts, count + parts),
    )
    falling = sparse.csr_matrix(
        (
            np.concatenate([np.ones(parts - 1), -np.ones(parts - 1)]),
            (
                np.tile(np.arange(parts - 1), 2),
                np.concatenate([count + np.arange(parts - 1), count + 1 + np.arange(parts - 1)]),
            ),
        ),
        (parts - 1, count + parts),
    )
    answer = milp(
        np.concatenate([np.zeros(count), np.ones(parts)]),
        constraints=[
            LinearConstraint(assign, 1, 1),
            LinearConstraint(losses, -np.inf, 1),
            LinearConstraint(heights + caps, 0, np.inf),
            *([LinearConstraint(falling, 0, np.inf)] if parts > 1 else []),
        ],
        integrality=np.concatenate([np.ones(count), np.zeros(parts)]),
        bounds=Bounds(0, np.concatenate([np.ones(count), np.full(parts, np.inf)])),
        options={"time_limit": seconds},
    )
    bound = 0.0 if answer.mip_dual_bound is None else answer.mip_dual_bound * scale
    return Solved(None if answer.x is None else float(answer.fun * scale), bound, answer.status == 0)


def recombine(
    sets: Collection[tuple[frozenset[int], int]], n_ptks: int, partitions: int, seconds: float
) -> int | None:
    """Return the rows of the best cover of all PTKs by at most `partitions` of the sets with known caps.

    A cover is as good as a partition: who is in two sets is taken out of one, and no cap rises.
    """
    known = [(members, cap) for members, cap in sets if members]
    width = len(known)
    members = sparse.csc_matrix(
        (
            np.ones(sum(len(one) for one, _ in known)),
            (
                np.concatenate([sorted(one) for one, _ in known]),
                np.repeat(np.arange(width), [len(one) for one, _ in known]),
            ),
        ),
        (n_ptks, width),
    )
    answer = milp(
        np.array([cap for _, cap in known], dtype=float),
        constraints=[
            LinearConstraint(members, 1, np.inf),
            LinearConstraint(np.ones((1, width)), -np.inf, partitions),
        ],
        integrality=np.ones(width),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds},
    )
    return None if answer.x is None else round(float(answer.fun))
