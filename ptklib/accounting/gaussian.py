"""Calibration of discrete Gaussian noise to (epsilon, delta) by zero-concentrated DP, at any scale."""

import math
from collections.abc import Callable
from functools import lru_cache

from ptklib.accounting.conversion import renyi_epsilon
from ptklib.accounting.curves import renyi_curve
from ptklib.events import DiscreteGaussian
from ptklib.exceptions import PrivacyParameterError
from ptklib.privacy import check_delta, check_epsilon
from ptklib.scalars import finite_number


def gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """Return the epsilon at `delta` of Gaussian noise of ``noise_multiplier`` L2 sensitivities, rounded up.

    Notes
    -----
    Any order gives a valid bound, so the orders below decide how tight the answer is, never whether it is
    valid. The best order of a zCDP curve is near ``1 + sqrt(ln(1 / delta) / rho)``.
    """
    multiplier = finite_number(noise_multiplier, "noise_multiplier")
    if multiplier <= 0 or not 0 < delta < 1:
        raise PrivacyParameterError("a Gaussian needs a positive noise multiplier and delta in (0, 1)")
    rho = 1 / (2 * multiplier * multiplier)
    near = math.sqrt(math.log(1 / delta) / rho)
    orders = [
        1 + near * 2 ** (step / 64) for step in range(-192, 65) if 0.02 < near * 2 ** (step / 64) < 1e12
    ]
    event = DiscreteGaussian(scale=multiplier, l2_sensitivity=1.0)
    return renyi_epsilon(orders, renyi_curve(event, orders), delta)


def gaussian_sigma(epsilon: float, delta: float, l2_sensitivity: float) -> float:
    """Return a scale of discrete Gaussian noise that promises (epsilon, delta), rounded up.

    It is proportional to the sensitivity. `analytic.gaussian_multiplier` needs less noise unless scales are small.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", Theorem 4 with
       Proposition 12.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    sensitivity = finite_number(l2_sensitivity, "l2_sensitivity")
    if delta == 0:
        raise PrivacyParameterError("Gaussian noise needs delta > 0")
    if sensitivity <= 0:
        raise PrivacyParameterError("l2_sensitivity must be positive")
    return _least_multiplier(epsilon, delta) * sensitivity * (1 + 1e-12)


@lru_cache(maxsize=256)
def _least_multiplier(epsilon: float, delta: float) -> float:
    return least_noise(lambda multiplier: gaussian_epsilon(multiplier, delta) <= epsilon)


def least_noise(enough: Callable[[float], bool]) -> float:
    """Return about the least noise multiplier that is enough, from above; more noise stays enough."""
    low, high = 1e-3, 1.0
    while not enough(high):
        low, high = high, 2 * high
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
