"""Reading noisy sums: the mean of all groups, and how much of a small group is its own."""

from typing import Any

import numpy as np
import pytest

from ptklib.arrays import Floats
from ptklib.shrinkage import NoisyRatios, Strata, fitted_level, shrunken_deviation, shrunken_ratios

GROUPS, FULL = 265, 12
SUM_SCALE, SIZE_SCALE, REACH = 170.0, 8.0, 30.0


def noisy(rows: Any, means: Any, seed: int, *, scale: float = 1.0, columns: int = 1) -> NoisyRatios:
    """Return the release of groups of so many rows with these means."""
    random = np.random.default_rng(seed)
    rows = np.asarray(rows, dtype=np.float64)
    exact = np.broadcast_to((rows * means)[:, None], (len(rows), columns))
    return NoisyRatios(
        exact + random.laplace(0, SUM_SCALE * scale, exact.shape),
        rows + np.rint(random.laplace(0, SIZE_SCALE * scale, len(rows))),
        np.full(len(rows), 2 * (SUM_SCALE * scale) ** 2),
        2 * (SIZE_SCALE * scale) ** 2,
        REACH,
        np.zeros(exact.shape),
    )


def sparse_release(seed: int, mean: float = -25.0, spread: float = 0.0) -> NoisyRatios:
    """Return a release of a domain of which twelve groups hold 250 rows each."""
    means = mean + spread * np.random.default_rng(seed + 1000).standard_normal(GROUPS)
    return noisy(np.where(np.arange(GROUPS) < FULL, 250, 0), means, seed)


def test_the_common_mean_of_a_mostly_empty_domain_leans_on_the_groups_that_stand_out() -> None:
    errors, pooled = [], []
    for seed in range(50):
        release = sparse_release(seed)
        errors.append(Strata.of(release).common_mean()[0][0] + 25)
        pooled.append(release.sums.sum() / release.sizes.sum() + 25)
    assert np.sqrt(np.mean(np.square(errors))) < 0.5 * np.sqrt(np.mean(np.square(pooled)))


@pytest.mark.parametrize("spread", [2.0, 6.0])
def test_the_spread_of_group_means_is_found(spread: float) -> None:
    found = [Strata.of(sparse_release(seed, -5.0, spread)).common_mean()[1] for seed in range(50)]
    assert 0.7 * spread**2 < np.median(found) < 1.4 * spread**2


def test_equal_means_are_read_as_nearly_equal_whatever_the_noise_of_empty_groups() -> None:
    priors = [Strata.of(sparse_release(seed)).common_mean()[1] for seed in range(50)]
    assert np.median(priors) < 1.0


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(
    ("sums", "sizes", "shape"),
    [
        ([0.0], [0.0], (1,)),
        ([-3.0, 4.0], [-5.0, -9.0], (2,)),
        ([1e15, -1e15], [1e9, 2.0], (2,)),
        ([0.0, 0.0], [1.0, -1.0], (2,)),
        ([9.0, -9.0, 0.0, 1e6], [0.0, 0.0, 3.0, -1e5], (2, 2)),
        ([5.0] * 8, [0.0] * 8, (2, 2, 2)),
        ([5.0] * 16, [40.0] * 16, (2, 2, 2, 2)),
    ],
)
def test_any_noise_gives_ratios_within_reach(
    sums: list[float], sizes: list[float], shape: tuple[int, ...], columns: int
) -> None:
    n_groups = len(sums)
    given = NoisyRatios(
        np.tile(np.asarray(sums)[:, None], columns),
        np.asarray(sizes),
        np.full(n_groups, 4.0),
        1.0,
        10.0,
        np.zeros((n_groups, columns)),
    )
    ratios, overall = shrunken_ratios(given, shape)
    assert ratios.shape == (n_groups, columns)
    assert overall.shape == (columns,)
    assert np.abs(ratios).max() <= 10.0
    assert np.abs(overall).max() <= 10.0


def test_large_groups_keep_their_deviation_and_empty_ones_none() -> None:
    deviations = shrunken_deviation(np.array([5e6, 80.0, 80.0]), np.array([1e6, 0.0, -4.0]), 100.0, 1.0)
    assert deviations == pytest.approx([5.0, 0.0, 0.0], abs=1e-6)


def miss(found: Floats, rows: Any, means: Floats) -> float:
    """Return the mean miss over rows."""
    weights = np.asarray(rows, dtype=np.float64)
    return float(np.abs(found - means) @ weights / weights.sum())


def plain(release: NoisyRatios) -> Floats:
    return np.clip(release.sums[:, 0] / np.maximum(release.sizes, 1.0), -REACH, REACH)


def test_groups_far_above_the_noise_keep_their_own_ratio() -> None:
    means = np.linspace(-20, 20, 40)
    release = noisy(np.full(40, 1_000_000), means, 1)
    found, _ = shrunken_ratios(release, (40,))
    assert found[:, 0] == pytest.approx(plain(release), abs=1e-3)


def test_shrinking_never_loses_noticeably_to_the_plain_ratio_and_wins_where_groups_are_sparse() -> None:
    lost, won = [], []
    for seed in range(12):
        random = np.random.default_rng(seed)
        rows = np.exp(random.normal(5, 2, GROUPS)).astype(int)
        means = random.normal(-10, 5, GROUPS)
        for scale, ratios in ((0.05, lost), (4.0, won)):
            release = noisy(rows, means, seed, scale=scale)
            found, _ = shrunken_ratios(release, (GROUPS,))
            ratios.append(miss(found[:, 0], rows, means) / miss(plain(release), rows, means))
    assert np.mean(lost) < 1.03
    assert np.mean(won) < 0.8


def test_sparse_groups_lean_on_what_sparse_groups_have_in_common() -> None:
    """Busy places have short trips: the mean of all rows is the wrong parent of quiet places."""
    rows = np.r_[np.full(20, 20_000), np.full(245, 20)]
    means = np.r_[np.full(20, -20.0), np.full(245, 5.0)]
    found = [shrunken_ratios(noisy(rows, means, seed), (GROUPS,))[0][20:, 0].mean() for seed in range(10)]
    assert np.mean(found) == pytest.approx(5.0, abs=4.0)


def test_a_level_of_equal_groups_is_drawn_to_their_mean() -> None:
    shift, strength = fitted_level(noisy(np.full(GROUPS, 40), np.full(GROUPS, 7.0), 3))
    assert shift == pytest.approx([7.0], abs=2.0)
    assert strength > 40**2


def test_cells_of_two_keys_lean_on_both_parents() -> None:
    """Cells with effects of both keys: parents of 24 and 40 cells say more than the mean of all."""
    zone, hour = np.meshgrid(np.arange(40), np.arange(24), indexing="ij")
    means = (-8 + 10 * np.sin(zone) + 5 * np.cos(hour / 4)).reshape(-1)
    rows = np.full(40 * 24, 60)
    flat, nested = [], []
    for seed in range(4):
        release = noisy(rows, means, seed)
        flat.append(miss(shrunken_ratios(release, (960,))[0][:, 0], rows, means))
        nested.append(miss(shrunken_ratios(release, (40, 24))[0][:, 0], rows, means))
    assert np.mean(nested) < 0.6 * np.mean(flat)


def test_noise_that_a_sum_shares_with_its_size_moves_no_empty_group() -> None:
    """What a guess leaves unexplained has noise in common with the size; columns differ in it."""
    rows = np.where(np.arange(2000) < 50, 400, 0)
    drawn = noisy(rows, np.zeros(2000), 7, columns=2)
    guess = np.tile([20.0, -20.0], (2000, 1))
    left = NoisyRatios(
        drawn.sums + guess * rows[:, None],
        drawn.sizes,
        drawn.variance,
        drawn.size_variance,
        REACH,
        drawn.covariance,
    ).without(guess)
    assert left.covariance == pytest.approx(-guess * drawn.size_variance)
    assert fitted_level(left)[0] == pytest.approx([0.0, 0.0], abs=1.5)
    assert Strata.of(left).matched_shift(np.zeros(2), np.inf)[0] == pytest.approx([0.0, 0.0], abs=3.0)
