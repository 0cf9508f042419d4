"""Measures the allocator: `make bench-allocator`, on seeded instances n = c + a/epsilon + b/epsilon^2 and on real ones.

The real ones are profiles of a taxi team's 13 PTKs on real trips, resampled with targets between tight and loose.

Times are the better of wall and processor time, so that other work on the machine counts less. Best known rows come
from benchmarks/allocator_best.json, which `python benchmarks/allocator_best.py` makes. The generic solver, HiGHS on the
integer program of the PTK paper's Fig. 4, is given 10 s in the same run.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

from benchmarks.allocator_best import BEST  # noqa: E402
from benchmarks.allocator_highs import Solved, solve_program  # noqa: E402
from benchmarks.allocator_instances import (  # noqa: E402
    Instance,
    demands,
    limits,
    name_of,
    profiled_demands,
)
from benchmarks.measuring import Row, measured, report  # noqa: E402
from ptkstore.domain.accounting.losses import Loss  # noqa: E402
from ptkstore.domain.allocation.model import (  # noqa: E402
    Choice,
    Demand,
    Infeasible,
    Limits,
    Reason,
    WindowPlan,
)
from ptkstore.domain.allocation.plans import allocate_partitions, first_feasible  # noqa: E402

SOLVER_SECONDS = 10.0
BOUND_ROUNDS = 800
NEVER = float("inf")


@dataclass(frozen=True)
class Run:
    """A plan and how long it took."""

    plan: WindowPlan | Infeasible
    seconds: float

    @property
    def rows(self) -> float:
        return self.plan.total_rows if isinstance(self.plan, WindowPlan) else NEVER


def run(plan: Callable[[], WindowPlan | Infeasible]) -> Run:
    """Time one call, the better of wall and processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    found = plan()
    return Run(found, min(time.perf_counter() - wall, time.process_time() - processor))


def ours(instance: Instance) -> Run:
    """Return our plan of an instance."""
    n_ptks, partitions, seed = instance
    asked = demands(n_ptks, seed)
    return run(lambda: allocate_partitions(asked, limits(partitions)))


def solver(instance: Instance) -> Solved:
    """Return what HiGHS has after its time."""
    n_ptks, partitions, seed = instance
    return solve_program(demands(n_ptks, seed), limits(partitions), SOLVER_SECONDS)


def above_best(instance: Instance, rows: float) -> float:
    """Return by how many percent a plan opens more rows than the best known one."""
    best = json.loads(BEST.read_text())[name_of(instance)]["rows"]
    return float(100.0 * (rows / best - 1.0))


def above_bound(instance: Instance, rows: float) -> float:
    """Return by how many percent a plan opens more rows than a lower bound computed now."""
    n_ptks, partitions, seed = instance
    plan = allocate_partitions(demands(n_ptks, seed), limits(partitions), bound_rounds=BOUND_ROUNDS)
    return 100.0 * (rows / plan.bound - 1.0) if isinstance(plan, WindowPlan) else NEVER


def two_partitions() -> list[Row]:
    """50 PTKs, proven optimal."""
    instances = [(50, 2, seed) for seed in range(5)]
    runs = [ours(instance) for instance in instances]
    proven = all(isinstance(r.plan, WindowPlan) and r.plan.is_optimal for r in runs)
    highs = solver(instances[0])
    said = (
        "optimal" if highs.optimal else f"{100 * (highs.rows or NEVER) / runs[0].rows - 100:.0f} % more rows"
    )
    return [
        measured(
            "allocator-50-ptks-2-partitions",
            "50 PTKs, K <= 2, proven optimal, slowest of 5",
            unit="s",
            ours=max(r.seconds for r in runs) if proven else NEVER,
            against=f"HiGHS, stopped: {said}",
            theirs=SOLVER_SECONDS,
            goal=0.2,
            direction="min",
        )
    ]


def many_partitions(n_ptks: int, partitions: int, seeds: range, goal_seconds: float) -> list[Row]:
    """Time, distance to the best known plan and to the lower bound."""
    instances = [(n_ptks, partitions, seed) for seed in seeds]
    runs = [ours(instance) for instance in instances]
    highs = solver(instances[0])
    told = "nothing" if highs.rows is None else f"{above_best(instances[0], highs.rows):.0f} % more rows"
    name, many = f"allocator-{n_ptks}-ptks-{partitions}-partitions", f"{n_ptks} PTKs, K <= {partitions}"
    behind = [above_best(i, r.rows) for i, r in zip(instances, runs, strict=True)]
    gaps = [above_bound(i, r.rows) for i, r in zip(instances, runs, strict=True)]
    return [
        _time(name, many, runs, told, goal_seconds),
        measured(
            f"{name}-rows",
            f"{many}, rows above the best known, worst of {len(runs)}",
            unit="%",
            ours=max(behind),
            theirs=None if highs.rows is None else above_best(instances[0], highs.rows),
            against=f"HiGHS in {SOLVER_SECONDS:g} s" + ("" if highs.rows else ": no plan"),
            goal=2.0,
            direction="min",
        ),
        _gap(name, many, gaps, highs, 5.0),
    ]


def profiled(n_ptks: int, partitions: int, seeds: range, goal_seconds: float) -> list[Row]:
    """Time and distance to the lower bound on profiles from real data; within two partitions the plan is proven."""
    asked, room = [profiled_demands(n_ptks, seed) for seed in seeds], limits(partitions)
    runs = [run(lambda one=one: allocate_partitions(one, room)) for one in asked]  # type: ignore[misc]
    bounds = [allocate_partitions(one, room, bound_rounds=BOUND_ROUNDS) for one in asked]
    gaps = [
        100.0 * (r.rows / plan.bound - 1.0) if isinstance(plan, WindowPlan) else NEVER
        for r, plan in zip(runs, bounds, strict=True)
    ]
    highs = solve_program(asked[0], room, SOLVER_SECONDS)
    told = (
        "no plan"
        if highs.rows is None
        else f"{100 * (highs.rows / runs[0].rows - 1):.0f} % more rows than ours"
    )
    name, many = f"allocator-profiled-{n_ptks}-{partitions}", f"{n_ptks} real profiles, K <= {partitions}"
    return [
        _time(name, many, runs, told, goal_seconds),
        _gap(name, many, gaps, highs, 0.0 if partitions <= 2 else 5.0),
    ]


def first_feasible_partitions() -> list[Row]:
    """Rows of the paper's K against ours."""
    rows = []
    for n_ptks, goal in ((50, 2.0), (100, 3.0), (200, 3.0)):
        asked, room = demands(n_ptks, 0), limits(8)
        paper, plan = first_feasible(asked, room), allocate_partitions(asked, room, bound_rounds=BOUND_ROUNDS)
        if not isinstance(paper, WindowPlan) or not isinstance(plan, WindowPlan):
            raise AssertionError("every instance here has a plan")
        print(
            f"{n_ptks} PTKs: first feasible K = {paper.partitions_used}, {paper.total_rows} rows; ours K = "
            f"{plan.partitions_used}, {plan.total_rows}; lower bound {plan.bound}",
            flush=True,
        )
        rows.append(
            measured(
                f"allocator-first-feasible-{n_ptks}",
                f"{n_ptks} PTKs, rows",
                unit="rows",
                ours=plan.total_rows,
                theirs=paper.total_rows,
                against="first feasible K, the paper's",
                judged=paper.total_rows / plan.total_rows,
                goal=goal,
                direction="max",
            )
        )
    return rows


def refusals() -> list[Row]:
    """500 PTKs that cannot be served, and whether the reason is right."""

    def one(i: int, epsilon: int, rows: int) -> Demand:
        return Demand(f"bench.p{i:03}", (Choice(Loss(epsilon), rows),))

    spread = demands(500, 0)
    cases: list[tuple[list[Demand], Limits, Reason]] = [
        (spread, limits(4), Reason.EPSILON),  # 500 times 0.01 is more than 4
        (spread, Limits(Loss(10**9), 1000, 8), Reason.ROWS),  # some need more at any loss
        ([one(i, 510_000_000, 10) for i in range(500)], limits(400), Reason.EPSILON),  # no two fit together
        ([*spread[:499], one(499, 2 * 10**9, 10)], limits(8), Reason.EPSILON),  # one would not fit alone
        ([*spread[:499], one(499, 1000, 10**10)], limits(8), Reason.ROWS),
    ]
    slowest = 0.0
    for asked, room, reason in cases:
        found = run(lambda asked=asked, room=room: allocate_partitions(asked, room))  # type: ignore[misc]
        right = isinstance(found.plan, Infeasible) and found.plan.reason is reason and found.plan.proven
        slowest = max(slowest, found.seconds if right else NEVER)
        print(str(found.plan)[:160], flush=True)
    return [
        measured(
            "allocator-infeasible",
            f"500 PTKs that cannot be served: proof and reason, slowest of {len(cases)}",
            unit="s",
            ours=slowest,
            goal=0.25,
            direction="min",
        )
    ]


def _time(name: str, many: str, runs: list[Run], told: str, goal_seconds: float) -> Row:
    return measured(
        f"{name}-time",
        f"{many}, slowest of {len(runs)}",
        unit="s",
        ours=max(r.seconds for r in runs),
        against=f"HiGHS, stopped: {told}",
        theirs=SOLVER_SECONDS,
        goal=goal_seconds,
        direction="min",
    )


def _gap(name: str, many: str, gaps: list[float], highs: Solved, goal: float) -> Row:
    return measured(
        f"{name}-gap",
        f"{many}, rows above the lower bound, median",
        unit="%",
        ours=statistics.median(gaps),
        theirs=100.0 * (highs.rows / highs.bound - 1.0) if highs.rows and highs.bound > 0 else None,
        against="HiGHS's plan and its own bound",
        goal=goal,
        direction="min",
    )


def rows() -> list[Row]:
    """Return all measurements."""
    return [
        *two_partitions(),
        *many_partitions(50, 4, range(3), 2.0),
        *many_partitions(50, 8, range(3), 2.0),
        *many_partitions(200, 4, range(1), 2.0),
        *many_partitions(200, 8, range(1), 2.0),
        *many_partitions(500, 8, range(1), 5.0),
        *profiled(50, 2, range(5), 0.2),
        *profiled(50, 4, range(3), 2.0),
        *profiled(50, 8, range(3), 2.0),
        *profiled(200, 8, range(1), 2.0),
        *profiled(500, 16, range(1), 5.0),
        *first_feasible_partitions(),
        *refusals(),
    ]


def main() -> int:
    return report("allocator", rows())


if __name__ == "__main__":
    raise SystemExit(main())
