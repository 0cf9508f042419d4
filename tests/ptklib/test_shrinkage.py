"""Reading noisy sums: the mean of all groups, and how much of a small group is its own."""

import numpy as np
import pytest

from ptklib.shrinkage import common_mean, shrunken_deviation

GROUPS, FULL = 265, 12


def sparse_release(seed: int, mean: float = -25.0, spread: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy centred sums and counts of a domain of which twelve groups hold 250 rows each."""
    random = np.random.default_rng(seed)
    rows = np.where(np.arange(GROUPS) < FULL, 250, 0)
    means = mean + spread * random.standard_normal(GROUPS)
    return rows * means + random.laplace(0, 170.0, GROUPS), rows + random.laplace(0, 8.0, GROUPS)


def test_the_common_mean_of_a_mostly_empty_domain_leans_on_the_groups_that_stand_out() -> None:
    errors, pooled = [], []
    for seed in range(50):
        sums, counts = sparse_release(seed)
        errors.append(common_mean(sums, counts, 2 * 170.0**2, 2 * 8.0**2, 30.0)[0] + 25)
        pooled.append(sums.sum() / counts.sum() + 25)
    assert np.sqrt(np.mean(np.square(errors))) < 0.5 * np.sqrt(np.mean(np.square(pooled)))


@pytest.mark.parametrize("spread", [2.0, 6.0])
def test_the_spread_of_group_means_is_found(spread: float) -> None:
    found = [
        common_mean(*sparse_release(seed, -5.0, spread), 2 * 170.0**2, 2 * 8.0**2, 30.0)[1]
        for seed in range(50)
    ]
    assert 0.7 * spread**2 < np.median(found) < 1.4 * spread**2


def test_equal_means_are_read_as_nearly_equal_whatever_the_noise_of_empty_groups() -> None:
    priors = [common_mean(*sparse_release(seed), 2 * 170.0**2, 2 * 8.0**2, 30.0)[1] for seed in range(50)]
    assert np.median(priors) < 1.0


@pytest.mark.parametrize(
    ("sums", "counts"),
    [([0.0], [0.0]), ([-3.0, 4.0], [-5.0, -9.0]), ([1e15, -1e15], [1e9, 2.0]), ([0.0, 0.0], [1.0, -1.0])],
)
def test_any_noise_gives_a_mean_within_bounds_and_a_positive_spread(
    sums: list[float], counts: list[float]
) -> None:
    common, prior = common_mean(np.array(sums), np.array(counts), 4.0, 1.0, 10.0)
    assert abs(common) <= 10.0
    assert 0 < prior <= 100 / 3


def test_large_groups_keep_their_deviation_and_empty_ones_none() -> None:
    deviations = shrunken_deviation(np.array([5e6, 80.0, 80.0]), np.array([1e6, 0.0, -4.0]), 100.0, 1.0)
    assert deviations == pytest.approx([5.0, 0.0, 0.0], abs=1e-6)
