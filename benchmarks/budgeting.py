"""Measures online budgeting against Sage's blocks and streaming: `make bench-budgeting`.

The experiments are those of `examples/scenarios/budgeting.py`, on digits and clicks where the files are there
(`PTK_TEST_DATA`, or `shared/data` beside the project), and on generated rows otherwise. Each comparison is made seed by
seed on the same blocks, and judged by the end of its 95 % interval. Pools whose significance is a recency are not
judged: docs/budgeting.md says why.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)
sys.path.insert(1, str(ROOT / "examples" / "scenarios"))

import numpy as np  # noqa: E402
from _common import budget_pools  # noqa: E402
from _common.budget_pools import Pool  # noqa: E402
from _common.budget_results import Cell, cells, tables  # noqa: E402
from _common.budget_trials import OURS, SAGE, STREAMING, setting  # noqa: E402
from _common.intervals import mean_and_half  # noqa: E402
from _common.online_budgeting.offline import (  # noqa: E402
    ExactInstance,
    best_with_exact_significance,
    noise_free_bound,
)
from _common.online_budgeting.policies import Thresholds, WithoutNoise  # noqa: E402
from _common.online_budgeting.replay import Asking, replay, warm  # noqa: E402

from benchmarks.budgeting_highs import best_by_highs  # noqa: E402
from benchmarks.measuring import Row, measured, report  # noqa: E402
from ptkstore.domain.budgeting.blocks import BudgetedBlock, Query  # noqa: E402
from ptkstore.domain.budgeting.rule import ThresholdRule  # noqa: E402

SEEDS = range(20)
NANO = 10**9
DATA = Path(os.environ.get("PTK_TEST_DATA", ROOT.parent / "shared" / "data"))
FILES = {
    "mnist_train.parquet": budget_pools.digits,
    "criteo_attribution_clicks.parquet": budget_pools.clicks,
}


def pools() -> list[Pool]:
    """Return the pools of files that are there, or a generated one."""
    found = [read(DATA / name) for name, read in FILES.items() if (DATA / name).exists()]
    return found or [budget_pools.generated_classes()]


def compared(found: Sequence[Cell]) -> list[Row]:
    """Return how much better ours is than Sage, and Sage than streaming, in Tables III to V."""
    rows = []
    for key in dict.fromkeys((one.table, one.pool, one.kind) for one in found):
        table, pool, kind = key
        mine = [one for one in found if (one.table, one.pool, one.kind) == key]
        for better, worse in ((OURS, SAGE), (SAGE, STREAMING)):
            # Sage and streaming both open all blocks in Table IV; they differ in how many queries are accepted.
            of_blocks = table == "IV" and better == OURS
            column = {"III": "warm", "IV": "5" if of_blocks else "accepted"}.get(table, mine[-1].column)
            values = {one.policy: np.array(one.values) for one in mine if one.column == column}
            if table == "II" or worse not in values:
                continue
            sign = -1 if of_blocks else 1  # fewer blocks are better
            gain, half = mean_and_half(sign * (values[better] - values[worse]))
            unit = {"III": "accuracy", "IV": "blocks" if of_blocks else "share accepted"}.get(
                table, "queries"
            )
            rows.append(
                measured(
                    f"budgeting-{table}-{pool}-{kind}-{better}-{worse}".lower(),
                    f"Table {table}, {pool}, {kind} costs, {better}; better by {gain:.3g} ± {half:.2g}",
                    unit=unit,
                    ours=float(values[better].mean()),
                    theirs=float(values[worse].mean()),
                    against=worse,
                    judged=gain - half,
                    goal=1e-6,  # more than 0
                    direction="max",
                )
            )
    return rows


def speed() -> Row:
    """Return the processor seconds of a million decisions on a pair of a block and a query, with their noise."""
    rule = ThresholdRule(2_000.0, 50_000.0, NANO // 20)
    worth = np.random.default_rng(0).gamma(0.3, 300.0, (600, 500))
    askings = [Asking(Query(f"q{j}", NANO // 100, 20), one) for j, one in enumerate(worth)]
    policy = Thresholds(warm(range(500), NANO, rule.free_share + 0.01), rule)
    start = time.process_time()
    replay(askings, policy, seed=0)
    return measured(
        "budgeting-decisions",
        f"a million block-query decisions, of {policy.decisions / 1e6:.1f} million",
        unit="s",
        ours=(time.process_time() - start) / (policy.decisions / 1e6),
        goal=60.0,
        direction="min",
    )


def offline() -> Row:
    """Return the offline optimum at the paper's sizes against HiGHS: both read exact significances."""
    ratios, ours, theirs = [], 0.0, 0.0
    for seed in SEEDS:
        draws = np.random.default_rng(seed)
        for n_blocks, n_queries, most in ((8, 12, 2), (10, 2, 4)):
            costs = draws.choice([NANO // 20, 2 * NANO // 5], n_queries)
            worth = draws.gamma(1.0, 1000.0, (n_blocks, n_queries))
            one = ExactInstance(worth, costs, np.full(n_blocks, 7 * NANO // 10), np.full(n_queries, most))
            start = time.process_time()
            value = best_with_exact_significance(one).value
            middle = time.process_time()
            ratios.append(value / best_by_highs(one))
            ours, theirs = ours + middle - start, theirs + time.process_time() - middle
    return measured(
        "budgeting-offline-exact",
        f"offline optimum by branch and bound, simulation only; at least {min(ratios):.6f} of HiGHS's",
        unit="s",
        ours=ours / len(ratios),
        theirs=theirs / len(ratios),
        against="HiGHS",
        judged=min(ratios),
        goal=1 - 1e-6,
        direction="max",
    )


def noise_free() -> Row:
    """Return the worst ratio of the offline optimum to Algorithm 2 without noise, on rising sequences."""
    rule = ThresholdRule(1.0, np.e**2, 0)
    cost, worst = 0.002, 0.0
    for top in np.geomspace(1.0, rule.most, 9):
        ratios = np.repeat(np.geomspace(1.0, top, 12), 500)
        askings = [Asking(Query("q", round(cost * NANO), 1), np.array([one * cost])) for one in ratios]
        policy = WithoutNoise({0: BudgetedBlock(0, NANO, NANO)}, rule)
        served = replay(askings, policy, seed=0)
        collected = sum(one for one, got in zip(ratios, served, strict=True) if got.grants) * cost
        worst = max(worst, float(np.sort(ratios)[-500:].sum() * cost / collected))
    return measured(
        "budgeting-noise-free-ratio",
        "offline optimum over Algorithm 2 without noise, simulation only",
        unit="ratio",
        ours=worst,
        theirs=noise_free_bound(rule),
        against="1 + ln(U/L)",
        judged=worst / noise_free_bound(rule),
        goal=1.02,
        direction="min",
    )


def rows() -> list[Row]:
    """Return all measurements."""
    found = [cell for pool in pools() for cell in cells(setting(pool), SEEDS)]
    print(tables(found), flush=True)
    return [*compared(found), speed(), offline(), noise_free()]


def main() -> int:
    return report("budgeting", rows())


if __name__ == "__main__":
    raise SystemExit(main())
