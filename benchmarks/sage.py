"""Measures schedulers on a workload like that of Sage's Figure 8: `make bench-sage`.

Time is in hours and a window is one hour. Figures are means over 20 seeds with 95 % intervals (Student's t). A ratio is
taken seed by seed, on the same PTKs, and judged by the upper end of its interval. A PTK that was never released counts
as waiting until the end, so the waits of overloaded policies are lower bounds.

The rate is the highest one of a grid at which `conserve` still releases 95 % of the PTKs, as a mean over the seeds.
docs/guide/simulating.md describes the workload and what it leaves open.
"""

import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)
sys.path.insert(1, str(ROOT / "examples" / "scenarios"))

from _common.intervals import mean_and_half  # noqa: E402
from _common.sage_policies import POLICIES, Fared, arrivals_of, fared  # noqa: E402

from benchmarks.measuring import Row, measured, report  # noqa: E402

SEEDS = range(20)
RATES = tuple(step / 10 for step in range(1, 25))
ENOUGH = 0.95


def highest_rate() -> tuple[float, list[Fared]]:
    """Return the highest rate at which `conserve` releases enough, and how it fares there; found by bisection."""
    low, high = 0, len(RATES)
    best: list[Fared] = []
    while low < high:
        middle = (low + high) // 2
        runs = [fared("conserve", RATES[middle], seed) for seed in SEEDS]
        if statistics.mean(run.released for run in runs) >= ENOUGH:
            low, best = middle + 1, runs
        else:
            high = middle
    return RATES[low - 1], best


def told(rate: float, runs: Mapping[str, list[Fared]]) -> str:
    """Return a table of policies at one rate."""
    lines = [
        f"\n{rate:g} PTKs an hour, {len(SEEDS)} seeds",
        "| policy | hours to release | released | budget left |",
        "|---|---|---|---|",
    ]
    for policy, found in runs.items():
        wait, half = mean_and_half([run.wait for run in found])
        released, left = (
            statistics.mean(x) for x in zip(*((r.released, r.left) for r in found), strict=True)
        )
        least = "at least " if released < 1 else ""
        lines.append(
            f"| {policy} | {least}{wait:.1f} ± {half:.1f} | {100 * released:.1f} % | {100 * left:.0f} % |"
        )
    return "\n".join(lines)


def against(runs: Mapping[str, list[Fared]], ours: str, theirs: str, goal: float) -> Row:
    """Return the row of a ratio of waits, judged by the upper end of its interval."""
    pairs = zip(runs[ours], runs[theirs], strict=True)
    ratio, half = mean_and_half([mine.wait / other.wait for mine, other in pairs])
    return measured(
        f"sage-{ours}-against-{theirs}",
        f"time to release, {ours}; ratio {ratio:.2f} ± {half:.2f}",
        unit="h",
        ours=statistics.mean(run.wait for run in runs[ours]),
        theirs=statistics.mean(run.wait for run in runs[theirs]),
        against=theirs,
        judged=ratio + half,
        goal=goal,
        direction="min",
    )


def speed(rate: float) -> Row:
    """Return the processor seconds of a million decisions on a pair of a PTK and a block."""
    arrivals = arrivals_of(rate, 0)
    start = time.process_time()
    decisions = POLICIES["conserve"](arrivals).decisions
    return measured(
        "sage-decisions",
        f"a million block-query decisions, of {decisions / 1e6:.1f} million",
        unit="s",
        ours=(time.process_time() - start) / (decisions / 1e6),
        goal=60.0,
        direction="min",
    )


def rows() -> list[Row]:
    """Return all measurements."""
    rate, conserve = highest_rate()
    runs = {
        policy: conserve if policy == "conserve" else [fared(policy, rate, seed) for seed in SEEDS]
        for policy in POLICIES
    }
    print(told(rate, runs), flush=True)
    return [
        measured(
            "sage-highest-rate",
            "highest rate at which conserve releases 95 %; the paper's is .7",
            unit="PTKs/h",
            ours=rate,
            goal=0.7,
            direction="max",
        ),
        against(runs, "conserve", "streaming", 0.5),
        against(runs, "conserve", "query", 0.5),
        against(runs, "guided", "conserve", 0.6),
        speed(rate),
    ]


def main() -> int:
    return report("sage", rows())


if __name__ == "__main__":
    raise SystemExit(main())
