"""The exact sampler for vectors draws from the laws it names, and so do its rare branches."""

import dataclasses
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
        assert abs(correlation) < 6 / np.sqrt(N - lag)  # six standard errors: a false alarm in 5 * 10**8


@pytest.mark.parametrize("scale", [7.3, 300.0])
def test_strips_that_16_bits_leave_open_follow_the_law(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    known = vectorised._strip_law

    def undecided(*key: Any) -> vectorised._Strips:
        strips = known(*key)
        return dataclasses.replace(strips, table=np.full_like(strips.table, -1))

    monkeypatch.setattr(vectorised, "_strip_law", undecided)
    assert discrete_laplace_pvalue(discrete_laplace(scale, N), scale) > FALSE_ALARM
    assert discrete_gaussian_pvalue(discrete_gaussian(scale, N), scale) > FALSE_ALARM


@pytest.mark.parametrize("scale", [40.0, 4096.0])
def test_acceptance_that_floats_leave_open_follows_the_law(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact comparison alone, which is slow: two scales with two ways to cut strips."""
    monkeypatch.setattr(vectorised, "_UNDECIDED", 2.0)
    noise = discrete_gaussian(scale, 8_000)
    assert discrete_gaussian_pvalue(noise, scale) > FALSE_ALARM
    assert discrete_gaussian_pvalue(noise, scale * 1.3) < FALSE_ALARM


@pytest.mark.parametrize("scale", [1.0, 19.0, 33.0, 300.0])
def test_no_place_in_a_strip_and_neither_sign_is_preferred(scale: float) -> None:
    """Cell by cell, where strips of width 1 to 38 would show as steps."""
    for noise, power in ((discrete_laplace(scale, 4 * N), 1), (discrete_gaussian(scale, 4 * N), 2)):
        reach = int(2 * scale) + 1
        cells = np.arange(-reach, reach + 1)
        wide = np.arange(-40 * int(scale + 1), 40 * int(scale + 1) + 1)
        mass = np.exp(-(np.abs(wide / scale) ** power) / power)
        expected = np.exp(-(np.abs(cells / scale) ** power) / power) / mass.sum() * len(noise)
        observed = np.bincount(np.clip(noise + reach + 1, 0, 2 * reach + 2), minlength=2 * reach + 3)
        rest = len(noise) - expected.sum()
        found = np.append(observed[1:-1], observed[0] + observed[-1])
        assert stats.chisquare(found, np.append(expected, rest)).pvalue > FALSE_ALARM
        swapped = np.append(expected[::-1] * (1 + 0.03 * np.sign(cells)), rest)
        assert stats.chisquare(found, swapped * found.sum() / swapped.sum()).pvalue < FALSE_ALARM


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
