"""Plans of PTKs whose menus are profiles of real trips: the instances of the benchmark."""

from __future__ import annotations

import json

import pytest

from benchmarks.allocator_instances import PROFILES, limits, profiled_demands
from ptkstore.domain.allocation.model import WindowPlan
from ptkstore.domain.allocation.plans import allocate_partitions


def test_the_same_seed_draws_the_same_ptks_and_more_rows_spare_epsilon() -> None:
    asked = profiled_demands(50, 1)
    assert asked == profiled_demands(50, 1) != profiled_demands(50, 2)
    for demand in asked:
        epsilons = [choice.loss.epsilon_nano for choice in demand.menu]
        rows = [choice.n_rows for choice in demand.menu]
        assert epsilons == sorted(set(epsilons))
        assert rows == sorted(rows, reverse=True)


def test_the_file_holds_menus_of_thirteen_ptks_and_nothing_else() -> None:
    known = json.loads(PROFILES.read_text())
    assert len(known) == 13
    pairs = [pair for menus in known.values() for menu in menus.values() for pair in menu]
    assert all(set(menus) == {"loose", "tight"} for menus in known.values())
    assert all(0.01 <= epsilon <= 1 and isinstance(n, int) for epsilon, n in pairs)


@pytest.mark.parametrize(("n_ptks", "partitions", "gap"), [(50, 2, 1.0), (50, 8, 1.05), (200, 8, 1.05)])
def test_plans_are_near_the_bound(n_ptks: int, partitions: int, gap: float) -> None:
    plan = allocate_partitions(profiled_demands(n_ptks, 0), limits(partitions), bound_rounds=100)
    assert isinstance(plan, WindowPlan)
    assert plan.is_optimal == (partitions == 2)
    assert plan.bound <= plan.total_rows <= gap * plan.bound
