"""Recommended rows are those that windows are planned with."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ptkstore.application.planning.recommend_rows import StreamAdvice, recommend_rows
from ptkstore.application.planning.window_plans import plan_window
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.allocation.advice import BUDGETS
from ptkstore.domain.allocation.model import Infeasible
from tests.support.planned_losses import gaussian, means
from tests.support.world import STREAM, World

ZONES: dict[str, Any] = {"attribute": "zone", "attribute_values": ("y", "z")}
ROOMY: dict[str, Any] = {"rows_per_window": 10**6, "n_max": 10**6}


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    world.service.close()


def advised(world: World, **more: Any) -> StreamAdvice:
    return recommend_rows(STREAM, begin=world.service.begin, **more)


def planned_rows(world: World) -> int:
    """The rows that the next window's partitions open."""
    plan = plan_window(world.service.ptks(), world.service.streams()[0].policy)
    assert not isinstance(plan, Infeasible)
    caps: dict[int, int] = {}
    for one in plan:
        caps[one.partition] = max(caps.get(one.partition, 0), one.offer.n_rows)
    return sum(caps.values())


def test_gaussian_ptks_that_fit_by_their_curves_are_recommended_rows(bare: World) -> None:
    bare.stream(accountant=Accountant.RENYI, capacity_delta=1e-6)
    for n in range(8):  # 1.6 by the sum of epsilons
        bare.register(f"cov{n}", estimator=gaussian())
    advice = advised(bare)
    assert advice.n_rows == planned_rows(bare) == 80
    (found,) = advice.lines.values()
    assert found.refusal is None
    whole = found.by_budget[BUDGETS.index(Fraction(1))]
    assert (whole.n_rows, whole.bound, whole.first_feasible_rows) == (80, 80, 80)
    assert found.by_budget[0].n_rows is None  # a quarter of the budget has no room for them


@pytest.mark.parametrize("accountant", list(Accountant))
def test_ptks_with_menus_are_recommended_what_windows_open(bare: World, accountant: Accountant) -> None:
    bare.stream(accountant=accountant, train_partitions=2, **ROOMY)
    for n in range(5):
        bare.register(f"p{n}", estimator=means(), target=0.05, config={"epsilons": [0.05, 0.9]})
    assert advised(bare).n_rows == planned_rows(bare)


def test_ptks_of_different_values_do_not_compete(bare: World) -> None:
    bare.stream(**ZONES)
    for zone in ("y", "z"):
        bare.register(f"in_{zone}", epsilon=0.9, config={"where": {"zone": zone}})
    advice = advised(bare)
    assert sorted(advice.lines) == ["common, y", "common, z"]
    assert advice.n_rows == planned_rows(bare) == 80
    assert all(line.partitions == 1 for line in advice.lines.values())


def test_one_value_is_the_same_as_a_list_of_it(bare: World) -> None:
    bare.stream(**ZONES)
    one = bare.register("one", epsilon=0.3, config={"where": {"zone": "y"}})
    other = bare.register("other", epsilon=0.3, config={"where": {"zone": ["y"]}})
    configs = {spec.ptk_id: spec.config for spec in bare.service.ptks()}
    assert configs[one] == configs[other] == {"where": {"zone": ["y"]}}
    assert list(advised(bare).lines) == ["common"]


def test_a_ptk_on_all_values_joins_the_budgets_of_each(bare: World) -> None:
    bare.stream(**ZONES)
    for zone in ("y", "z"):
        bare.register(f"in_{zone}", epsilon=0.9, config={"where": {"zone": zone}})
    bare.register("everywhere", epsilon=0.1)  # 1.9 by the sum, 1 on each block
    advice = advised(bare)
    assert list(advice.lines) == ["common"]
    assert advice.n_rows == planned_rows(bare) == 80
