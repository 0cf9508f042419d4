"""Narrow clusters: where they are seen, that nothing else is taken for them, and what their release loses."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from ptklib import Clustering, ReleasedState
from ptklib.accounting import pure_epsilon
from ptklib.checks.events import differences
from ptklib.checks.transcript import record, replay
from ptklib.clustering import grid, zoom
from ptklib.clustering.grid import LEVELS, Noisy
from ptklib.clustering.narrow import SHARED_MOST, Region, _evidence, narrow_regions
from ptklib.mechanisms.recording import recorded_draws

Floats = npt.NDArray[np.float64]

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
    """False alarm: one table in a million, once in 1,600 runs of all three."""
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
    centres = np.array([[0.2021, 0.3001], [0.2031, 0.3031], [0.7, 0.7], [0.1, 0.9]])
    rows = around(centres, 3000, 1e-4)
    model = estimator(2, 4).fit(rows)
    assert is_narrow(model)
    assert rmse(rows, model.cluster_centers_) <= 1.1 * rmse(rows, centres)
    assert model.tables_["centers"].column("weight").to_numpy() == pytest.approx([3000] * 4, rel=0.1)


@pytest.mark.parametrize("shared", range(1, SHARED_MOST + 1))
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


def frame(rows: Floats) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[f"v{i}" for i in range(rows.shape[1])])


@pytest.mark.parametrize("per_unit", [1, 3])
@pytest.mark.parametrize("extra", ["in a cluster", "beside it", "far away", "in all clusters"])
@DIMENSIONS
def test_no_unit_makes_what_is_given_out_likelier_than_declared(
    dimension: int, extra: str, per_unit: int
) -> None:
    """Exactly: the outputs of one training are given out again on rows with one unit more."""
    centres = spread_out(dimension, 4)
    centres[3] = centres[0] + 0.7 / LEVELS[dimension][-1]
    rows = around(centres, 150, 2e-4)
    unit = {
        "in a cluster": np.repeat(centres[:1] + 1e-4, per_unit, axis=0),
        "beside it": np.repeat(centres[:1] + 0.3 / LEVELS[dimension][-1], per_unit, axis=0),
        "far away": np.full((per_unit, dimension), 0.999),
        "in all clusters": centres[:per_unit],
    }[extra]
    model = estimator(dimension, 4, epsilon=2.0, max_rows_per_unit=per_unit)
    without, added = frame(rows), frame(np.vstack([rows, unit]))
    losses, narrow = [], 0
    for _ in range(12):
        made = record(lambda: model.fit(without))
        narrow += is_narrow(model)
        ratio = made.log_ratio(replay(made, lambda: model.fit(added), to_the_end=False))
        losses.append(abs(float(ratio.sum())))
    assert narrow >= 6
    assert max(losses) <= 2.0 * (1 + 1e-9)
    if extra == "in a cluster":
        assert max(losses) > 0.2


def test_a_selection_rises_with_rows_and_by_no_more_than_its_units() -> None:
    seen: list[npt.NDArray[np.int64]] = []
    region = Region(np.array([5]), np.array([7]), 40.0, 50.0)
    values = np.random.default_rng(5).integers(0, 2**20, 60)
    cell = 2**20 // LEVELS[1][-1]

    def scores(of: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
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


def test_a_state_of_a_grid_is_continued() -> None:
    """States of versions before this one have no noisy number of rows."""
    centres = spread_out(2)
    rows = around(centres, 3000, 1e-4)
    old = estimator(2, 6, method="grid").fit(rows).to_state()
    params = {**old.meta["params"], "method": "auto"}
    state = ReleasedState(old.tables, {**old.meta, "params": params})
    both = estimator(2, 6).fit(rows, previous_state=state)
    assert rmse(rows, estimator(2, 6, method="grid").fit(rows).cluster_centers_) > 1.5 * rmse(rows, centres)
    assert rmse(rows, both.cluster_centers_) <= 1.1 * rmse(rows, centres)
    assert both.tables_["centers"].column("weight").to_numpy().sum() == pytest.approx(36_000, rel=0.05)


def test_rows_are_kept_as_one_number_each() -> None:
    random = np.random.default_rng(6)
    for dimension in (1, 2, 3):
        shares = np.vstack([random.uniform(0, 1, (50, dimension)), np.zeros(dimension), np.ones(dimension)])
        codes = zoom.packed(shares)
        assert codes.shape == (52,)
        assert zoom.middles(zoom.unpacked(codes, dimension)) == pytest.approx(shares, abs=2.0**-20)
        assert np.array_equal(
            grid.cells(zoom.middles(zoom.unpacked(codes, dimension)))[0], grid.cells(shares)[0]
        )
