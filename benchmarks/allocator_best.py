"""Finds the best known plans: `python benchmarks/allocator_best.py [NAME ...]` writes benchmarks/allocator_best.json.

Per instance: 10 s of processor time of our search from each of three seeds, HiGHS for 60 s on the whole program, and
HiGHS for 30 s on all sets that the search ever saw in a partition (set covering). The least rows of all are kept,
also over earlier runs; so is the largest lower bound, of 3,000 steps of ours and of HiGHS.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

import numpy as np  # noqa: E402

from benchmarks.allocator_highs import recombine, solve_program  # noqa: E402
from benchmarks.allocator_instances import Instance, demands, limits, name_of, pairs  # noqa: E402
from ptkstore.domain.allocation.bound import lower_bound  # noqa: E402
from ptkstore.domain.allocation.exact import Placement  # noqa: E402
from ptkstore.domain.allocation.program import Program, program_of  # noqa: E402
from ptkstore.domain.allocation.search import STARTS, Descent  # noqa: E402
from ptkstore.domain.allocation.starts import placement_of, starts  # noqa: E402

BEST = ROOT / "benchmarks" / "allocator_best.json"
INSTANCES: tuple[Instance, ...] = (
    *((50, partitions, seed) for partitions in (4, 8) for seed in (0, 1, 2)),
    (200, 4, 0),
    (200, 8, 0),
    (500, 8, 0),
)
SEARCH_SECONDS, PROGRAM_SECONDS, COVER_SECONDS = 10.0, 60.0, 30.0
SEEDS = (0, 1, 2)
BOUND_ROUNDS = 3_000


def program(instance: Instance) -> Program:
    """Return an instance in the form that the searches work on."""
    n_ptks, partitions, seed = instance
    return program_of(
        [pairs(demand) for demand in demands(n_ptks, seed)],
        [0] * n_ptks,
        [-1] * n_ptks,
        capacity=limits(partitions).cost,
        delta_capacity=0,
        partitions=partitions,
    )


def local_optima(task: Program, seed: int) -> Iterator[Placement]:
    """Search for so much processor time: move some PTKs elsewhere, improve the pairs again, keep the better."""
    end = time.process_time() + SEARCH_SECONDS
    draw, descent = np.random.default_rng(seed), Descent(task)
    current: Placement | None = None
    for start in sorted(starts(task), key=lambda placement: placement.total)[:STARTS]:
        improved = descent.improved(start)
        yield improved
        current = improved if current is None else min(current, improved, key=lambda one: one.total)
    while current is not None and time.process_time() < end:
        parts = current.parts.copy()
        parts[draw.integers(task.size, size=draw.integers(2, 5))] = draw.integers(task.partitions)
        kicked = placement_of(task, parts)
        if kicked is not None:
            improved = descent.improved(kicked)
            yield improved
            current = improved if improved.total <= current.total else current


def search(instance: Instance) -> dict[str, Any]:
    """Return what every method found."""
    n_ptks, partitions, seed = instance
    task = program(instance)
    sets: set[tuple[frozenset[int], int]] = set()

    found = [placement for s in SEEDS for placement in local_optima(task, s)]
    for placement in found:
        for part, cap in enumerate(placement.caps):
            sets.add((frozenset(np.flatnonzero(placement.parts == part).tolist()), cap))
    best = min(found, key=lambda placement: placement.total)
    cover = recombine(sets, n_ptks, partitions, COVER_SECONDS)
    whole = solve_program(demands(n_ptks, seed), limits(partitions), PROGRAM_SECONDS)
    rows = {"search": best.total, "cover": cover, "highs": None if whole.rows is None else round(whole.rows)}
    known = {method: value for method, value in rows.items() if value is not None}
    method = min(known, key=lambda name: known[name])
    bound = max(lower_bound(task, best, BOUND_ROUNDS), int(np.ceil(whole.bound - 1e-6 * whole.bound)))
    return {"rows": known[method], "method": method, "bound": bound, **rows}


def main(wanted: list[str]) -> int:
    for instance in INSTANCES:
        name = name_of(instance)
        if wanted and name not in wanted:
            continue
        result = search(instance)
        known = json.loads(BEST.read_text()) if BEST.exists() else {}
        if name in known:
            before = known[name]
            result = result if result["rows"] <= before["rows"] else {**before}
            result["bound"] = max(result["bound"], before["bound"])
        known[name] = result
        BEST.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        print(f"{name}: {result}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
