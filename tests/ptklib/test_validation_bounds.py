"""Confidence bounds of a loss from noisy sums: they hold at every size, also with no row at all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from ptklib.exceptions import InvalidParameterError
from ptklib.profiling import LossEstimate
from ptklib.profiling.estimates import UNITS
from ptklib.validation import lower_bound, upper_bound
from ptklib.validation.bounds import COUNT, NOISE, SAMPLING, laplace_tail
from tests.support.noisy_sums import allowed, noisy_sums


def whole(n: float, mean: float, epsilon: float) -> LossEstimate:
    return LossEstimate(epsilon, round(n * mean * UNITS), round(n * (1 - mean) * UNITS))


def test_the_shares_of_the_failure_are_one_in_all():
    assert math.fsum((SAMPLING, NOISE, COUNT)) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(("first", "second"), [(1, 0), (0.97, 0.03), (0.5, 0.5), (0.3, 0.7), (1, 1)])
@pytest.mark.parametrize("failure", [0.4, 0.02, 1e-6])
def test_the_tail_of_two_laplace_numbers_is_exact(first: float, second: float, failure: float):
    t = laplace_tail(first, second, failure)
    if second == 0:
        beyond = stats.laplace.sf(t / first)
    else:  # where the second number is y, the first must exceed (t - second * y) / first
        beyond, _ = integrate.quad(
            lambda y: stats.laplace.pdf(y) * stats.laplace.sf((t - second * y) / first),
            -80,
            80,
            points=[0, t / second],
            limit=400,
        )
    assert beyond == pytest.approx(failure, rel=1e-4)
    assert beyond <= failure * (1 + 1e-4)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e-9, 0.45), st.floats(0.01, 40))
def test_the_tail_grows_with_the_larger_weight(one: float, other: float, failure: float, scale: float):
    """The certificate of an interval of means takes the tail at its ends."""
    near, far = sorted((one, other), key=lambda weight: max(weight, 1 - weight))
    assert laplace_tail(near, 1 - near, failure) <= laplace_tail(far, 1 - far, failure) * (1 + 1e-9)
    assert laplace_tail(scale * near, scale * (1 - near), failure) == pytest.approx(
        scale * laplace_tail(near, 1 - near, failure), rel=1e-9
    )


@pytest.mark.parametrize("epsilon", [0.1, 5.0])
@pytest.mark.parametrize("n", [0, 20, 2_000])
@pytest.mark.parametrize("mean", [0.02, 0.3, 0.9])
def test_the_bound_is_below_the_truth_as_rarely_as_it_says(epsilon: float, n: int, mean: float):
    """False alarm once in 10**6 for each case."""
    failure, tries = 0.1, 500
    random = np.random.default_rng(n)
    units = random.poisson(n, tries)
    sums = noisy_sums(random.binomial(units, mean), units, epsilon)
    assert sum(upper_bound(one, failure) < mean for one in sums) <= allowed(failure, tries)
    assert sum(lower_bound(one, failure) > mean for one in sums) <= allowed(failure, tries)


def test_the_noise_is_counted():
    """Losses that do not vary: all that can go wrong is noise, and without its share the bound fails."""
    failure, tries, n, mean = 0.1, 1_000, 1_000, 0.5
    sums = noisy_sums(np.full(tries, n * mean), np.full(tries, n), 0.01)
    wrong = sum(upper_bound(one, failure) < mean for one in sums)
    unaware = sum(one.lost / (one.lost + one.kept) + 0.01 < mean for one in sums)
    assert 0 < wrong <= allowed(failure, tries) < unaware


@settings(max_examples=60)
@given(st.floats(0, 1), st.floats(1, 1e7), st.floats(0.01, 10), st.floats(1e-6, 0.5))
def test_a_bound_lies_on_its_side_of_the_mean(mean: float, n: float, epsilon: float, failure: float):
    sums = whole(n, mean, epsilon)
    assert 0 <= lower_bound(sums, failure) <= mean + 2 / UNITS
    assert mean - 2 / UNITS <= upper_bound(sums, failure) <= 1


@settings(max_examples=60)
@given(st.floats(0, 0.9), st.floats(100, 1e6), st.floats(0.05, 5))
def test_more_units_and_more_certainty_move_the_bound_the_right_way(mean: float, n: float, epsilon: float):
    bound = upper_bound(whole(n, mean, epsilon), 0.05)
    assert upper_bound(whole(4 * n, mean, epsilon), 0.05) <= bound + 1e-6
    assert upper_bound(whole(n, mean, epsilon), 0.005) >= bound - 1e-6


@pytest.mark.parametrize(
    ("lost", "kept"), [(0, 0), (-900, -900), (-900, 0), (0, -900), (5, -5), (-(2**40), 2**40)]
)
def test_noise_alone_shows_nothing(lost: int, kept: int):
    sums = LossEstimate(0.01, lost * UNITS, kept * UNITS)
    assert upper_bound(sums, 0.05) == 1.0
    assert lower_bound(sums, 0.05) == 0.0


def test_the_bound_comes_close_to_the_mean():
    assert upper_bound(whole(1e9, 0.2, 1.0), 0.05) == pytest.approx(0.2, abs=1e-4)
    assert lower_bound(whole(1e9, 0.2, 1.0), 0.05) == pytest.approx(0.2, abs=1e-4)


@pytest.mark.parametrize("failure", [0, 1, -0.1, 2, math.nan])
def test_a_failure_probability_is_one(failure: float):
    with pytest.raises(InvalidParameterError):
        upper_bound(whole(10, 0.1, 1.0), failure)
