"""The least noise at which an event of several parts keeps to (epsilon, delta)."""

from collections.abc import Callable
from math import log, sqrt

from ptklib.accounting.conversion import renyi_epsilon
from ptklib.accounting.curves import ORDERS, renyi_curve
from ptklib.accounting.gaussian import gaussian_sigma
from ptklib.events import Event

_CLOSE = 1e-4
"""Relative error of the noise, always to the safe side."""


def least_multiplier(event: Callable[[float], Event], epsilon: float, delta: float) -> float:
    """Return the least noise multiplier at which the Rényi curve of `event` reaches epsilon at `delta`.

    Parameters
    ----------
    event
        Makes the event of a noise multiplier. Its curve falls as the multiplier grows, until it leaves room.
    epsilon, delta : float
        Checked; `delta` is positive.
    """
    whole = gaussian_sigma(epsilon, delta, 1.0)
    orders = _orders(whole, delta)

    def fits(multiplier: float) -> bool:
        return renyi_epsilon(orders, renyi_curve(event(multiplier), orders), delta) <= epsilon

    low = high = whole
    while not fits(high):
        low, high = high, 2 * high
    while fits(low):
        low, high = low / 2, low
    while high / low > 1 + _CLOSE:
        middle = sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _orders(whole: float, delta: float) -> tuple[float, ...]:
    """Return the orders of the ledger, and some near the best one of Gaussian noise of multiplier `whole`.

    Any order gives a valid bound; these decide how tight it is, also at an epsilon far below 0.01.
    """
    near = sqrt(log(1 / delta) * 2) * whole
    return (*ORDERS, *(1 + near * 2 ** (step / 16) for step in range(-48, 17)))
