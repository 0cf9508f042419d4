"""What clustering promises beyond the contract of every family."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

from ptklib import Clustering, ReleasedState
from ptklib.accounting import joint_multiplier, profile_epsilon
from ptklib.arrays import Floats
from ptklib.clustering import grid, lloyd, tree, zoom
from ptklib.clustering.centres import flat_centres, weighted_centres
from ptklib.clustering.comparison import nearer as nearer_by_counts
from ptklib.clustering.comparison import standing_out
from ptklib.clustering.denoising import denoised
from ptklib.clustering.space import Box
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError, UnboundedSensitivityError
from ptklib.mechanisms.recording import recorded_draws
from ptklib.privacy import Bounds
from ptklib.release import ReleasePlan, plan_release

METHODS = ["zoom", "grid", "lloyd"]


def blobs(n: int = 20_000, k: int = 6, dimension: int = 2, seed: int = 3) -> tuple[Floats, Floats]:
    """Return rows in [-1, 1] around k well separated centres, and the centres."""
    random = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * np.pi, k, endpoint=False)
    centres = np.zeros((k, dimension))
    centres[:, 0] = 0.7 * np.cos(angles)
    centres[:, -1] = 0.7 * np.sin(angles) if dimension > 1 else centres[:, 0]
    rows = centres[random.integers(0, k, n)] + random.normal(0, 0.04, (n, dimension))
    return np.clip(rows, -1, 1), centres


def names(dimension: int) -> list[str]:
    return [f"v{i}" for i in range(dimension)]


def rmse(rows: Floats, centres: Floats) -> float:
    squares = ((rows[:, None, :] - centres[None, :, :]) ** 2).sum(axis=-1)
    return float(np.sqrt(squares.min(axis=1).mean()))


def estimator(dimension: int = 2, k: int = 6, **keywords: Any) -> Clustering:
    return Clustering(names(dimension), k, bounds=(-1, 1), **{"epsilon": 1.0, **keywords})


@pytest.mark.parametrize(
    ("dimension", "method", "factor"),
    [(1, "grid", 1.02), (2, "grid", 1.02), (3, "grid", 1.05), (5, "lloyd", 1.3)],
)
def test_centres_are_nearly_as_good_as_without_privacy(dimension: int, method: str, factor: float) -> None:
    k = 4 if dimension == 1 else 6
    rows, _ = blobs(k=k, dimension=dimension)
    exact = rmse(rows, KMeans(k, n_init=5, random_state=0).fit(rows).cluster_centers_)
    losses = [rmse(rows, estimator(dimension, k, method=method).fit(rows).cluster_centers_) for _ in range(5)]
    assert np.median(losses) <= factor * exact


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1e-2])
def test_noise_alone_leaves_the_centres_of_a_flat_box(method: str, epsilon: float) -> None:
    rows, _ = blobs(n=300)
    free = rmse(rows, 2 * flat_centres(6, (1, 1)) - 1)
    losses = [
        rmse(rows, estimator(method=method, epsilon=epsilon).fit(rows).cluster_centers_) for _ in range(9)
    ]
    assert np.median(losses) <= 1.1 * free


def with_a_few_far_away(n: int = 20_000) -> Floats:
    """Return rows of which 98 % are close together and 2 % together far from them."""
    random = np.random.default_rng(11)
    rows = random.normal(-0.2, 0.1, (n, 2))
    rows[: n // 50] = random.normal(0.8, 0.05, (n // 50, 2))
    return np.clip(rows, -1, 1)


@pytest.mark.parametrize(
    "rows",
    [with_a_few_far_away(), np.random.default_rng(12).uniform(-1, 1, (20_000, 2))],
    ids=["a few far away", "uniform"],
)
def test_centres_are_never_worse_than_centres_without_data(rows: Floats) -> None:
    """False alarm: noise that looks like rows, which is once in 10**6 fits, in two of eight: 3 in 10**11.

    Otherwise flat rows have the centres without data, to the bit; 60 fits of the others were at .38 +- .03.
    """
    free = rmse(rows, 2 * flat_centres(32, (1, 1)) - 1)
    losses = [rmse(rows, estimator(k=32, epsilon=0.02).fit(rows).cluster_centers_) for _ in range(8)]
    assert sorted(losses)[-2] <= (1 + 1e-9) * free


def drawn_layouts(n_layouts: int) -> Iterator[tuple[Floats, int, float]]:
    """Return rows, number of centres and epsilon of many different tables, in one to twelve columns."""
    random = np.random.default_rng(18)
    for i in range(n_layouts):
        dimension, k, n = (1, 2, 3, 12)[i % 4], int(random.integers(2, 24)), int(random.integers(300, 6000))
        width, centres = 10 ** random.uniform(-2.5, -0.3), random.uniform(-0.9, 0.9, (k, dimension))
        places = centres[random.choice(k, n, p=random.dirichlet(np.full(k, 0.7)))]
        tails = random.standard_t(random.uniform(1.2, 6), (n, dimension))
        yield np.clip(places + width * tails, -1, 1), k, float(10 ** random.uniform(-2.5, 1))


@pytest.mark.long
@pytest.mark.parametrize(("method", "delta"), [("auto", 0), ("lloyd", 0), ("lloyd", 1e-6)])
def test_no_drawn_table_has_worse_centres_than_without_data(method: str, delta: float) -> None:
    """False alarm: noise beyond five (Laplace) deviations, once in 2,000 fits, in two of 48: 3 in 10**4.

    The loss counts rounding to 2**16 units a column.
    """
    worse = 0
    for rows, k, epsilon in drawn_layouts(48):
        dimension = rows.shape[1]
        model = estimator(dimension, k, epsilon=epsilon, method=method, delta=delta).fit(rows)
        worse += rmse(rows, model.cluster_centers_) > 1.0002 * rmse(
            rows, 2 * flat_centres(k, (1,) * dimension) - 1
        )
    assert worse <= 1


@pytest.mark.parametrize(("size", "delta", "n_rounds"), [(32, 0, 10), (33, 0, 6), (33, 1e-6, 10)])
def test_laplace_noise_in_many_columns_is_divided_over_fewer_rounds(
    size: int, delta: float, n_rounds: int
) -> None:
    model = estimator(size, 4, epsilon=1.0, delta=delta, method="lloyd")
    rows = np.random.default_rng(5).uniform(-1, 1, (50, size))
    with recorded_draws() as draws:
        model.fit(rows)
    assert len(draws) == 4 + 3 * n_rounds + (tree._DEPTH + 1 if delta else 0)


def test_many_columns_with_laplace_noise_are_at_least_as_good_as_one_mean() -> None:
    """The noise of ten rounds hides eight centres in 64 columns, but not one mean."""
    random = np.random.default_rng(19)
    centres = 0.4 + random.normal(0, 0.1, (8, 64))
    rows = np.clip(centres[random.integers(0, 8, 20_000)] + random.normal(0, 0.1, (20_000, 64)), -1, 1)
    losses = [rmse(rows, estimator(64, 8, epsilon=0.3).fit(rows).cluster_centers_) for _ in range(3)]
    assert np.median(losses) < 1.05 * rmse(rows, rows.mean(axis=0)[None])


def test_the_mean_of_all_rounds_is_exact_without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleasePlan, "draw", lambda self, units: dict(units))
    random = np.random.default_rng(20)
    rows = np.rint(random.normal(9000, 2000, (5000, 6))).astype(np.int64)
    widths = np.full(6, 2**16)
    rounds = lloyd._Rounds(rows, widths, 3, lloyd.plan_rounds(widths, 3, 10.0, 1e-6))
    centre, spread = rounds.mean(np.zeros(6, dtype=np.int64), np.full(6, 2.0**15), 5000.0)
    assert centre == pytest.approx(rows.mean(axis=0), rel=0.02)
    assert spread == pytest.approx(np.full(6, np.sqrt(3) * 2000), rel=0.1)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_cell_that_looks_empty_may_hide_a_few_rows(dimension: int) -> None:
    """Squares of distances make a few rows far from all centres as dear as all others together."""
    levels = [np.full(n**dimension, -40.0) for n in grid.LEVELS[dimension]]
    for level, n in zip(levels, grid.LEVELS[dimension], strict=True):
        level[: (n // grid.LEVELS[dimension][0]) ** dimension] = 0
        level[0] = 1e6
    points, weights, _ = grid.weighted_points(levels, [100.0] * 3, dimension)
    n = grid.LEVELS[dimension][0]
    mass = np.zeros((n,) * dimension)
    np.add.at(mass, tuple(np.minimum((points * n).astype(int), n - 1).T), weights)
    assert (mass > 0.4).all()
    assert (np.sort(mass.ravel())[:-1] < 1).all()


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_centres_replace_those_without_data_only_when_rows_are_surely_nearer(dimension: int) -> None:
    sizes = [n**dimension for n in grid.LEVELS[dimension]]
    variances = [4.0, 1e12, 1e12]  # the coarsest level speaks alone, with a deviation of 2 a cell

    def nearer(rows: float, gain: Any) -> bool:
        counts = [np.zeros(size) for size in sizes]
        counts[0][0] = rows
        return nearer_by_counts(counts, variances, dimension, gain)

    def only_there(shares: Floats) -> Floats:
        return (shares < 1 / grid.LEVELS[dimension][0]).all(axis=1).astype(float)

    # Noise alone may have this length, or bring one count this far: less says nothing of where rows are.
    m = sizes[0]
    clear = 2 * np.sqrt(2 * (m + 3 * np.sqrt(5 * m)) / (1 - 1 / m))
    clear = min(clear, np.sqrt(2) * np.log(m / 2 * np.e * 1e6) / (1 - 1 / m))
    assert nearer(clear + 0.1, only_there)
    assert not nearer(clear - 0.1, only_there)
    assert not nearer(1e6, lambda shares: -only_there(shares))
    # A centre that the other cells lost makes it less sure.
    sure = 4 * 2 * np.sqrt(m)
    mixed = lambda shares: 2 * only_there(shares) - 1  # noqa: E731
    assert sure > clear
    assert nearer(sure + 0.1, mixed)
    assert not nearer(sure - 0.1, mixed)


def lattice(side: Floats, dimension: int, width: float, n: int) -> tuple[Floats, Floats]:
    """Return rows in narrow clusters at the points of a lattice, and the points."""
    random = np.random.default_rng(14)
    points = np.stack(np.meshgrid(*[side] * dimension), axis=-1).reshape(-1, dimension)
    chosen = points[random.integers(0, len(points), n)]
    return np.clip(chosen + random.normal(0, width, chosen.shape), -1, 1), points


@pytest.mark.parametrize("width", [0.01, 0.036])
@pytest.mark.parametrize(
    ("side", "dimension"), [(np.linspace(-0.5, 0.5, 3), 3), (np.linspace(-0.75, 0.75, 7), 2)]
)
def test_clear_clusters_are_found_where_coarse_cells_are_flat(
    side: Floats, dimension: int, width: float
) -> None:
    """Each coarsest cell has rows as far from its middle as a flat one: only finer counts show the clusters."""
    rows, points = lattice(side, dimension, width, 40_000)
    for epsilon in (1.0, 10.0):
        model = estimator(dimension, len(points), epsilon=epsilon)
        losses = [rmse(rows, model.fit(rows).cluster_centers_) for _ in range(3)]
        assert np.median(losses) <= 1.1 * rmse(rows, points)


def test_noise_alone_does_not_stand_out() -> None:
    """False alarm: 2e-6 a table, once in 2,500 runs."""
    random = np.random.default_rng(15)
    for n_parents, n_children in ((1, 64), (64, 16), (512, 8)):
        for _ in range(60):
            noise = random.laplace(0, 3, (n_parents, n_children))
            assert not standing_out(noise, 18.0).any()
            noise[0, 3] += 200
            assert np.flatnonzero(standing_out(noise, 18.0).ravel()).tolist() == [3]


def test_many_moderate_counts_stand_out_together() -> None:
    noise = np.random.default_rng(16).laplace(0, 1, (64, 16))
    noise[:40, 5] += 12.0
    found = standing_out(noise, 2.0)
    assert found[:40, 5].sum() >= 38
    assert found.sum() <= 48
    single = np.zeros((64, 16))
    single[0, 5] = 14.0
    assert not standing_out(single, 2.0).any()


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_exact_counts_measure_the_gain_of_the_rows(dimension: int) -> None:
    """Rows in single finest cells: the estimate is their gain, which the coarse cells have with the other sign."""
    n = grid.LEVELS[dimension][-1]
    cells = np.zeros(n**dimension, dtype=np.int64)
    random = np.random.default_rng(17)
    codes = random.choice(n**dimension, 20, replace=False)
    cells[codes] = 1000
    levels = [c.astype(np.float64) for c in grid.nested(cells, dimension).values()]
    places = grid.centres_of(dimension, 2)[codes]

    def gain(shares: Floats) -> Floats:
        return np.asarray(0.1 - np.abs(shares[:, None, :] - places[None]).max(axis=2).min(axis=1) * 2)

    assert nearer_by_counts(levels, [1.0] * 3, dimension, gain)
    assert not nearer_by_counts(levels, [1.0] * 3, dimension, lambda shares: -gain(shares))


def test_centres_without_data_fit_the_shape_of_their_box() -> None:
    wide = flat_centres(6, (6, 1))
    assert np.ptp(wide[:, 0]) > 0.75
    assert wide[:, 1] == pytest.approx(0.5, abs=0.05)
    assert flat_centres(6, (60, 10)) == pytest.approx(wide)


def test_without_noise_on_the_grid_only_cells_with_rows_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleasePlan, "draw", lambda self, units: dict(units))
    rows = np.repeat([[-0.51, -0.51], [0.51, 0.26]], [3000, 1000], axis=0)
    fitted = estimator(k=2, epsilon=10.0).fit(rows)
    table = fitted.tables_["centers"].to_pandas().sort_values("weight")
    assert table["weight"].to_numpy() == pytest.approx([1000, 3000], rel=0.01)
    assert table[["v0", "v1"]].to_numpy() == pytest.approx(rows[[-1, 0]], abs=2 / 128)


def test_levels_are_the_same_rows_counted_coarser() -> None:
    rows, _ = blobs(500)
    shares = (rows + 1) / 2
    nested = grid.nested(grid.cells(shares)[0], 2)
    for i, n in enumerate(grid.LEVELS[2]):
        codes = np.minimum((shares * n).astype(int), n - 1)
        expected = np.zeros((n, n), dtype=np.int64)
        np.add.at(expected, (codes[:, 0], codes[:, 1]), 1)
        assert np.array_equal(nested[f"level_{i}"].reshape(n, n), expected)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_exact_counts_become_points_of_the_same_mass_where_the_rows_are(dimension: int) -> None:
    rows, _ = blobs(5000, dimension=dimension)
    counts = grid.nested(grid.cells((rows + 1) / 2)[0], dimension)
    levels = [counts[f"level_{i}"].astype(np.float64) for i in range(3)]
    points, weights = grid.divided(*grid.weighted_points(levels, [1e-9] * 3, dimension), 8)
    assert weights.sum() == pytest.approx(5000)
    assert np.average(2 * points - 1, axis=0, weights=weights) == pytest.approx(rows.mean(axis=0), abs=0.01)
    assert (weights > 0).all()
    assert len(np.unique(points, axis=0)) == len(points)


def test_a_cell_below_the_noise_is_spread_evenly_over_its_area() -> None:
    levels = [np.zeros(n**2) for n in grid.LEVELS[2]]
    points, weights = grid.divided(*grid.weighted_points(levels, [1.0] * 3, 2), 1000)
    assert len(points) >= 1000
    assert np.ptp(weights) == pytest.approx(0)
    assert points.mean(axis=0) == pytest.approx([0.5, 0.5])


def plans(dimension: int) -> Iterator[tuple[ReleasePlan, bool]]:
    widths = np.full(dimension, 2**16)
    yield lloyd.plan_rounds(widths, 4, 1.0, 0), True
    yield lloyd.plan_rounds(widths, 4, 1.0, 1e-6), False


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_one_row_moves_counts_and_offsets_by_no_more_than_declared(dimension: int, delta: float) -> None:
    random = np.random.default_rng(21)
    model = estimator(dimension, 5, delta=delta, epsilon=0.01, method="grid")
    plan = model._plan()
    limits = {c.name: c.sensitivity for c in plan.components}
    assert [c.name for c in plan.components] == ["level_0", "level_1", "level_2", grid.OFFSETS]
    owner_of = random.integers(0, 5, grid.LEVELS[dimension][-1] ** dimension)

    def measured(rows: Floats) -> dict[str, Any]:
        exact = model.partial_statistics(rows).arrays
        occupied = np.flatnonzero(exact["cells"])
        sums = grid.offsets_of(owner_of[occupied], occupied, exact[grid.OFFSETS], 5, dimension)
        return {**grid.nested(exact["cells"], dimension), grid.OFFSETS: sums}

    base = random.uniform(-1, 1, (200, dimension))
    before = measured(base)
    corners = [np.full(dimension, 1.0), np.full(dimension, -1.0), np.full(dimension, 2 / 16 - 1 - 1e-12)]
    for row in [*corners, *random.uniform(-1.2, 1.2, (30, dimension))]:
        after = measured(np.vstack([base, row]))
        for name, limit in limits.items():
            moved = (after[name] - before[name]).astype(object)
            norm = abs(moved).sum() if plan.epsilons is not None else (moved**2).sum() ** 0.5
            assert norm <= limit, name
        assert after[grid.OFFSETS].shape == (5 * dimension,)


def test_centres_lie_within_their_finest_cells_where_the_rows_do() -> None:
    """Clusters a tenth as wide as a finest cell of three columns."""
    random = np.random.default_rng(22)
    centres = random.uniform(-0.9, 0.9, (8, 3))
    rows = centres[random.integers(0, 8, 40_000)] + random.normal(0, 0.006, (40_000, 3))
    losses = [rmse(rows, estimator(3, 8, epsilon=1.0).fit(rows).cluster_centers_) for _ in range(3)]
    assert np.median(losses) <= 1.1 * rmse(rows, centres)


def test_offsets_that_noise_may_explain_move_no_centre() -> None:
    random = np.random.default_rng(23)
    noise = [random.laplace(0, 3000, 24) for _ in range(50)]
    rows = np.full(8, 500.0)
    moved = [grid.shifts(grid.Noisy(n, 2 * 3000.0**2), rows, 18.0, 3).any() for n in noise]
    assert np.mean(moved) < 0.1
    sure = grid.shifts(grid.Noisy(np.full(24, 500 * grid.OFFSET / 2), 1.0), rows, 1.0, 3)
    assert sure == pytest.approx(0.5 / (2 * 32), rel=0.01)


@pytest.mark.parametrize(("far", "moves"), [(30.0, True), (2000.0, False)])
def test_noise_far_from_a_core_does_not_pull_its_centre(far: float, moves: bool) -> None:
    points = np.asarray([[0.5, 0.5], [0.9, 0.5]])
    cells = (points, np.asarray([4000.0, far]), np.asarray([1 / 128, 1 / 128]))
    centre = np.average(points, axis=0, weights=cells[1])[None]
    counts = [np.zeros(n**2) for n in grid.LEVELS[2]]
    found = denoised(centre, cells, counts, [900.0] * 3, 2, lambda shares: shares)
    pulled = (found[0, 0] - 0.5) / (centre[0, 0] - 0.5)
    assert pulled == pytest.approx(0.0 if moves else 1.0, abs=0.05)
    assert found[0, 1] == pytest.approx(0.5)


@pytest.mark.parametrize("kept", [["cells"], ["cells", grid.OFFSETS]], ids=["counts", "offsets"])
@pytest.mark.parametrize("method", ["auto", "grid"])
def test_partial_statistics_of_earlier_versions_still_merge(method: str, kept: list[str]) -> None:
    """The first kept counts of cells only, later ones offsets too; then the default came to keep rows."""
    rows = blobs(2000)[0]
    model = estimator(method=method)
    counted = estimator(method="grid").partial_statistics(rows).arrays
    part = model.partial_statistics(rows)
    old = replace(part, arrays={name: counted[name] for name in kept})
    merged = model.merge([old, part]).arrays
    if method == "grid":
        assert np.array_equal(merged["cells"], 2 * counted["cells"])
        assert np.array_equal(merged[grid.OFFSETS], counted[grid.OFFSETS] * len(kept))
    else:
        cells, offsets = grid.cells(zoom.middles(merged["rows"].reshape(-1, 2)))
        assert np.array_equal(cells, 2 * counted["cells"])
        assert (
            np.abs(offsets).sum() <= np.abs(counted[grid.OFFSETS]).sum() + 4000
        )  # a row is rounded to a unit
    assert model.finalize([old]).cluster_centers_.shape == (6, 2)


def test_states_of_versions_without_offsets_load_and_are_continued() -> None:
    """Their loss has an event per level and none for offsets."""
    rows = blobs(4000)[0]
    fitted = estimator().fit(rows)
    old = plan_release(grid.components(2), 1.0, 0)
    fitted.privacy_spent_, fitted.noise_variance_ = (
        old.loss,
        {c.name: old.noise_variance(c.name) for c in old.components},
    )
    state = ReleasedState.from_files(fitted.to_state().to_files())
    assert np.array_equal(Clustering.from_state(state).predict(rows), fitted.predict(rows))
    both = estimator().fit(rows, previous_state=state)
    assert both.tables_["centers"].column("weight").to_numpy().sum() == pytest.approx(8000, rel=0.05)
    assert rmse(rows, both.cluster_centers_) <= 1.02 * rmse(rows, fitted.cluster_centers_)


@pytest.mark.parametrize("hidden", [0.0, np.inf], ids=["one mean", "rounds"])
@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_one_row_moves_no_measurement_by_more_than_its_declared_sensitivity(
    dimension: int, hidden: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With outputs fixed, both runs measure at the same centres and radii."""
    monkeypatch.setattr(lloyd, "_HIDDEN", hidden)
    random = np.random.default_rng(5)
    widths = np.full(dimension, 2**16)
    base = random.integers(-(2**16), 2**16, (40, dimension))
    extreme = [
        np.full(dimension, 2**16),
        np.full(dimension, -(2**16)),
        np.eye(dimension, dtype=int)[0] * 2**16,
    ]
    for plan, l1 in plans(dimension):
        limits = {c.name: c.sensitivity for c in plan.components}
        sizes = {c.name: c.size for c in plan.components}
        seen: list[dict[str, Any]] = []

        def fixed(self: ReleasePlan, units: Any, seen: list[dict[str, Any]] = seen) -> Any:
            seen[-1].update({name: array.copy() for name, array in units.items()})
            return {c.name: (np.arange(c.size, dtype=np.int64) * 7919) % 2**14 for c in self.components}

        monkeypatch.setattr(ReleasePlan, "draw", fixed)
        for row in [*extreme, *random.integers(-(2**16), 2**16, (20, dimension))]:
            seen += [{}]
            lloyd.noisy_centres(base, widths, 4, plan, None)
            seen += [{}]
            lloyd.noisy_centres(np.vstack([base, row]), widths, 4, plan, None)
            before, after = seen[-2:]
            assert {name: len(array) for name, array in before.items()} == sizes
            for name, limit in limits.items():
                moved = (after[name] - before[name]).astype(object)
                norm = abs(moved).sum() if l1 else (moved**2).sum() ** 0.5
                assert norm <= limit, name


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_declared_events_are_the_measurements_in_order(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    draw = ReleasePlan.draw

    def recorded(self: ReleasePlan, units: Any) -> Any:
        drawn.extend(self.components)
        return draw(self, units)

    monkeypatch.setattr(ReleasePlan, "draw", recorded)
    model = estimator(4, method="lloyd", delta=delta).fit(blobs(200, dimension=4)[0])
    events = model.declared_loss().event.to_json()["events"]
    assert drawn == list(model._plan().components)
    assert [event["shape"] for event in events] == [[part.size] for part in drawn]
    assert len(events) == 4 + 3 * lloyd.ROUNDS + (tree._DEPTH + 1 if delta else 0)
    if not delta:
        assert sum(event["l1_sensitivity"] / event["scale"] for event in events) == pytest.approx(1.0)
        assert all(event["l1_sensitivity"] / event["scale"] > 0 for event in events)


def scattered(n: int = 40_000, k: int = 16, dimension: int = 20) -> Floats:
    """Return rows around centres anywhere: evenly spread starts leave some of them without a centre."""
    random = np.random.default_rng(1)
    centres = random.uniform(-0.7, 0.7, (k, dimension))
    chosen = random.choice(k, n, p=random.dirichlet(np.full(k, 3.0)))
    return np.clip(centres[chosen] + random.normal(0, 0.08, (n, dimension)), -1, 1)


@pytest.mark.long
def test_the_tree_finds_clusters_that_evenly_spread_starts_miss() -> None:
    rows = scattered()
    exact = rmse(rows, KMeans(16, n_init=5, random_state=0).fit(rows).cluster_centers_)
    model = estimator(20, 16, delta=1e-6)
    assert np.median([rmse(rows, model.fit(rows).cluster_centers_) for _ in range(3)]) < 1.25 * exact


def grown(rows: Any, **limits: int) -> tuple[tree.Leaves, dict[str, Any]]:
    """Return the leaves of a tree without noise, whose leaves need some 200 rows, and what it measured."""
    seen: dict[str, Any] = {}

    def draw(units: Any) -> Any:
        seen.update(units)
        return units

    dimension = rows.shape[1]
    spread = np.full(dimension, 2.0**16)
    variance = {"tree_sums": (100 * lloyd.OFFSET) ** 2 / dimension}
    middle = np.zeros(dimension, dtype=np.int64)
    leaves = tree.grow(
        rows, middle, spread, float(len(rows)), lloyd.OFFSET, draw, lambda name: variance.get(name, 0.0)
    )
    return leaves, seen


def test_leaves_of_a_tree_are_the_means_of_their_rows() -> None:
    rows = np.rint(scattered(20_000) * 2**15).astype(np.int64)
    leaves, seen = grown(rows)
    assert len(leaves.points) >= 16
    assert leaves.weights.sum() == pytest.approx(len(rows), rel=0.05)
    assert np.average(leaves.points, axis=0, weights=leaves.weights) == pytest.approx(
        rows.mean(axis=0), abs=0.05 * 2**15
    )
    # One plane sends nearby rows to the same side: leaves are narrower than the whole.
    near = np.sqrt(((rows[:, None, :] - leaves.points[None, :, :]) ** 2).sum(axis=-1).min(axis=1).mean())
    assert near < 0.75 * np.linalg.norm(rows.std(axis=0))
    assert all(int(seen[f"tree_count_{i}"].sum()) <= len(rows) for i in range(tree._DEPTH))


def test_a_tree_of_more_nodes_than_it_may_hold_keeps_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_NODES", 4)
    monkeypatch.setattr(tree, "_LEAVES", 6)
    leaves, seen = grown(np.rint(scattered(20_000) * 2**15).astype(np.int64))
    assert 0 < len(leaves.points) <= 6
    assert {len(seen[f"tree_count_{i}"]) for i in range(tree._DEPTH)} == {2, 4, 8}
    assert len(seen["tree_sums"]) == 6 * 20


def test_a_row_is_on_its_side_of_a_plane_however_rows_are_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    rows, middle = random.integers(-(2**16), 2**16, (50, 9)), random.integers(-100, 100, 9)
    planes = tree._planes(random.uniform(1, 2**16, 9))
    assert np.abs(planes).max() == 2**10
    sides = tree._sides(rows, middle, planes)
    exact = [sum(int((row - middle) @ plane > 0) << i for i, plane in enumerate(planes)) for row in rows]
    assert sides.tolist() == exact
    monkeypatch.setattr(tree, "_BATCH", 7)
    assert tree._sides(rows, middle, planes).tolist() == exact


def test_gaussian_rounds_compose_to_the_declared_epsilon() -> None:
    events = estimator(5, epsilon=0.7, delta=1e-6).declared_loss().event.to_json()["events"]
    assert {event["name"] for event in events} == {"DiscreteGaussian"}
    multiplier = joint_multiplier(events)
    assert multiplier is not None
    assert profile_epsilon(multiplier, 1e-6) == pytest.approx(0.7, rel=1e-7)
    assert profile_epsilon(multiplier * (1 - 1e-6), 1e-6) > 0.7


def test_the_nearest_centre_is_exact_however_rows_are_batched() -> None:
    random = np.random.default_rng(1)
    rows, centres = random.integers(-(2**16), 2**16, (64, 9)), random.integers(-(2**16), 2**16, (5, 9))
    centres[3] = centres[1]
    nearest, square = lloyd._nearest(rows, centres)
    exact = ((rows[:, None, :] - centres[None, :, :]) ** 2).sum(axis=-1)
    assert np.array_equal(nearest, exact.argmin(axis=1))
    assert np.array_equal(square, exact.min(axis=1))
    assert 3 not in nearest


@pytest.mark.parametrize("method", METHODS)
def test_rows_with_missing_or_infinite_values_change_nothing(method: str) -> None:
    rows = blobs(50)[0]
    odd = np.asarray([[np.nan, 0.1], [0.1, np.inf], [-np.inf, np.nan]])
    model = estimator(method=method)
    clean = model.partial_statistics(rows).arrays
    dirty = model.partial_statistics(np.vstack([odd[:1], rows, odd[1:]])).arrays
    assert all(np.array_equal(clean[name], dirty[name]) for name in clean)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [np.zeros((0, 2)), np.zeros((1, 2)), np.full((500, 2), 0.3)])
def test_no_row_one_row_and_equal_rows_release_centres_inside_the_bounds(method: str, rows: Floats) -> None:
    model = estimator(method=method, k=9).fit(rows)
    assert model.cluster_centers_.shape == (9, 2)
    assert (np.abs(model.cluster_centers_) <= 1).all()
    assert (model.tables_["centers"].column("weight").to_numpy() >= 0).all()


def test_transform_gives_distances_and_predict_the_nearest_as_in_scikit_learn() -> None:
    rows = blobs(200)[0]
    model = estimator().fit(rows)
    twin = KMeans(6, n_init=1).fit(rows)
    twin.cluster_centers_ = model.cluster_centers_.copy()
    assert model.transform(rows) == pytest.approx(twin.transform(rows))
    assert np.array_equal(model.predict(rows), twin.predict(rows))
    framed = model.set_output(transform="pandas")
    assert np.array_equal(framed.predict(rows), twin.predict(rows))
    assert list(framed.transform(rows).columns) == [f"distance_{i}" for i in range(6)]


def test_values_outside_the_bounds_are_clamped_and_missing_ones_take_the_released_mean() -> None:
    model = estimator().fit(blobs()[0])
    far = model.transform(np.asarray([[5.0, -np.inf], [1.0, -1.0]]))
    assert far[0] == pytest.approx(far[1])
    table = model.tables_["centers"].to_pandas()
    mean = np.average(table[["v0", "v1"]], axis=0, weights=table["weight"])
    assert model.transform(np.asarray([[np.nan, 0.2]])) == pytest.approx(
        model.transform(np.asarray([[mean[0], 0.2]])), rel=1e-5
    )


def test_scaled_distances_count_columns_by_the_width_of_their_bounds() -> None:
    bounds = {"small": (0.0, 1.0), "large": (0.0, 1000.0)}
    rows = pd.DataFrame({"small": [0.0, 1.0] * 4000, "large": [300.0, 310.0] * 2000 + [310.0, 300.0] * 2000})
    near = Clustering(n_clusters=2, bounds=bounds, epsilon=10.0, scale=True).fit(rows)
    assert sorted(near.cluster_centers_[:, 0]) == pytest.approx([0, 1], abs=0.1)
    box = Box.of({name: Bounds(*pair) for name, pair in bounds.items()}, True)
    assert box.half_widths.tolist() == [2**16, 2**16]
    plain = Box.of({name: Bounds(*pair) for name, pair in bounds.items()}, False)
    assert plain.half_widths.tolist() == [66, 2**16]
    assert near.transform(rows[:1]).max() < 1.1


def test_a_continued_grid_adds_up_and_a_continued_lloyd_starts_from_the_previous_centres(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = blobs(4000)[0]
    first = estimator().fit(rows)
    both = estimator().fit(rows, previous_state=ReleasedState.from_files(first.to_state().to_files()))
    assert both.noise_variance_["level_0"] == pytest.approx(2 * first.noise_variance_["level_0"])
    assert both.tables_["centers"].column("weight").to_numpy().sum() == pytest.approx(8000, rel=0.05)
    assert both.n_releases_ == 2
    starts: list[Any] = []
    noisy_centres = lloyd.noisy_centres

    def recorded(rows: Any, widths: Any, k: int, plan: Any, start: Any) -> Any:
        starts.append(start)
        return noisy_centres(rows, widths, k, plan, start)

    monkeypatch.setattr(lloyd, "noisy_centres", recorded)
    before = estimator(method="lloyd").fit(rows)
    estimator(method="lloyd").fit(rows, previous_state=before.to_state())
    assert starts[0] is None
    assert starts[1] / 2**16 == pytest.approx(before.cluster_centers_, abs=1e-4)


def test_centres_of_released_points_do_not_change_from_call_to_call() -> None:
    random = np.random.default_rng(2)
    points, weights = random.random((500, 2)), random.random(500)
    first, again = (weighted_centres(points, weights, 7, points[:50], weights[:50]) for _ in range(2))
    assert np.array_equal(first[0], again[0])
    exact = KMeans(7, n_init=5, random_state=1).fit(points, sample_weight=weights)
    loss = float(weights @ ((points - first[0][first[1]]) ** 2).sum(axis=1))
    assert loss <= 1.1 * exact.inertia_


def test_many_centres_need_no_more_rows_than_there_are() -> None:
    model = Clustering(["v0"], 1024, bounds=(0, 1), epsilon=1.0).fit(np.zeros((10, 1)))
    assert model.cluster_centers_.shape == (1024, 1)


def test_unusable_parameters_are_refused_before_data_are_read() -> None:
    bounds = {"v0": (0, 1), "v1": (0, 1)}
    for wrong in (
        {"n_clusters": 0},
        {"n_clusters": True},
        {"n_clusters": 2.0},
        {"n_clusters": 1025},
        {"method": "kmeans"},
        {"method": None},
        {"scale": 1},
        {"columns": []},
        {"columns": ["v0", "v0"]},
        {"columns": ["v0", "weight"], "bounds": (0, 1)},
        {"columns": ["cluster_id"], "bounds": (0, 1)},
        {"columns": names(4), "bounds": (0, 1), "method": "grid"},
    ):
        with pytest.raises(InvalidParameterError):
            Clustering(**{"bounds": bounds, "epsilon": 1.0, **wrong}).declared_loss()
    for missing in ({"bounds": None}, {"bounds": (0, 1)}, {"columns": ["v0"]}, {"columns": names(3)}):
        with pytest.raises(UnboundedSensitivityError):
            Clustering(**{"bounds": bounds, "epsilon": 1.0, **missing}).fit(object())
    with pytest.raises(PrivacyParameterError):
        Clustering(bounds=bounds, epsilon=1.0, delta=-1e-6, method="lloyd").declared_loss()


@pytest.mark.parametrize("method", METHODS)
def test_the_true_error_is_the_root_mean_squared_distance_over_the_diagonal(method: str) -> None:
    rows = blobs(500)[0]
    model = estimator(method=method).fit(rows)
    expected = rmse(rows, model.cluster_centers_) / 8**0.5
    assert model.error_from_true_value(model.partial_statistics(rows)) == pytest.approx(expected, rel=0.05)


def test_noise_on_the_coarsest_level_is_taken_for_a_flat_box() -> None:
    random = np.random.default_rng(8)
    flat = [np.ptp(grid._top(random.laplace(0, 50, 64), 5000.0)) < 1e-9 for _ in range(200)]
    assert np.mean(flat) > 0.95
    assert grid._top(np.eye(64)[3] * 5000, 5000.0).argmax() == 3


def test_a_cell_is_divided_only_when_it_stands_out_of_the_noise_of_its_children() -> None:
    for mass, side in ((2.0, 1 / 16), (1000.0, 1 / 1024)):
        levels = [np.zeros(n) for n in grid.LEVELS[1]]
        for level, n in zip(levels, grid.LEVELS[1], strict=True):
            level[n // 2] = mass
        _, weights, sizes = grid.weighted_points(levels, [1e-3, 2.0, 2.0], 1)
        assert sizes[weights.argmax()] == pytest.approx(side)


def measured(sums: Floats, counts: Floats) -> Any:
    k = len(counts)
    return lloyd._Measured(counts, sums, np.zeros(k), 2.0, 200.0, 1.0, 10.0)


def test_centres_stay_where_noise_explains_what_was_measured() -> None:
    random = np.random.default_rng(9)
    noise = [measured(random.laplace(0, 10, (8, 3)), np.full(8, 50.0)) for _ in range(100)]
    assert np.mean([bool(m.displacements().any()) for m in noise]) < 0.1
    assert not measured(np.full((8, 3), 1e4), np.zeros(8)).displacements().any()
    assert measured(np.full((8, 3), 1e4), np.full(8, 1e4)).displacements() == pytest.approx(1.0, rel=0.01)


def test_the_rounds_are_kept_only_when_rows_come_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    widths, drawn = np.asarray([2**16]), []
    plan = lloyd.plan_rounds(widths, 1, 1.0, 0)

    def exact(self: ReleasePlan, units: Any) -> Any:
        drawn.append(int(units["gain"][0]))
        return dict(units)

    monkeypatch.setattr(ReleasePlan, "draw", exact)
    rounds = lloyd._Rounds(np.full((1000, 1), 500), widths, 1, plan)
    near, far = np.asarray([[500]]), np.asarray([[-60000]])
    assert rounds.better(far, near)
    assert not rounds.better(near, far)
    assert not rounds.better(near, near)
    # What a row can lose most: in the corner at -65536 when the centre moves to 500, at 65536 when it moves back.
    won = int(60500**2 / (66036**2 - 5536**2) * lloyd.OFFSET)
    lost = int(60500**2 / (125536**2 - 65036**2) * lloyd.OFFSET)
    assert drawn == pytest.approx([1000 * won, -1000 * lost, 0], rel=1e-5)


def test_few_rows_far_away_weigh_what_they_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleasePlan, "draw", lambda self, units: dict(units))
    widths = np.asarray([2**16, 2**16])
    plan = lloyd.plan_rounds(widths, 2, 10.0, 0)
    rows = np.vstack([np.full((1900, 2), -20_000), np.full((100, 2), 60_000)])
    without_data = np.asarray([[-5_000, -5_000], [58_000, 58_000]])
    found = np.asarray([[-20_000, -20_000], [-20_100, -20_100]])
    assert not lloyd._Rounds(rows, widths, 2, plan).better(without_data, found)
    assert lloyd._Rounds(rows[:1900], widths, 2, plan).better(without_data, found)


def test_the_largest_loss_bounds_every_corner_and_is_met() -> None:
    random = np.random.default_rng(3)
    for dimension in (1, 2, 3):
        widths = random.integers(50, 200, dimension)
        for _ in range(50):
            first, last = (random.integers(-widths, widths + 1, (4, dimension)) for _ in range(2))
            rows = random.integers(-widths, widths + 1, (500, dimension))
            worst = (lloyd._nearest(rows, last)[1] - lloyd._nearest(rows, first)[1]).max()
            assert worst <= lloyd._largest_loss(first, last, widths)
    corner, across = np.asarray([[100, 100]]), np.asarray([[-100, -100]])
    assert lloyd._largest_loss(corner, across, np.asarray([100, 100])) == pytest.approx(80_000)


@pytest.mark.parametrize("method", ["grid", "lloyd"])
def test_a_row_far_beyond_the_bounds_warns_no_more_than_any_other(method: str) -> None:
    rows = np.vstack([np.full((5_000, 2), 5e-4), [[1e308, -1e308]]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Clustering(["a", "b"], 2, bounds=(0, 1e-3), epsilon=1.0, method=method).fit(rows).transform(rows)
