"""The experiments of the budgeting paper: Tables II to V, each with one seed at a time.

Blocks of Tables II to IV are *warm*: earlier queries have consumed z_0 of each, whatever the policy. On fresh blocks
Algorithm 2 takes every query, and differs from Sage in nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from _common.budget_models import Blocks, Learner, without_privacy
from _common.budget_pools import Pool
from _common.online_budgeting.offline import ExactInstance, best_with_exact_significance
from _common.online_budgeting.policies import Partial, Reused, Thresholds, UsedOnce
from _common.online_budgeting.replay import Asking, Grant, Policy, Served, replay, warm
from ptkstore.domain.accounting.losses import NANO
from ptkstore.domain.budgeting.blocks import Query
from ptkstore.domain.budgeting.rule import ThresholdRule

OURS, SAGE, STREAMING, OFFLINE = "ours", "Sage", "streaming", "offline, exact"
OURS_2, WHOLE = "Algorithm 2", "streaming, whole blocks"
POLICIES = (OURS, OURS_2, SAGE, STREAMING, WHOLE)
"""`OURS` is Algorithm 2 for small costs, and Algorithm 3 for mixed ones."""
KINDS = ("small", "mixed")
WARM = 1e-3
"""How far above z_0 warm blocks are."""


@dataclass(frozen=True)
class Setting:
    """What one pool's experiments have in common.

    Parameters
    ----------
    passes : float
        The quality that a model has to reach, as a part of the way from no model to the model without privacy; of
        numbers, the largest error in parts of that of the model without privacy.
    """

    pool: Pool
    n_rows: int
    n_blocks: int
    rule: ThresholdRule
    release_nano: int
    """What Algorithm 3 pays for a noisy significance."""
    small: tuple[float, ...] = (0.1,)
    mixed: tuple[float, ...] = (0.05, 0.4)
    passes: float = 0.7
    tables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Sizes by table: II (blocks, queries, blocks of a query), III (queries, blocks of a query), IV (queries), V
    (queries, blocks of a query, then the numbers of blocks)."""

    def costs(self, kind: str) -> tuple[float, ...]:
        return self.small if kind == "small" else self.mixed

    @cached_property
    def targets(self) -> tuple[float, ...]:
        """The quality that a model of each task has to reach."""
        best = [without_privacy(self.pool, task) for task in range(self.pool.n_tasks)]
        if self.pool.in_time:
            return tuple(self.passes * one for one in best)
        return tuple(0.5 + self.passes * (one - 0.5) for one in best)

    def meets(self, quality: float, task: int) -> bool:
        return quality <= self.targets[task] if self.pool.in_time else quality >= self.targets[task]


def setting(pool: Pool) -> Setting:
    """Return the sizes of the paper for a pool like its own, and our costs and bounds."""
    if pool.in_time:
        return Setting(
            pool,
            n_rows=2_000 if pool.name == "houses" else 10_000,
            n_blocks=20,
            rule=ThresholdRule(2.0, 10.0, 0),
            release_nano=0,
            small=(0.2,),
            passes={"houses": 2.0, "trips": 1.3}.get(pool.name, 5.0),
            tables={"II": (10, 2, 4), "III": (4, 3), "IV": (5,), "V": (60, 5, 10, 15, 20)},
        )
    return Setting(
        pool,
        n_rows=5_000,
        n_blocks=12,
        rule=ThresholdRule(2_000.0, 27_000.0, NANO // 20),
        release_nano=NANO // 100,
        tables={"II": (8, 12, 2), "III": (6, 2), "IV": (5,), "V": (60, 3, 4, 8, 12)},
    )


@dataclass(frozen=True)
class Bench:
    """Blocks, queries and learner of one seed. Queries take the tasks in turn, in a random order."""

    setting: Setting
    kind: str
    seed: int
    blocks: Blocks
    learner: Learner
    tasks: tuple[int, ...]

    @classmethod
    def of(cls, chosen: Setting, kind: str, seed: int, n_blocks: int, n_queries: int) -> Bench:
        blocks = Blocks.drawn(chosen.pool, n_blocks, chosen.n_rows, seed)
        order = np.random.default_rng([seed, 7]).permutation(chosen.pool.n_tasks)
        tasks = tuple(int(order[q % len(order)]) for q in range(n_queries))
        return cls(chosen, kind, seed, blocks, Learner(blocks), tasks)

    def askings(self, most: Sequence[int]) -> list[Asking]:
        costs, pool = self.setting.costs(self.kind), self.setting.pool
        return [
            Asking(
                Query(f"q{q}", round(costs[q % len(costs)] * NANO), most[q]),
                self.blocks.recency() if pool.in_time else self.blocks.significance(task),
                pool.in_time,
            )
            for q, task in enumerate(self.tasks)
        ]

    def policy(self, name: str, *, is_warm: bool) -> Policy:
        rule = self.setting.rule
        start = warm(range(len(self.blocks.rows)), NANO, rule.free_share + WARM if is_warm else 0.0)
        if name == OURS and self.kind == "mixed":
            return Partial(start, replace(rule, comparison_nano=self.setting.release_nano))
        if name in (OURS, OURS_2):
            return Thresholds(start, rule)
        return Reused(start) if name == SAGE else UsedOnce(start, whole=name == WHOLE)

    def quality(self, query: int, grants: Sequence[Grant]) -> float:
        return self.learner.quality(query, self.tasks[query], grants)

    def run(self, name: str, most: Sequence[int], *, validated: bool, is_warm: bool) -> list[Served]:
        def accepted(query: int, grants: Sequence[Grant]) -> bool:
            return self.setting.meets(self.quality(query, grants), self.tasks[query])

        askings = self.askings([max(1, n) for n in most])
        return replay(
            askings,
            self.policy(name, is_warm=is_warm),
            seed=self.seed,
            accepted=accepted if validated else None,
        )


def offline_and_online(chosen: Setting, kind: str, seed: int) -> dict[str, tuple[float, float]]:
    """Table II: mean quality and mean significance of a query, offline with exact significances and online."""
    n_blocks, n_queries, most = chosen.tables["II"]
    bench = Bench.of(chosen, kind, seed, n_blocks, n_queries)
    askings = bench.askings([most] * n_queries)
    worth = np.column_stack([asking.significance for asking in askings])
    costs = np.array([asking.query.cost_nano for asking in askings])
    left = [block.left_nano for block in bench.policy(SAGE, is_warm=True).blocks.values()]
    exact = best_with_exact_significance(
        ExactInstance(worth, costs, np.array(left), np.full(n_queries, most)), max_nodes=200
    )
    served = {
        OFFLINE: [
            [Grant(int(i), int(costs[q])) for i in np.flatnonzero(exact.given[:, q])]
            for q in range(n_queries)
        ],
        "online": [one.grants for one in bench.run(OURS, [most] * n_queries, validated=False, is_warm=True)],
    }
    found = {}
    for name, grants in served.items():
        apart = 0 if name == "online" else n_queries  # noise of its own
        quality = [bench.learner.quality(apart + q, bench.tasks[q], one) for q, one in enumerate(grants)]
        collected = [sum(worth[g.block, q] * g.nano / costs[q] for g in one) for q, one in enumerate(grants)]
        found[name] = float(np.mean(quality)), float(np.mean(collected))
    return found


def same_data(chosen: Setting, kind: str, seed: int, *, is_warm: bool = True) -> dict[str, float]:
    """Table III: mean quality where each query has as many blocks under Sage as under ours."""
    n_queries, most = chosen.tables["III"]
    bench = Bench.of(chosen, kind, seed, chosen.n_blocks, n_queries)
    ours = bench.run(OURS, [most] * n_queries, validated=False, is_warm=is_warm)
    sage = bench.run(SAGE, [len(one.grants) for one in ours], validated=False, is_warm=is_warm)
    found: dict[str, list[float]] = {OURS: [], SAGE: []}
    for query, (mine, other) in enumerate(zip(ours, sage, strict=True)):
        n = len(mine.grants)
        if n:
            found[OURS].append(bench.quality(query, mine.grants))
            found[SAGE].append(bench.learner.quality(n_queries + query, bench.tasks[query], other.grants[:n]))
    return {name: float(np.mean(values)) for name, values in found.items()} if found[OURS] else {}


def blocks_used(chosen: Setting, kind: str, seed: int) -> dict[str, tuple[list[int], float]]:
    """Table IV: how many different blocks the first queries have used together, and the share that was accepted."""
    (n_queries,) = chosen.tables["IV"]
    found = {}
    for name in POLICIES:
        bench = Bench.of(chosen, kind, seed, chosen.n_blocks, n_queries)
        served = bench.run(name, [chosen.n_blocks] * n_queries, validated=True, is_warm=True)
        used: set[int] = set()
        counts = []
        for one in served:
            used |= {grant.block for grant in one.grants}
            counts.append(len(used))
        found[name] = counts, float(np.mean([one.accepted for one in served]))
    return found


def queries_served(chosen: Setting, kind: str, seed: int) -> dict[str, list[int]]:
    """Table V: how many of a sequence of queries are accepted, on fresh blocks, by the number of blocks."""
    n_queries, most, *sizes = chosen.tables["V"]
    found: dict[str, list[int]] = {name: [] for name in POLICIES}
    for n_blocks in sizes:
        for name, counts in found.items():
            bench = Bench.of(chosen, kind, seed, n_blocks, n_queries)
            served = bench.run(name, [most] * n_queries, validated=True, is_warm=False)
            counts.append(sum(one.accepted for one in served))
    return found
