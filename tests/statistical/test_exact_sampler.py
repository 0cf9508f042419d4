"""The sampler for long vectors draws from the laws it names, and so do its rare branches."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from ptklib.mechanisms import additive, vectorised
from ptklib.mechanisms.vectorised import discrete_gaussian, discrete_laplace
from tests.statistical.tools import FALSE_ALARM, discrete_gaussian_pvalue, discrete_laplace_pvalue

N = 200_000


def same_law_pvalue(one: Any, other: Any) -> float:
    """Chi-squared test that two samples have the same law, on quantiles of both together."""
    edges = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0.02, 0.98, 49)))
    cells = [np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) for x in (one, other)]
    table = np.stack(cells)
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


def uniform_pvalue(values: Any, n_values: int) -> float:
    return float(stats.chisquare(np.bincount(values, minlength=n_values)).pvalue)


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 7.3, 300.0, 2.0**20])
def test_long_laplace_vectors_follow_the_law(scale: float) -> None:
    noise = discrete_laplace(scale, N)
    if scale == 0.05:  # P(x != 0) is 4e-9
        assert np.count_nonzero(noise) <= 2
        return
    assert discrete_laplace_pvalue(noise, scale) > FALSE_ALARM
    assert discrete_laplace_pvalue(noise, scale * 1.05) < FALSE_ALARM


@pytest.mark.parametrize("scale", [0.6, 1.0, 7.3, 300.0])
def test_long_gaussian_vectors_follow_the_law(scale: float) -> None:
    noise = discrete_gaussian(scale, N)
    assert discrete_gaussian_pvalue(noise, scale) > FALSE_ALARM
    assert discrete_gaussian_pvalue(noise, scale * 1.05) < FALSE_ALARM


@pytest.mark.parametrize("scale", [0.7, 12.0, 1e5])
def test_opendp_draws_from_the_same_laws(scale: float) -> None:
    zeros = np.zeros(20_000, dtype=np.int64)
    for measurement, sampler in (
        (additive._laplace_measurement, discrete_laplace),
        (additive._gaussian_measurement, discrete_gaussian),
    ):
        oracle = np.asarray(measurement(scale)(zeros))
        assert same_law_pvalue(sampler(scale, N), oracle) > FALSE_ALARM
        assert same_law_pvalue(sampler(scale * 1.3, N), oracle) < FALSE_ALARM


@pytest.mark.parametrize("scale", [1e6, 2.0**47])
def test_fine_noise_is_continuous_laplace_and_its_low_digits_are_uniform(scale: float) -> None:
    noise = discrete_laplace(scale, N)
    assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(noise, stats.laplace(scale=scale * 1.1).cdf).pvalue < FALSE_ALARM
    assert uniform_pvalue(noise & 255, 256) > FALSE_ALARM
    assert uniform_pvalue(noise >> 4 & 255, 256) > FALSE_ALARM


def test_one_value_in_a_vector_says_nothing_about_another() -> None:
    noise = discrete_laplace(1e6, N).astype(np.float64)
    for lag in (1, 2, vectorised._CHUNK):
        correlation = np.corrcoef(noise[:-lag], noise[lag:])[0, 1]
        assert abs(correlation) < 4.9 / np.sqrt(N - lag)  # 4.9 standard errors: a false alarm in a million


def test_digits_that_16_bits_leave_open_follow_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    digits = vectorised._digits(300.0)
    undecided = tuple(
        vectorised._Digit(digit.x, np.full_like(digit.table, -1), digit.edges) for digit in digits
    )
    monkeypatch.setattr(vectorised, "_digits", lambda scale: undecided)
    assert discrete_laplace_pvalue(discrete_laplace(300.0, N), 300.0) > FALSE_ALARM


def test_acceptance_that_floats_leave_open_follows_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorised, "_UNDECIDED", 2.0)
    noise = discrete_gaussian(4.6, 8_000)
    assert discrete_gaussian_pvalue(noise, 4.6) > FALSE_ALARM
    assert discrete_gaussian_pvalue(noise, 4.6 * 1.3) < FALSE_ALARM


@pytest.mark.soak
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.3, 300.0, 2.0**20])
def test_long_vectors_follow_the_law_over_many_draws(scale: float) -> None:
    noise = discrete_laplace(scale, 30_000_000)
    assert discrete_laplace_pvalue(noise, scale) > FALSE_ALARM
    assert discrete_laplace_pvalue(noise, scale * 1.003) < FALSE_ALARM
    if 0.5 < scale < 1e4:
        wide = discrete_gaussian(scale, 30_000_000)
        assert discrete_gaussian_pvalue(wide, scale) > FALSE_ALARM
        assert discrete_gaussian_pvalue(wide, scale * 1.003) < FALSE_ALARM
