"""Profiles of the 13 PTKs from a profile set: by formula with paid facts, and by samples for the clusterings.

All of it is charged to the block that the profile set is: `LOSSES` add up to .985 of its epsilon of 1 for a stream with
one target per PTK. Two levels of targets are compared here, so that each clustering is profiled twice: 1.785 is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from _common.thirteen import CLUSTERS, LEVELS, PCA, STATISTICS, Ptk, subject
from _common.trips import PACE_BOUNDS
from ptklib import HistoricalStatistics
from ptklib.profiling import Facts, HashedRows, Profile, Profiler, facts_of, formula_profile

GRID: tuple[float, ...] = tuple(np.geomspace(0.01, 1.0, 20).tolist())
"""Epsilons of a formula profile; the least is that of the paper's Table 3."""
CLUSTER_GRID = (0.05, 0.1, 0.2)
LOSSES = {STATISTICS: 0.015, PCA: 0.02, CLUSTERS: 0.4, "spread of pace": 0.01}
"""Epsilon that the profile of one PTK costs, and what is paid once for all statistics."""
MODELS, N_MAX = 2, 2**14
ALL_ROWS = 10**9  # a formula needs some public bound: more than any stream here has

Menu = tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Profiles:
    """What was released of a profile set: facts for formulas, and profiles by samples for each level of targets."""

    facts: dict[str, Facts]
    by_samples: dict[tuple[str, str], Profile]

    def menu(self, ptk: Ptk, level: str, target: float | None = None) -> Menu:
        """Return pairs (epsilon, n) that reach a target: of the level, or another one where a formula knows all."""
        if ptk.kind == CLUSTERS:
            return self.by_samples[ptk.name, level].menu()
        tau = ptk.targets[level] if target is None else target
        found = formula_profile(
            ptk.estimator, target=tau, epsilons=GRID, rows=ALL_ROWS, facts=self.facts[ptk.name]
        )
        return found.menu()


def cost(ptks: Sequence[Ptk]) -> float:
    """Return the epsilon that a profile set pays for these PTKs, each with one target."""
    return LOSSES["spread of pace"] + sum(LOSSES[ptk.kind] for ptk in ptks)


def drawn(ptks: Sequence[Ptk]) -> float:
    """Return the epsilon that is drawn for all levels of targets: clusterings are profiled for each."""
    return cost(ptks) + (len(LEVELS) - 1) * sum(LOSSES[CLUSTERS] for ptk in ptks if ptk.kind == CLUSTERS)


def profiles(ptks: Sequence[Ptk], rows: HashedRows) -> Profiles:
    """Release facts and profiles of all rows of a profile set."""
    table, _ = rows.sample(rows.hashes)
    spread, reach = _moments(table)
    facts, by_samples = {}, {}
    for ptk in ptks:
        if ptk.kind == STATISTICS:
            told = _counts(ptk, table)
            facts[ptk.name] = Facts(shares=told.shares, spread=spread, mean_reach=reach)
        elif ptk.kind == PCA:
            facts[ptk.name] = facts_of(ptk.trained(table, LOSSES[PCA]).to_state())
        else:
            for level in LEVELS:
                by_samples[ptk.name, level] = profiler(ptk, level).run(rows)
    return Profiles(facts, by_samples)


def profiler(ptk: Ptk, level: str) -> Profiler:
    """Return the profiler of a clustering."""
    return Profiler(
        subject(ptk),
        target=ptk.targets[level],
        epsilons=CLUSTER_GRID,
        budget=LOSSES[CLUSTERS],
        n_max=N_MAX,
        models=MODELS,
        evaluation="rows",
    )


def _counts(ptk: Ptk, table: Any) -> Facts:
    """Return the shares of groups, from noisy counts."""
    counted = HistoricalStatistics(
        domains=ptk.estimator.domains, statistics=("count",), epsilon=LOSSES[STATISTICS]
    )
    return facts_of(counted.fit(table).to_state())


def _moments(table: Any) -> tuple[float, float]:
    """Return the spread of pace and how far means of groups lie from the middle of the bounds, in half widths.

    From a noisy mean and variance of all rows: the spread within groups is less on average than that of all, and the
    squares of groups' means are on average at most the square of all rows' mean and their variance.
    """
    pace = HistoricalStatistics(
        domains={"everywhere": [0]},
        bounds={"pace": PACE_BOUNDS},
        statistics=("mean", "variance"),
        epsilon=LOSSES["spread of pace"],
    ).fit(table.assign(everywhere=0))
    state = pace.to_state().tables["statistics"]
    low, high = PACE_BOUNDS
    half = (high - low) / 2
    mean = (float(state.column("pace_mean")[0].as_py()) - (low + high) / 2) / half
    variance = float(np.clip(float(state.column("pace_variance")[0].as_py()) / half**2, 1e-4, 1.0))
    return float(np.sqrt(variance)), float(np.sqrt(min(mean**2 + variance, 1.0)))
