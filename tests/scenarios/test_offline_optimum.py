"""The offline optimum with exact significances, and what the noise-free bound is about."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from _common.online_budgeting.offline import (
    ExactInstance,
    best_with_exact_significance,
    knapsack,
    noise_free_bound,
)
from _common.online_budgeting.policies import Partial, WithoutNoise
from _common.online_budgeting.replay import Asking, replay
from scipy.optimize import Bounds, LinearConstraint, milp

from ptkstore.domain.budgeting.blocks import BudgetedBlock, Query
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.errors import InvalidRequest

NANO = 10**9


def instance(seed: int, n_blocks: int, n_queries: int, limit: int, *, mixed: bool) -> ExactInstance:
    rng = np.random.default_rng(seed)
    costs = np.where(rng.random(n_queries) < 0.5, 50, 400) if mixed else np.full(n_queries, 150)
    return ExactInstance(
        rng.gamma(1.0, 100.0, (n_blocks, n_queries)),
        costs.astype(np.int64),
        rng.integers(300, 900, n_blocks),
        np.full(n_queries, limit),
    )


def nearly_equal(seed: int) -> ExactInstance:
    """Blocks and queries that hardly differ, so that the search has to branch."""
    rng = np.random.default_rng(seed)
    worth = 100 + rng.integers(0, 8, (4, 6)).astype(float)
    return ExactInstance(worth, rng.integers(100, 400, 6), rng.integers(300, 900, 4), np.full(6, 2))


def by_highs(one: ExactInstance) -> float:
    n_blocks, n_queries = one.significance.shape
    rows = np.zeros((n_blocks + n_queries, n_blocks * n_queries))
    for i in range(n_blocks):
        rows[i, i * n_queries : (i + 1) * n_queries] = one.costs
    for j in range(n_queries):
        rows[n_blocks + j, j::n_queries] = 1
    found = milp(
        -one.significance.ravel(),
        constraints=LinearConstraint(rows, ub=np.concatenate([one.left, one.limits])),
        integrality=np.ones(n_blocks * n_queries),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    return float(-found.fun)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(("n_blocks", "n_queries", "limit"), [(8, 12, 3), (10, 2, 4), (5, 6, 1), (3, 4, 9)])
def test_branch_and_bound_finds_what_highs_finds(
    n_blocks: int, n_queries: int, limit: int, mixed: bool
) -> None:
    for seed in range(5):
        one = instance(seed, n_blocks, n_queries, limit, mixed=mixed)
        found = best_with_exact_significance(one)
        assert one.admits(found.given)
        assert found.proven
        assert found.value == pytest.approx(one.value(found.given))
        assert found.value == pytest.approx(by_highs(one), rel=1e-6)


def test_a_search_that_is_cut_off_says_so_and_its_bound_holds() -> None:
    cut = 0
    for seed in range(5):
        one = nearly_equal(seed)
        whole, short = best_with_exact_significance(one), best_with_exact_significance(one, max_nodes=1)
        assert whole.value == pytest.approx(by_highs(one), rel=1e-6)
        assert short.bound >= whole.value - 1e-6
        assert short.value <= whole.value + 1e-9
        cut += not short.proven
    assert cut > 0


def test_a_knapsack_takes_the_most_worth() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        worth, costs = rng.random(8), rng.integers(1, 20, 8)
        best = max(
            sum(worth[list(items)])
            for n in range(9)
            for items in itertools.combinations(range(8), n)
            if sum(costs[list(items)]) <= 30
        )
        chosen = knapsack(worth, costs, 30)
        assert costs[chosen].sum() <= 30
        assert worth[chosen].sum() == pytest.approx(best)


def test_wrong_instances_are_refused() -> None:
    one = instance(0, 2, 3, 1, mixed=False)
    for wrong in (
        {"significance": one.significance.T},
        {"significance": -one.significance},
        {"costs": 0 * one.costs},
        {"limits": one.limits[:1]},
    ):
        fields = {name: getattr(one, name) for name in ("significance", "costs", "left", "limits")}
        with pytest.raises(InvalidRequest):
            ExactInstance(**(fields | wrong))


RULE = ThresholdRule(1.0, math.e**2, 0)


def value_of(
    policy: WithoutNoise | Partial, ratios: list[list[float]], cost: float, most: int, seed: int
) -> float:
    """The significance that a policy collects from queries with some ratios on each block."""
    nano = round(cost * NANO)
    askings = [Asking(Query(f"q{j}", nano, most), np.array(one) * cost) for j, one in enumerate(ratios)]
    served = replay(askings, policy, seed=seed)
    return sum(
        float(asking.significance[grant.block]) * grant.nano / nano
        for asking, one in zip(askings, served, strict=True)
        for grant in one.grants
    )


def fresh(n_blocks: int) -> dict[int, BudgetedBlock]:
    return {i: BudgetedBlock(i, NANO, NANO) for i in range(n_blocks)}


def test_without_noise_and_limits_the_bound_holds_and_is_nearly_reached() -> None:
    """B7: an adversary raises the ratio slowly and stops; exact comparisons, small costs, all blocks allowed."""
    assert noise_free_bound(RULE) == pytest.approx(3.0)
    worst, cost = 0.0, 0.002
    for top in (1.0, 2.0, 4.0, 7.38):
        ratios = [[r] for r in np.geomspace(1.0, top, 12) for _ in range(500)]
        collected = value_of(WithoutNoise(fresh(1), RULE), ratios, cost, 1, seed=0)
        best = sum(sorted((r for (r,) in ratios), reverse=True)[:500]) * cost
        worst = max(worst, best / collected)
    assert 2.5 < worst < 3.0 * 1.02


def test_the_bound_does_not_hold_where_a_query_may_not_have_every_block() -> None:
    """B7: the paper's proof adds up blocks without the limits c_j. Here the ratio is U / L."""
    ratios = [[RULE.least, RULE.most]]
    found = [value_of(WithoutNoise(fresh(2), RULE), ratios, 0.01, 1, seed) for seed in range(20)]
    best = RULE.most * 0.01
    assert best / min(found) == pytest.approx(RULE.most / RULE.least)
    assert best / min(found) > 2 * noise_free_bound(RULE)


def test_algorithm_3_has_no_bound_where_all_queries_are_of_little_significance() -> None:
    """B7: Theorem 5 says that blocks are spent, but nothing is ever granted."""
    rule = ThresholdRule(1.0, math.e**2, 1)
    public = [Asking(Query(f"q{j}", NANO // 100, 1), np.array([0.01]), is_public=True) for j in range(200)]
    assert all(not one.grants for one in replay(public, Partial(fresh(1), rule, 0.5), seed=0))
