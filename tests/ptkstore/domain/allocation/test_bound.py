"""The lower bound against optima that are known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ptkstore.domain.allocation.bound import lower_bound
from ptkstore.domain.allocation.exact import Placement, in_one, in_two
from ptkstore.domain.allocation.program import Program, program_of
from ptkstore.domain.allocation.search import in_many
from ptkstore.domain.allocation.starts import placement_of


def program(draw: np.random.Generator, size: int, partitions: int) -> Program:
    """Menus whose rows fall as costs rise, costs that leave a partition room for a few."""
    menus = []
    for _ in range(size):
        costs = np.sort(draw.choice(np.arange(5, 60), 3, replace=False))[::-1]
        rows = np.sort(draw.choice(np.arange(1, 200), 3, replace=False))
        menus.append(list(zip(costs.tolist(), rows.tolist(), strict=True)))
    return program_of(menus, [0] * size, [-1] * size, capacity=100, delta_capacity=0, partitions=partitions)


def test_no_bound_in_two_partitions_is_above_the_optimum() -> None:
    draw = np.random.default_rng(7)
    for rounds in (1, 5, 40) * 15:
        task = program(draw, 8, 2)
        best, proven = in_two(task, 10**6)
        assert proven
        if best is not None:
            assert best.total >= lower_bound(task, best, rounds)
            # from a plan that is far from the best, too
            worse = Placement(best.parts, (best.caps[0] + 150, best.caps[1] + 90))
            assert best.total >= lower_bound(task, worse, rounds)


def test_no_bound_in_three_partitions_is_above_the_optimum() -> None:
    draw = np.random.default_rng(8)
    for rounds in (3, 40) * 8:
        task = program(draw, 5, 3)
        every = (placement_of(task, np.array(parts)) for parts in product(range(3), repeat=5))
        best = min((p for p in every if p is not None), key=lambda p: p.total)
        assert best.total >= lower_bound(task, best, rounds)


@pytest.mark.parametrize(("size", "partitions", "within"), [(60, 15, 1.25), (30, 10, 1.2)])
def test_bounds_of_many_ptks_are_near(size: int, partitions: int, within: float) -> None:
    task = program(np.random.default_rng(9), size, partitions)
    found = in_many(task)
    assert found is not None
    assert found.total <= within * lower_bound(task, found, 150)


def test_a_single_partition_is_bounded_by_its_optimum() -> None:
    task = program(np.random.default_rng(10), 4, 1)
    best = in_one(task)
    assert best is not None
    assert 0 < lower_bound(task, best, 50) <= best.total
