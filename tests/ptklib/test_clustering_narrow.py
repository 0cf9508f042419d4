"""Narrow clusters: where they are seen, that nothing else is taken for them, and what their release loses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import Clustering, ReleasedState
from ptklib.accounting import pure_epsilon
from ptklib.arrays import Floats, Ints
from ptklib.checks.event_diff import differences
from ptklib.checks.transcript import Step, record, replay
from ptklib.clustering import grid, zoom
from ptklib.clustering.grid import LEVELS, Noisy
from ptklib.clustering.narrow import CLUSTERS_MOST, Region, _evidence, narrow_regions
from ptklib.exceptions import StateMismatchError
from ptklib.mechanisms.recording import recorded_draws

DIMENSIONS = pytest.mark.parametrize("dimension", [1, 2, 3])


def estimator(dimension: int, k: int, **keywords: Any) -> Clustering:
    return Clustering([f"v{i}" for i in range(dimension)], k, bounds=(0, 1), **{"epsilon": 1.0, **keywords})


def rmse(rows: Floats, centres: Floats) -> float:
    return float(np.sqrt(((rows[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1).mean()))


def around(centres: Floats, n_each: int, width: float, seed: int = 1) -> Floats:
    """Return so many rows around each centre."""
    places = np.repeat(centres, n_each, axis=0)
    return np.clip(places + np.random.default_rng(seed).normal(0, width, places.shape), 0, 1)


def spread_out(dimension: int, k: int = 6) -> Floats:
    """Return centres far from each other, at no special place of a cell."""
    places = np.arange(1, k + 1)[:, None] * np.array([0.618, 0.414, 0.732])[:dimension]
    return np.asarray(0.1 + 0.8 * (places % 1))


def is_narrow(model: Clustering) -> bool:
    """Say whether a release went on with narrow clusters: its coarse counts are then sums of the finest."""
    dimension = len(model.required_columns())
    finest, coarse = model.noise_variance_["level_2"], model.noise_variance_["level_0"]
    return coarse == pytest.approx(finest * (LEVELS[dimension][-1] // LEVELS[dimension][0]) ** dimension)


@DIMENSIONS
@pytest.mark.parametrize("width", [1e-5, 1e-4, 1e-3, 5e-3])
def test_narrow_clusters_of_any_width_are_found_as_by_k_means(dimension: int, width: float) -> None:
    centres = spread_out(dimension)
    rows = around(centres, 1000, width)
    losses = [rmse(rows, estimator(dimension, 6).fit(rows).cluster_centers_) for _ in range(3)]
    assert np.median(losses) <= 1.1 * rmse(rows, centres)


@DIMENSIONS
def test_noise_alone_is_no_cluster(dimension: int) -> None:
    """Seeded, so it never fails by chance. 200 tables show a false alarm of some per cent, not the one of 1e-6."""
    random = np.random.default_rng(2)
    for _ in range(200):
        noise = Noisy(random.laplace(0, 10, LEVELS[dimension][-1] ** dimension), 200.0)
        total = Noisy(random.laplace(0, 50, 1), 5000.0)
        for k in (1, 2, 8):
            assert narrow_regions(noise, total, dimension, k) is None


@DIMENSIONS
def test_rows_that_are_spread_are_no_narrow_clusters(dimension: int) -> None:
    random = np.random.default_rng(3)
    wide = np.clip(random.normal(0.5, 0.2, (20_000, dimension)), 0, 1)
    both = np.vstack([around(spread_out(dimension, 4), 1000, 1e-3), random.uniform(0, 1, (4000, dimension))])
    for rows in (wide, both, random.uniform(0, 1, (20_000, dimension))):
        cells = grid.cells(rows)[0]
        for scale in (0.5, 20.0):
            noisy = cells + random.laplace(0, scale, cells.shape)
            regions = narrow_regions(
                Noisy(noisy, 2 * scale**2), Noisy(np.array([len(rows)]), 1.0), dimension, 4
            )
            assert regions is None


@pytest.mark.parametrize("n_cells", [1, 4, 9, 27])
def test_noise_brings_up_no_window_more_often_than_its_evidence_says(n_cells: int) -> None:
    sums = np.random.default_rng(4).laplace(0, 3, (200_000, n_cells)).sum(axis=1)
    for height in np.quantile(sums, [0.9, 0.99, 0.999]):
        seen = (sums >= height).mean()
        assert seen <= np.exp(-_evidence(np.array([height]), n_cells, 3.0)[0]) * 1.2


def test_two_clusters_in_one_cell_are_both_found() -> None:
    """A window of noise, in one table of 50, lets a fit go the wide way: two of three do once in 800 runs."""
    centres = np.array([[0.2021, 0.3001], [0.2031, 0.3031], [0.7, 0.7], [0.1, 0.9]])
    rows = around(centres, 3000, 1e-4)
    models = sorted(
        (estimator(2, 4).fit(rows) for _ in range(3)), key=lambda one: rmse(rows, one.cluster_centers_)
    )
    assert is_narrow(models[1])
    assert rmse(rows, models[1].cluster_centers_) <= 1.1 * rmse(rows, centres)
    assert models[1].tables_["centers"].column("weight").to_numpy() == pytest.approx([3000] * 4, rel=0.1)


def table(*regions: tuple[int, float], elsewhere: float = 0.0) -> tuple[Noisy, Noisy]:
    """Return noiseless counts on a line, of cells and their rows, and the number of all rows."""
    counts = np.zeros(LEVELS[1][-1])
    for cell, rows in regions:
        counts[cell] = rows
    return Noisy(counts, 2.0), Noisy(np.array([counts.sum() + elsewhere]), 1.0)


def test_few_rows_are_no_cluster_of_their_own_where_clusters_are_missing() -> None:
    alike, fewer = [(100, 3000.0), (500, 3000.0)], (900, 300.0)
    assert narrow_regions(*table(*alike, (900, 2500.0)), 1, 4) is not None
    assert narrow_regions(*table(*alike, fewer), 1, 4) is None
    assert narrow_regions(*table(*alike, fewer), 1, 3) is not None


def test_a_window_that_noise_may_have_made_is_no_cluster() -> None:
    clear, doubtful = [(100, 300.0), (300, 300.0), (500, 300.0)], (900, 14.0)
    assert narrow_regions(*table(*clear, doubtful), 1, 4) is None
    found = narrow_regions(*table(*clear, doubtful), 1, 3)
    assert found is not None
    assert [region.rows for region in found] == [300.0] * 3
    assert narrow_regions(*table(*clear, (900, 60.0)), 1, 3) is None


@pytest.mark.parametrize(("side", "is_region"), [(4, True), (5, False)])
def test_no_region_is_wider_than_four_cells(side: int, is_region: bool) -> None:
    strip = [(100 + cell, 400.0) for cell in range(side)]
    assert (narrow_regions(*table(*strip), 1, 1) is not None) == is_region


@pytest.mark.parametrize(("k", "elsewhere", "is_narrow"), [(2, 40, True), (2, 90, False), (3, 400, False)])
def test_rows_elsewhere_forbid_to_zoom(k: int, elsewhere: float, is_narrow: bool) -> None:
    counts = table((100, 3000.0), (500, 3000.0), elsewhere=elsewhere)
    assert (narrow_regions(*counts, 1, k) is not None) == is_narrow


def test_rows_of_a_region_that_do_not_stand_out_are_none() -> None:
    region = Region(np.array([10]), np.array([12]), 500.0, 100.0)
    for rows, expected in ((8.0, 0.0), (12.0, 12.0)):  # four and six deviations of two cells of variance 2
        counts, _ = table((10, rows))
        assert region.recounted(counts, 1).rows == expected


def test_a_row_adds_to_one_mean() -> None:
    near = [zoom.NarrowCluster(np.full(2, m), np.full(2, 9.0), 5.0) for m in (100.0, 108.0)]
    sums = zoom._sums_of_offsets(np.array([[104, 103]]), near)
    assert sum(bool(one.any()) for one in sums) == 1
    assert np.abs(np.concatenate(sums)).sum() <= 2 * grid.OFFSET


@pytest.mark.parametrize("shared", range(1, CLUSTERS_MOST + 1))
@DIMENSIONS
def test_what_is_drawn_is_what_is_declared(dimension: int, shared: int) -> None:
    """Whichever way a release goes on, and however many clusters share a region."""
    alone = spread_out(dimension, 5)
    close = alone[0] + np.arange(1, shared)[:, None] * np.full(dimension, 1.5 / LEVELS[dimension][-1] / 4)
    centres = np.vstack([alone, close])
    model = estimator(dimension, len(centres), epsilon=3.0)
    for rows, narrow in ((around(centres, 2000, 1e-5), True), (np.zeros((0, dimension)), False)):
        with recorded_draws() as draws:
            model.finalize([model.partial_statistics(rows)])
        assert is_narrow(model) == narrow
        assert not differences(model.declared_loss().event, draws)
    assert pure_epsilon(model.declared_loss().event) == pytest.approx(3.0)


def most_that_moves(one: Step, other: Step) -> float:
    """Return a bound of how much likelier any output of a draw is on the exact numbers of another."""
    moved = [abs(a - b) for a, b in zip(one.exact, other.exact, strict=True)]
    return float(np.max(moved) if one.mechanism == "PermuteAndFlip" else np.sum(moved)) / one.scale


def frame(rows: Floats) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[f"v{i}" for i in range(rows.shape[1])])


@pytest.mark.parametrize("per_unit", [1, 4])
@pytest.mark.parametrize("extra", ["in a cluster", "beside it", "far away", "in all clusters"])
@DIMENSIONS
def test_no_unit_makes_what_is_released_likelier_than_declared(
    dimension: int, extra: str, per_unit: int
) -> None:
    """The outputs of one training are replayed on rows with one unit more; `bounds` holds for all outputs of its draws.

    A table goes the wide way in about one training of ten: fewer than four narrow ones of twelve are once in 10**6.
    """
    centres = spread_out(dimension, 4)
    centres[3] = centres[0] + 0.7 / LEVELS[dimension][-1]
    rows = around(centres, 3000, 2e-4)
    unit = {
        "in a cluster": np.repeat(centres[:1] + 1e-4, per_unit, axis=0),
        "beside it": np.repeat(centres[:1] + 0.3 / LEVELS[dimension][-1], per_unit, axis=0),
        "far away": np.full((per_unit, dimension), 0.999),
        "in all clusters": centres[:per_unit],
    }[extra]
    model = estimator(dimension, 4, epsilon=2.0, max_rows_per_unit=per_unit)
    without, added = frame(rows), frame(np.vstack([rows, unit]))
    losses, bounds, narrow = [], [], 0
    for _ in range(12):
        made = record(lambda: model.fit(without))
        narrow += is_narrow(model)
        other = replay(made, lambda: model.fit(added), to_the_end=False)
        losses.append(abs(float(made.log_ratio(other).sum())))
        bounds.append(sum(map(most_that_moves, made.steps, other.steps)))
    assert narrow >= 4
    assert max(losses) <= max(bounds) <= 2.0 * (1 + 1e-9)
    if extra == "in a cluster":
        assert max(losses) > 0.2


def test_a_selection_rises_with_rows_and_by_no_more_than_its_units() -> None:
    seen: list[Ints] = []
    region = Region(np.array([5]), np.array([7]), 40.0, 50.0)
    values = np.random.default_rng(5).integers(0, 2**20, 60)
    cell = 2**20 // LEVELS[1][-1]

    def scores(of: Ints) -> Ints:
        made = record(lambda: zoom.narrow_clusters(of[:, None], [region], plan.narrow))
        return made.steps[0].exact[0]

    plan = zoom.plan_zoom(1, 1, 1.0)
    inside = 4 * cell + values % (4 * cell)
    for more in inside[:20]:
        rise = scores(np.append(inside[20:], more)) - scores(inside[20:])
        seen.append(rise)
        assert rise.min() >= 0
        assert rise.max() <= zoom._SCORE
    assert max(rise.max() for rise in seen) == zoom._SCORE


def test_a_continued_state_has_the_centres_of_all_rows_so_far() -> None:
    centres = spread_out(2)
    first = estimator(2, 6).fit(around(centres, 3000, 1e-4))
    later = centres + 1e-4  # as far as a narrow cluster is wide
    second = estimator(2, 6).fit(around(later[:5], 3000, 1e-4), previous_state=first.to_state())
    assert is_narrow(second)
    order = ((second.cluster_centers_[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=0)
    moved = (second.cluster_centers_[order] - centres).mean(axis=1)
    assert moved[:5] == pytest.approx(np.full(5, 5e-5), abs=3e-5)
    assert moved[5] == pytest.approx(0, abs=3e-5)  # it has no new rows, and stays
    weights = second.tables_["centers"].column("weight").to_numpy()[order]
    assert weights == pytest.approx([6000] * 5 + [3000], rel=0.05)


def test_a_zoom_continues_a_state_of_a_grid() -> None:
    """States of earlier versions have no noisy number of rows. An imprecise earlier centre keeps half of its weight."""
    centres = spread_out(2)
    rows = around(centres, 3000, 1e-4)
    old = estimator(2, 6, method="grid").fit(rows)
    state = ReleasedState(
        old.to_state().tables,
        {**old.to_state().meta, "params": {**old.to_state().meta["params"], "method": "auto"}},
    )
    both = estimator(2, 6).fit(rows, previous_state=state)
    exact = rmse(rows, centres)
    assert rmse(rows, both.cluster_centers_) - exact < 0.6 * (rmse(rows, old.cluster_centers_) - exact)
    assert both.tables_["centers"].column("weight").to_numpy().sum() == pytest.approx(36_000, rel=0.05)


@pytest.mark.parametrize("places", [[2**20, 0], [-1, 0], [5]])
def test_partial_statistics_of_places_outside_of_the_box_are_refused(places: list[int]) -> None:
    model = estimator(2, 3)
    part = replace(model.partial_statistics(np.zeros((0, 2))), arrays={"rows": np.array(places)})
    with pytest.raises(StateMismatchError, match="did not write"):
        model.finalize([part])


def test_damaged_counts_of_an_earlier_version_are_refused() -> None:
    model = estimator(2, 3)
    part = model.partial_statistics(np.zeros((0, 2)))
    for counts in (
        np.full(128 * 128, -1),
        np.zeros(10, dtype=np.int64),
        np.zeros((128, 128), dtype=np.int64),
    ):
        with pytest.raises(StateMismatchError):
            model.finalize([replace(part, arrays={"cells": counts})])


@DIMENSIONS
def test_places_are_counted_as_the_rows_they_stand_for(dimension: int) -> None:
    shares = np.random.default_rng(6).uniform(0, 1, (500, dimension))
    shares[0], shares[1] = 0.0, 1.0
    places = zoom.positions_of(shares)
    assert zoom.middles(places) == pytest.approx(shares, abs=2.0**-20)
    counts, offsets = zoom.cells(places)
    expected, of_shares = grid.cells(shares)
    assert np.array_equal(counts, expected)
    assert np.abs(offsets - of_shares).max() <= 2 * counts.max()
