"""Draws rows against the number of PTKs: `python benchmarks/allocator_rows.py` writes docs/figures/allocation.svg.

1 to 200 PTKs of one seed, epsilon 1: the paper's first feasible K, K chosen up to 8, and the lower bound.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

import matplotlib  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from benchmarks.allocator_instances import demands, limits  # noqa: E402
from ptkstore.domain.allocation.model import WindowPlan  # noqa: E402
from ptkstore.domain.allocation.plans import allocate_partitions, first_feasible  # noqa: E402

FIGURE = ROOT / "docs" / "figures" / "allocation.svg"
COUNTS = (1, 2, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 140, 160, 180, 200)
PARTITIONS, BOUND_ROUNDS = 8, 400


def main() -> int:
    everybody = demands(200, 0)
    found: list[tuple[int, WindowPlan, WindowPlan]] = []
    print("| PTKs | first feasible K | rows | K chosen | rows | lower bound |\n|---|---|---|---|---|---|")
    for count in COUNTS:
        paper = first_feasible(everybody[:count], limits(PARTITIONS))
        plan = allocate_partitions(everybody[:count], limits(PARTITIONS), bound_rounds=BOUND_ROUNDS)
        if not isinstance(paper, WindowPlan) or not isinstance(plan, WindowPlan):
            raise AssertionError("every instance here has a plan")
        found.append((count, paper, plan))
        print(
            f"| {count} | {paper.partitions_used} | {paper.total_rows:,} | {plan.partitions_used} "
            f"| {plan.total_rows:,} | {plan.bound:,} |",
            flush=True,
        )
    with matplotlib.rc_context({"svg.hashsalt": "allocation", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.0, 4.0), layout="constrained")
        axes = figure.subplots()
        axes.plot(
            COUNTS, [paper.total_rows for _, paper, _ in found], "s:", markersize=4, label="first feasible K"
        )
        axes.plot(
            COUNTS, [plan.total_rows for _, _, plan in found], "o-", markersize=4, label="K chosen, up to 8"
        )
        axes.plot(COUNTS, [plan.bound for _, _, plan in found], "--", label="lower bound")
        axes.set(xlabel="PTKs", ylabel="rows opened in a window", yscale="log")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        FIGURE.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(FIGURE, metadata={"Date": None})
    print(f"\nwritten to {FIGURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
