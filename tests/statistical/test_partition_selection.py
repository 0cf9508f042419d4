"""Partition selection draws the laws it declares, and twins that do not are caught."""

import math

import numpy as np
import pytest
from scipy import stats

from ptklib.mechanisms import vectorised
from ptklib.mechanisms.partition import PartitionSelection, gaussian_selection, laplace_selection
from tests.statistical.tools import FALSE_ALARM, empirical_epsilon

KEYS = 60_000


def counts(rows: int, n_keys: int = KEYS) -> np.ndarray:
    """Return keys of so many rows, one cell of two."""
    return np.tile(np.array([[rows, 0]], dtype=np.int64), (n_keys, 1))


def none() -> np.ndarray:
    return np.zeros((0, 2), dtype=np.int64)


def share_rejected(selection: PartitionSelection, rows: int, chance: float) -> bool:
    """Return whether the number of keys that pass disagrees with a probability."""
    passed = len(selection.draw(none(), counts(rows))[2])
    low = stats.binom.cdf(passed, KEYS, chance)
    high = stats.binom.sf(passed - 1, KEYS, chance)
    return bool(min(low, high) < FALSE_ALARM / 2)


def sum_law(law: np.ndarray) -> np.ndarray:
    return np.convolve(law, law)


def laplace_chance(selection: PartitionSelection, rows: int) -> float:
    """Return the probability that a key passes, from the law of the truncated sum."""
    reach = int(50 * selection.scale)
    total = sum_law(np.exp(-np.abs(np.arange(-reach, reach + 1)) / selection.scale))
    x = np.arange(len(total)) - len(total) // 2
    kept = np.abs(x) <= selection.threshold
    return float(total[kept & (x + rows > selection.threshold)].sum() / total[kept].sum())


@pytest.mark.parametrize("rows", [1, 12, 16, 22])
def test_keys_pass_with_the_probability_of_truncated_noise(rows: int) -> None:
    selection = laplace_selection(sensitivity=1, epsilon=1.0, delta=1e-3, n_cells=2)
    chance = laplace_chance(selection, rows)
    assert not share_rejected(selection, rows, chance)
    if rows > 1:
        assert share_rejected(selection, rows, chance * 1.3 if chance < 0.7 else chance / 1.3)


def test_a_lower_threshold_lets_more_keys_of_one_row_pass_than_delta() -> None:
    selection = laplace_selection(sensitivity=1, epsilon=1.0, delta=1e-3, n_cells=2)
    assert not share_rejected(selection, 1, laplace_chance(selection, 1))
    lower = PartitionSelection("ThresholdedLaplace", selection.scale, 1, 2, selection.threshold - 3, 1e-3)
    passed = len(lower.draw(none(), counts(1))[2])
    assert stats.binom.sf(passed - 1, KEYS, 1e-3) < FALSE_ALARM


def test_keys_pass_with_the_probability_of_gaussian_noise() -> None:
    selection = gaussian_selection(sensitivity=1, scale=4.0, delta=1e-3, n_cells=2)
    law = np.exp(-(np.arange(-60, 61) ** 2) / 32)
    total = sum_law(law / law.sum())
    x = np.arange(len(total)) - len(total) // 2
    for rows in (selection.threshold - 6, selection.threshold + 4):
        chance = float(total[x + rows > selection.threshold].sum())
        assert not share_rejected(selection, rows, chance)
        assert share_rejected(selection, rows, chance / 1.3)


@pytest.mark.parametrize("halved", [False, True])
def test_released_counts_lose_no_more_than_they_declare(
    halved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys frequent enough to pass: one row more or less in one of their cells."""
    if halved:
        draw = vectorised.discrete_laplace
        monkeypatch.setattr(vectorised, "discrete_laplace", lambda scale, n: draw(scale / 2, n))
    selection = laplace_selection(sensitivity=1, epsilon=1.0, delta=1e-6, n_cells=2)

    def scores(rows: int) -> np.ndarray:
        noisy_known, noisy_new, passed = selection.draw(counts(rows, 6_000), counts(rows, 6_000))
        found = np.full(6_000, -math.inf)
        found[passed] = noisy_new[:, 0]
        return np.clip(np.concatenate([noisy_known[:, 0], found]), 79, 82)

    epsilon = empirical_epsilon(scores(81), scores(80))
    assert epsilon > 1.0 if halved else 0.3 < epsilon <= 1.0
