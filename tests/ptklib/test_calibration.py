"""Calibration: the least noise that keeps to (epsilon, delta), by the curve of a whole event."""

import pytest

from ptklib.accounting import ORDERS, least_multiplier, renyi_curve, renyi_epsilon
from ptklib.events import DiscreteGaussian, Event, PoissonSampled

FINE = (*ORDERS, *range(64, 1024))


def rounds(multiplier: float, rate: float = 0.01, count: int = 500) -> Event:
    noise = DiscreteGaussian(scale=multiplier * 1024, l2_sensitivity=1024)
    return PoissonSampled(sampling_rate=rate, event=noise, count=count)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (8.0, 1e-5)])
def test_the_noise_found_keeps_the_promise_and_a_little_less_does_not(epsilon: float, delta: float) -> None:
    found = least_multiplier(rounds, epsilon, delta)
    assert renyi_epsilon(FINE, renyi_curve(rounds(found), FINE), delta) <= epsilon * 1.002
    assert renyi_epsilon(FINE, renyi_curve(rounds(found * 0.98), FINE), delta) > epsilon
