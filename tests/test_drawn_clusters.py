"""Drawn tables of narrow clusters are what the guide says, and so is the method they are compared with."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from benchmarks import drawn_clusters
from benchmarks.drawn_clusters import Layout, Reached, informed, layouts, near_from


@pytest.fixture(scope="module")
def drawn() -> list[Layout]:
    return list(layouts(300, 1000, 12))


def test_drawn_tables_have_the_rows_and_gaps_they_promise(drawn: list[Layout]) -> None:
    for layout in drawn:
        n, k = len(layout.rows), len(layout.centres)
        assert 299 <= n / k * layout.epsilon <= 1001
        assert 10 * k <= n <= 200_000
        assert 4 <= k <= 64
        assert 1e-4 <= layout.deviation <= 0.05
        assert pdist(layout.centres).min() >= 8 * layout.deviation * (1 - 1e-9)
        offsets = layout.rows - layout.centres[layout.owners]
        assert offsets.std() == pytest.approx(layout.deviation, rel=0.1)


def test_with_a_large_budget_the_informed_method_is_as_good_as_k_means(drawn: list[Layout]) -> None:
    random = np.random.default_rng(1)
    for layout in drawn:
        assert informed(replace(layout, epsilon=1e6), random) <= 1.02


def test_with_a_tiny_budget_the_informed_method_loses_a_cluster_or_its_place(drawn: list[Layout]) -> None:
    random = np.random.default_rng(2)
    assert all(informed(replace(layout, epsilon=layout.epsilon / 300), random) > 1.1 for layout in drawn)


def test_a_cluster_is_found_when_a_centre_of_its_own_is_near(drawn: list[Layout]) -> None:
    layout = drawn[0]
    assert drawn_clusters._found(layout, layout.centres)
    assert not drawn_clusters._found(layout, layout.centres[1:])
    shared = layout.centres.copy()
    shared[0] = shared[1]
    assert not drawn_clusters._found(layout, shared)


def ranges(*shares: float) -> list[Reached]:
    pairs: Any = zip(drawn_clusters.RANGES, shares, strict=False)
    return [Reached(low, high, near, 1.0, 1.0) for (low, high), near in pairs]


@pytest.mark.parametrize(
    ("shares", "start"),
    [((0.1, 0.95, 0.9, 0.9), 100.0), ((0.95, 0.8, 0.9, 1.0), 300.0), ((1.0, 1.0, 0.89), np.inf)],
)
def test_most_tables_are_near_from_where_no_later_range_falls_short(
    shares: tuple[float, ...], start: float
) -> None:
    assert near_from(ranges(*shares)) == start
