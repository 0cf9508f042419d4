"""Slacks and sizes of the profiler, against exact binomial and Laplace tails."""

import math

import numpy as np
import pytest
from scipy import stats

from ptklib.profiling.bounds import (
    CUT,
    REACH,
    SURE,
    chernoff_size,
    expected_size,
    high_line,
    laplace_quantile,
    low_line,
)

TARGETS = (0.002, 0.01, 0.05, 0.2, 0.45)


@pytest.mark.parametrize("target", TARGETS)
def test_losses_above_a_low_line_undercut_it_rarely_whatever_their_number_is(target: float) -> None:
    failure = 1e-3
    line = low_line(CUT * target, REACH * target, failure)
    sizes = np.unique(np.geomspace(1, 100 / target, 400).astype(int))
    # Coins are the worst of all losses in [0, 1] of a given mean.
    undercut = stats.binom.cdf(np.floor(sizes * line.centre - line.slack), sizes, REACH * target)
    assert undercut.max() <= failure
    assert undercut.max() >= failure / 20  # the line is no looser than it needs to be


@pytest.mark.parametrize("risk", TARGETS)
@pytest.mark.parametrize("expected", [200, 20_000])
def test_losses_below_a_high_line_exceed_it_rarely_whatever_their_number_is(
    risk: float, expected: int
) -> None:
    failure = 1e-3
    line = high_line(risk, expected, failure)
    assert line is not None
    sizes = np.unique(np.append(np.geomspace(1, 50 * expected, 400).astype(int), expected))
    exceeding = stats.binom.sf(np.ceil(sizes * line.centre + line.slack) - 1, sizes, risk)
    assert exceeding.max() <= failure
    at_expected = stats.binom.isf(failure, expected, risk)
    assert expected * line.centre + line.slack <= 1.6 * max(at_expected, 3)


def test_few_losses_have_no_high_line() -> None:
    assert high_line(0.1, 2, 1e-3) is None
    assert high_line(0.1, 3.1, 1e-3) is not None


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("slack", [5.0, 100.0])
def test_a_model_of_little_risk_is_found_at_the_chernoff_size(target: float, slack: float) -> None:
    failure = 1e-3
    size = chernoff_size(target, slack, failure)
    for n in (size, 2 * size):
        missed = stats.binom.sf(np.ceil(n * CUT * target - slack) - 1, n, SURE * target)
        assert missed <= failure
    # A third fewer would not do: the size is not a loose one.
    n = size * 2 // 3
    assert stats.binom.sf(np.ceil(n * CUT * target - slack) - 1, n, SURE * target) > failure


@pytest.mark.parametrize("least", [1, 50, 5000])
def test_a_bernoulli_sample_is_large_enough_but_rarely(least: int) -> None:
    expected = expected_size(least, 1e-3)
    for population in (math.ceil(expected), 100_000):
        assert stats.binom.cdf(least - 1, population, expected / population) <= 1e-3


@pytest.mark.parametrize("scale", [0.3, 2.0, 1e3, 1e7])
@pytest.mark.parametrize("failure", [1e-6, 1e-3, 0.3])
def test_noise_reaches_its_quantile_with_the_promised_probability(scale: float, failure: float) -> None:
    t = laplace_quantile(scale, failure)
    tail = math.exp(-t / scale) / (1 + math.exp(-1 / scale))
    before = math.exp(-(t - 1) / scale) / (1 + math.exp(-1 / scale))
    assert tail <= failure * (1 + 1e-9)
    assert t == 1 or before > failure
